"""Masking a batch, on inputs that tests/reference lacks."""

import numpy as np
import pytest
import tensorflow as tf

from electra_tf.config.hyperparameters import NoHparams
from electra_tf.config.pretraining import PretrainingConfig
from electra_tf.masking.base import MaskingOrder, MaskingStrategy
from electra_tf.masking.masked_batch import (
    DEFAULT_MASKING,
    candidates_mask,
    mask,
    mask_batch,
    masked_positions,
    unmask,
)
from electra_tf.model import randomness
from electra_tf.model.batch_types import PretrainInputs, SpecialTokenIds
from electra_tf.model.randomness import Randomness

SPECIAL = SpecialTokenIds(cls=2, sep=3, mask=4)
LENGTH = 32


def rows(lengths: list[int]) -> PretrainInputs:
    """Returns rows of [CLS], the ids 10, 11, …, [SEP] and padding."""
    ids = np.zeros((len(lengths), LENGTH), np.int32)
    for row, length in enumerate(lengths):
        ids[row, :length] = [2, *range(10, 8 + length), 3][:length]
    mask = (ids > 0).astype(np.int32)
    return PretrainInputs(tf.constant(ids), tf.constant(mask), tf.zeros_like(ids))


def masked(inputs: PretrainInputs, step: int = 0, **options) -> PretrainInputs:
    settings = {"mask_prob": 0.15, "max_predictions_per_seq": 5, **options}
    key = randomness.make_key(0, step, "masking")
    return mask(inputs, SPECIAL, key, **settings)


def test_masks_the_share_without_duplicates_and_never_special_tokens():
    inputs = rows([32, 20, 8] * 50)
    result = masked(inputs)
    positions, weights = result.masked_lm_positions.numpy(), result.masked_lm_weights.numpy()
    # round(0.15 * length); 4.8 -> 5, 3, 1.2 -> 1
    np.testing.assert_array_equal(np.sum(weights, axis=1)[:3], [5, 3, 1])
    original = inputs.input_ids.numpy()
    for row in range(len(positions)):
        used = positions[row][weights[row] > 0]
        assert len(set(used)) == len(used)
        assert np.all(original[row][used] >= 10)
        np.testing.assert_array_equal(
            result.masked_lm_ids.numpy()[row][weights[row] > 0], original[row][used]
        )
    changed = result.input_ids.numpy() != original
    assert np.all(result.input_ids.numpy()[changed] == SPECIAL.mask)
    assert np.sum(changed) / np.sum(weights) == pytest.approx(0.85, abs=0.05)
    np.testing.assert_array_equal(unmask(result).input_ids, original)


@pytest.mark.parametrize("with_replacement", [False, True])
def test_every_candidate_is_drawn_alike(with_replacement):
    inputs = rows([12] * 2000)
    result = masked(inputs, mask_prob=0.3, with_replacement=with_replacement)
    positions = result.masked_lm_positions.numpy()[result.masked_lm_weights.numpy() > 0]
    counts = np.bincount(positions, minlength=LENGTH)[1:11]
    assert np.sum(counts) == positions.size == 2000 * 4
    expected = positions.size / 10
    # 99.9 % point of chi-square with 9 degrees of freedom.
    assert np.sum((counts - expected) ** 2 / expected) < 27.9


def test_rows_with_few_candidates_or_none():
    result = masked(rows([3, 2, 0]), mask_prob=0.9)
    np.testing.assert_array_equal(result.masked_lm_weights, [[1, 0, 0, 0, 0], [0] * 5, [0] * 5])
    assert result.masked_lm_positions.numpy()[0, 0] == 1
    replaced = masked(rows([3, 2, 0]), mask_prob=0.9, with_replacement=True)
    assert np.sum(replaced.masked_lm_weights.numpy()[1:]) == 0


def test_more_slots_than_tokens():
    result = masked(rows([32]), mask_prob=0.99, max_predictions_per_seq=40)
    assert result.masked_lm_positions.shape == (1, 40)
    assert np.sum(result.masked_lm_weights) == 30


def test_masks_follow_from_the_key_and_the_rows_place():
    inputs = rows([32] * 4)
    whole = masked(inputs)
    second_half = PretrainInputs(*(x[2:] for x in inputs[:3]))
    half = masked(second_half, first_example=2)
    np.testing.assert_array_equal(half.input_ids, whole.input_ids[2:])
    assert np.any(masked(inputs, step=1).input_ids != whole.input_ids)


