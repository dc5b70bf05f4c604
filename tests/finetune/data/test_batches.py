"""Plans of batches: every row once an epoch, padded to the right length, repeatable."""

import numpy as np
import pytest

from finetune.data.batches import (
    BatchPlan,
    FeatureTable,
    count_steps,
    make_dataset,
    plan_evaluation,
    plan_training_batches,
)
from finetune.data.features import FeatureSpec, sequence_specs

BUCKETS = (4, 8, 16)


@pytest.mark.parametrize(
    ("examples", "batch_size", "epochs", "steps"),
    [(2490, 32, 10, 780), (64, 32, 3, 6), (10, 32, 3, 3), (100, 32, 0.6, 2), (10, 32, 0.5, 0)],
)
def test_steps_are_counted_as_by_the_authors(examples, batch_size, epochs, steps):
    """They fill the last batch of an epoch: `n_examples // batch_size * num_train_epochs`."""
    assert count_steps(examples, batch_size, epochs) == steps


def make_rows(lengths: list[int]) -> list[dict]:
    return [
        {
            "input_ids": np.arange(1, n + 1, dtype=np.int32) + 100 * i,
            "segment_ids": np.ones(n, np.int32),
            "t_label_ids": i,
            "t_targets": np.array([i, 0.5], np.float32),
        }
        for i, n in enumerate(lengths)
    ]


def test_rows_of_several_sequences_have_the_mask_of_each():
    """A row that lacks one has a mask of zeros; the longest sequence decides on the bucket."""
    rows = [
        {
            "input_ids": np.array([2, 3], np.int32),
            "segment_ids": np.array([0, 0], np.int32),
            "input_ids/1": np.array([2, 7, 8, 9, 3], np.int32),
            "segment_ids/1": np.array([0, 0, 1, 1, 1], np.int32),
        },
        {"input_ids": np.array([2, 5, 3], np.int32), "segment_ids": np.zeros(3, np.int32)},
    ]
    table = FeatureTable([rows[:1], rows[1:]], [sequence_specs(2), ()])
    assert table.row_lengths.tolist() == [5, 3]
    plan = plan_evaluation(table.row_lengths, batch_size=2, buckets=BUCKETS)
    assert plan.lengths.tolist() == [8]
    batch = {name: value.numpy() for name, value in table.gather(np.arange(2), 8).items()}
    assert batch["input_mask"].tolist() == [[1, 1, 0, 0, 0, 0, 0, 0], [1, 1, 1, 0, 0, 0, 0, 0]]
    assert batch["input_mask/1"].tolist() == [[1, 1, 1, 1, 1, 0, 0, 0], [0] * 8]
    assert batch["input_ids/1"].tolist() == [[2, 7, 8, 9, 3, 0, 0, 0], [0] * 8]
    assert batch["segment_ids/1"].tolist() == [[0, 0, 1, 1, 1, 0, 0, 0], [0] * 8]


SPECS = (FeatureSpec("t_label_ids"), FeatureSpec("t_targets", "float32", size=2))


@pytest.fixture
def lengths() -> np.ndarray:
    return np.random.default_rng(3).integers(2, 17, size=203).astype(np.int32)


def test_each_epoch_of_training_holds_every_row_once(lengths):
    plan = plan_training_batches(
        lengths, batch_size=7, num_steps=2 * 29, buckets=BUCKETS, seed=5
    )
    assert plan.rows.shape == (58, 7)
    # 29 batches of 7 are the 203 rows.
    for epoch in (plan.rows[:29], plan.rows[29:]):
        assert np.bincount(epoch.ravel(), minlength=203).tolist() == [1] * 203


def test_copies_of_a_row_do_not_meet_in_a_batch_because_they_have_the_same_length():
    """A small data set has many epochs within `WINDOW_BATCHES` batches."""
    lengths = np.random.default_rng(0).integers(2, 17, size=80).astype(np.int32)
    for batch_size in (16, 24):
        plan = plan_training_batches(
            lengths, batch_size=batch_size, num_steps=100, buckets=BUCKETS, seed=1
        )
        for step, rows in enumerate(plan.rows):
            first, last = step * batch_size // 80, ((step + 1) * batch_size - 1) // 80
            # Only the end of an epoch may bring two copies together, by chance.
            assert first < last or len(set(rows)) == batch_size
        updates = np.bincount(np.concatenate([np.unique(rows) for rows in plan.rows]))
        assert updates.min() >= 100 * batch_size // 80 - 3


