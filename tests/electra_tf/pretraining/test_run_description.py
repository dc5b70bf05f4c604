"""What a run prints of itself, and warns of, before its first step."""

import types

import pytest

from electra_tf.config.encoder import EncoderConfig
from electra_tf.config.phases import Stage
from electra_tf.config.recorded_settings import Change
from electra_tf.pretraining.run_description import (
    _warn_of_few_predictions,
    _warn_of_long_warmup,
    _warn_of_one_segment,
    _warn_of_zero_weights,
    describe_held_out,
    describe_moved_position,
)
from electra_tf.util.console import warn_once


@pytest.mark.parametrize(
    ("num_warmup_steps", "stages", "said"),
    [
        (50, [100], ""),
        (0, [1], ""),
        (51, [100], "peaks at 0.00049, below"),
        (10_000, [100], "peaks at 2.5e-06, below"),
        # The schedule starts anew in each stage.
        (50, [200, 60], "50 is too long for 60 training steps"),
    ],
)
def test_a_warmup_that_takes_most_of_the_run(
    make_config, num_warmup_steps, stages, said, capsys
):
    config = make_config(num_train_steps=sum(stages), num_warmup_steps=num_warmup_steps)
    _warn_of_long_warmup(config, [Stage("stage", steps) for steps in stages])
    error = capsys.readouterr().err
    assert said in error
    assert bool(error) == bool(said)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"mask_prob": 0.5}, ""),
        ({"mask_prob": 0.5, "max_predictions_per_seq": 8}, ""),
        (
            {"mask_prob": 0.5, "max_predictions_per_seq": 2},
            "=2 masks at most 2 of 16 tokens (12%), fewer than --mask_prob=0.5",
        ),
        (
            {"mask_prob_end": 0.4, "max_predictions_per_seq": 2},
            "fewer than --mask_prob_end=0.4",
        ),
    ],
    ids=["default", "high", "low", "schedule"],
)
def test_a_limit_below_the_masking_rate(make_config, settings, said, capsys):
    _warn_of_few_predictions(make_config(**settings))
    error = capsys.readouterr().err
    assert said in error
    assert bool(error) == bool(said)


@pytest.mark.parametrize(("size", "warns"), [(1, True), (2, False)])
def test_a_model_without_a_second_segment(size, warns, capsys):
    warn_once.cache_clear()
    _warn_of_one_segment(EncoderConfig(type_vocab_size=size))
    assert ("get no segment embedding" in capsys.readouterr().err) == warns


@pytest.mark.parametrize(
    ("deviation", "start", "warns"),
    [(0.0, None, True), (0.0, "published", False), (0.02, None, False)],
)
def test_weights_that_all_start_at_0(make_config, deviation, start, warns, capsys):
    warn_once.cache_clear()
    encoder = EncoderConfig(initializer_range=deviation)
    _warn_of_zero_weights(make_config(init_checkpoint=start), encoder)
    assert ("initializer_range=0 in --model" in capsys.readouterr().err) == warns


@pytest.mark.parametrize(
    ("total", "described"),
    [
        (None, "files"),
        (16, "files, 16 examples"),
        (50, "files, the first 16 of 50 examples (--num_eval_steps=2)"),
    ],
)
def test_the_examples_of_an_evaluation_are_told(make_config, total, described):
    records = types.SimpleNamespace(
        describe=lambda length: "files", num_examples=lambda length: total
    )
    assert describe_held_out(make_config(num_eval_steps=2), records) == described


def test_examples_that_another_batch_size_skips_or_repeats_are_counted(make_config):
    records = types.SimpleNamespace(num_examples=lambda length: {8: 400, 16: None}[length])
    stages = [Stage("all", 100)]

    def describe(before: int, step: int, name: str = "train_batch_size", **changes) -> list:
        config = make_config(num_train_steps=100, train_batch_size=8, **changes)
        changed = [Change(name, before, 8, "training")]
        return describe_moved_position(config, stages, changed, step, records)

    assert describe(4, 10) == [
        "Data:    continues after example 80 of 16 tokens (10 steps of 8); 10 steps of 4 have "
        "read 40, so 40 examples are skipped"
    ]
    short = {"length_curriculum": (8,), "length_curriculum_share": 0.5}
    (line,) = describe(12, 10, **short)
    assert line.endswith("so 40 examples (0.1 epochs of 400) are trained on again")
    # Records of a length are read from the first one.
    assert describe(4, 50, **short) == []
    assert describe(4, 51, **short)[0].startswith("Data:    continues after example 8 of 16")
    assert describe(4, 0) == describe(4, 100) == describe(4, 10, "seed") == []
    # Of 60 steps, 30 were short; of 100, the 10 long ones after them are, too.
    (line,) = describe(60, 40, "num_train_steps", **short)
    assert line.endswith(
        "of 8 tokens (40 steps of 8); 30 steps of 8 have read 240, so 80 examples (0.2 epochs "
        "of 400) are skipped"
    )
    assert describe(60, 40, "num_train_steps") == []
    (line,) = describe([], 60, "length_curriculum", **short)
    assert line.endswith("60 steps of 8 have read 480, so 400 examples are trained on again")


def test_other_records_are_read_from_where_the_run_is(make_config):
    config = make_config(num_train_steps=100, train_batch_size=8)
    change = Change("data", {"16": "a"}, {"16": "b"}, "training")

    def describe(step: int) -> list[str]:
        return describe_moved_position(config, [Stage("all", 100)], [change], step, None)

    (line,) = describe(10)
    assert "reading starts after example 80 of 16 tokens" in line
    assert describe(0) == []