def test_candidates_are_real_tokens_that_are_not_disallowed():
    inputs = rows([6, 4])
    candidates = candidates_mask(inputs, SPECIAL)[:, :6].numpy()
    np.testing.assert_array_equal(candidates, [[0, 1, 1, 1, 1, 0], [0, 1, 1, 0, 0, 0]])
    disallow = tf.constant(np.arange(LENGTH) == 2)[None]
    candidates = candidates_mask(inputs, SPECIAL, disallow)[:, :6].numpy()
    np.testing.assert_array_equal(candidates, [[0, 1, 0, 1, 1, 0], [0, 1, 0, 0, 0, 0]])


def test_masked_positions_are_those_of_used_slots():
    inputs = rows([6, 4])._replace(
        masked_lm_positions=tf.constant([[4, 2, 0], [1, 0, 0]]),
        masked_lm_weights=tf.constant([[1.0, 1.0, 0.0], [1.0, 0.0, 0.0]]),
    )
    expected = np.zeros([2, LENGTH])
    expected[0, [2, 4]] = expected[1, 1] = 1
    np.testing.assert_array_equal(masked_positions(inputs), expected)


def test_a_batch_of_a_shorter_length_has_fewer_slots():
    config = PretrainingConfig.create(
        data_dir="data", model_name="test", max_seq_length=64, max_predictions_per_seq=10
    )
    features = dict(zip(PretrainInputs._fields[:3], rows([32] * 3)[:3], strict=True))
    result = mask_batch(
        config, SPECIAL, DEFAULT_MASKING, features, randomness=Randomness(seed=0, step=0)
    )
    assert result.masked_lm_positions.shape == (3, 5)


def test_a_batch_may_be_arrays_of_any_integer_type():
    config = PretrainingConfig.create(data_dir="data", model_name="test", max_seq_length=LENGTH)
    given = dict(zip(PretrainInputs._fields[:3], rows([32, 20])[:3], strict=True))
    arrays = {name: value.numpy().astype(np.int64) for name, value in given.items()}
    wanted, found = (
        mask_batch(config, SPECIAL, DEFAULT_MASKING, batch, randomness=Randomness(0, 0))
        for batch in (given, arrays)
    )
    for one, other in zip(wanted, found, strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    ("priority", "units", "message"),
    [
        ([LENGTH], None, r"Order\.order: priority must be .* \[2, 32\], not \[32\]"),
        ([2, 1], None, r"priority must be .*, not \[2, 1\]"),
        ([2, LENGTH], [LENGTH], r"units must be .*, not \[32\]"),
    ],
)
def test_an_order_that_is_not_of_every_position_is_refused(priority, units, message):
    class Order(MaskingStrategy):
        def order(self, input_ids, candidates, key, first_example):
            of_units = None if units is None else tf.zeros(units, tf.int32)
            return MaskingOrder(tf.zeros(priority), of_units)

    with pytest.raises(ValueError, match=message):
        masked(rows([8, 20]), strategy=Order(NoHparams(), None))


@pytest.mark.parametrize("units", [False, True])
@pytest.mark.parametrize("lowest", [-np.inf, np.nan, np.float32(np.finfo(np.float32).min)])
def test_candidates_of_the_lowest_priority_come_before_special_tokens_and_padding(
    lowest, units
):
    class EveryThird(MaskingStrategy):
        """Gives most positions, candidates or not, no priority."""

        def order(self, input_ids, *_: object) -> MaskingOrder:
            numbers = tf.range(tf.shape(input_ids)[1])[None] + 0 * input_ids
            priority = tf.where(numbers % 3 == 1, 1.0, lowest)
            return MaskingOrder(priority, numbers if units else None)

    inputs = rows([20])
    result = masked(
        inputs,
        mask_prob=0.5,
        max_predictions_per_seq=10,
        strategy=EveryThird(NoHparams(), None),
    )
    positions = result.masked_lm_positions.numpy()[0]
    assert np.sum(result.masked_lm_weights) == 10
    assert set(positions[:6]) == {1, 4, 7, 10, 13, 16}
    assert np.all(inputs.input_ids.numpy()[0][positions] >= 10)