def test_a_batch_is_padded_to_the_first_bucket_that_holds_it(lengths):
    plan = plan_training_batches(lengths, batch_size=7, num_steps=40, buckets=BUCKETS, seed=5)
    for rows, length in zip(plan.rows, plan.lengths, strict=True):
        longest = lengths[rows].max()
        assert length == min(bucket for bucket in BUCKETS if bucket >= longest)


def test_bucketing_pads_less_than_fixed_length(lengths):
    bucketed = plan_training_batches(
        lengths, batch_size=8, num_steps=50, buckets=BUCKETS, seed=0
    )
    fixed = plan_training_batches(lengths, batch_size=8, num_steps=50, buckets=(16,), seed=0)

    def padding(plan: BatchPlan) -> int:
        return plan.rows.shape[1] * plan.lengths.sum() - lengths[plan.rows].sum()

    assert padding(bucketed) < 0.5 * padding(fixed)


def test_the_order_follows_from_the_seed(lengths):
    def plan(seed: int) -> np.ndarray:
        return plan_training_batches(
            lengths, batch_size=7, num_steps=30, buckets=BUCKETS, seed=seed
        ).rows

    assert np.array_equal(plan(1), plan(1))
    assert not np.array_equal(plan(1), plan(2))


def test_fewer_rows_than_a_batch_are_repeated():
    plan = plan_training_batches(
        np.array([3, 5], np.int32), batch_size=5, num_steps=2, buckets=(8,), seed=0
    )
    assert np.bincount(plan.rows.ravel()).tolist() == [5, 5]


def test_evaluation_holds_every_row_once_and_fills_the_last_batch(lengths):
    plan = plan_evaluation(lengths, batch_size=16, buckets=BUCKETS)
    kept = [row for rows, n in zip(plan.rows, plan.counts, strict=True) for row in rows[:n]]
    assert sorted(kept) == list(range(203))
    assert plan.counts.tolist() == [16] * 12 + [11]
    assert plan.rows.shape == (13, 16)


def test_a_row_beyond_the_buckets_is_an_error():
    with pytest.raises(ValueError, match="17 tokens"):
        plan_evaluation(np.array([17], np.int32), batch_size=2, buckets=BUCKETS)


def test_batches_hold_the_rows_padded_with_zeros():
    lengths = [3, 2, 7]
    table = FeatureTable([make_rows(lengths)], [SPECS])
    plan = plan_evaluation(table.row_lengths, batch_size=2, buckets=BUCKETS)
    first, second = make_dataset(table, plan)
    assert first["input_ids"].numpy().tolist() == [[101, 102, 0, 0], [1, 2, 3, 0]]
    assert first["input_mask"].numpy().tolist() == [[1, 1, 0, 0], [1, 1, 1, 0]]
    assert first["segment_ids"].numpy().tolist() == [[1, 1, 0, 0], [1, 1, 1, 0]]
    assert first["t_label_ids"].numpy().tolist() == [1, 0]
    assert first["t_targets"].numpy().tolist() == [[1, 0.5], [0, 0.5]]
    assert second["input_ids"].shape == (2, 8)


def test_rows_of_other_tasks_have_zeros_and_their_own_task_id():
    other = [{**row, "u_targets": 2.5} for row in make_rows([4])]
    for row in other:
        del row["t_label_ids"], row["t_targets"]
    table = FeatureTable(
        [make_rows([3]), other], [SPECS, (FeatureSpec("u_targets", "float32"),)]
    )
    batch = table.gather(np.array([0, 1]), 4)
    assert batch["task_id"].numpy().tolist() == [0, 1]
    assert batch["u_targets"].numpy().tolist() == [0, 2.5]
    assert batch["t_targets"].numpy().tolist() == [[0, 0.5], [0, 0]]


def test_a_dataset_can_start_at_any_step(lengths):
    table = FeatureTable([make_rows(lengths.tolist())], [SPECS])
    plan = plan_training_batches(lengths, batch_size=7, num_steps=6, buckets=BUCKETS, seed=5)
    whole = list(make_dataset(table, plan))
    rest = list(make_dataset(table, plan, 4))
    assert len(rest) == 2
    assert np.array_equal(rest[0]["input_ids"], whole[4]["input_ids"])
