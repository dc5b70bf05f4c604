"""The phases of a run and the batches of its evaluation, without its model."""

import contextlib
import types

import keras
import numpy as np
import pytest
import tensorflow as tf

from electra_tf.config.phases import Phase, Stage
from electra_tf.pretraining.evaluation import HeldOutResult, held_out_batches
from electra_tf.pretraining.phases import PretrainingPhases
from electra_tf.text.framing import ENCODER_INPUTS
from electra_tf.training.learning_rate import (
    StagedSchedule,
    WarmupPolynomialDecay,
    last_learning_rate,
)
from electra_tf.training.optimizer import make_optimizer
from electra_tf.util.console import discard
from electra_tf.util.errors import UserError
from flags.records import held_out_records


class Reader:
    """Stands for an evaluator, and keeps the ids that it is given."""

    def __init__(self) -> None:
        self.read: list[np.ndarray] = []

    def run(self, batches, num_batches):
        self.read.append(np.stack([each["input_ids"].numpy() for each in batches]))
        return HeldOutResult({"loss": 1.0}, None)


def test_held_out_batches_are_built_once_and_read_from_the_first(
    make_config, tiny_data, monkeypatch
):
    config = make_config(eval_tfrecords=str(tiny_data / "pretrain_tfrecords/*"))
    records = held_out_records(config)
    built = []
    batches = type(records).batches
    monkeypatch.setattr(
        type(records),
        "batches",
        lambda self, **settings: built.append(settings) or batches(self, **settings),
    )
    strategy, reader = tf.distribute.get_strategy(), Reader()
    phases = PretrainingPhases(
        config, None, None, None, None, records, records, strategy, None, print, reader
    )
    for _ in range(3):
        assert phases.evaluate().values == {"loss": 1.0}
    assert len(built) == 1
    first, second, third = reader.read
    assert first.shape[1:] == (8, 16)
    assert np.array_equal(first, second)
    assert np.array_equal(first, third)


def test_records_of_another_length_are_refused(make_config):
    """Their own ones, which users pass to `electra_tf.pretraining`."""
    rows = {name: np.ones([4, 8], np.int32) for name in ("input_ids", "segment_ids")}
    records = types.SimpleNamespace(
        batches=lambda **_: tf.data.Dataset.from_tensor_slices(rows).batch(2),
        describe=lambda seq_length: f"my rows of {seq_length}",
        locating_damage=lambda _: contextlib.nullcontext(),
    )
    strategy = tf.distribute.get_strategy()
    expected = r"my rows of 16: input_ids of a batch is \(None, 8\) instead of"
    with pytest.raises(UserError, match=expected):
        held_out_batches(make_config(), records, strategy)
    phases = PretrainingPhases(
        make_config(), None, None, None, None, records, None, strategy, None, print
    )
    with pytest.raises(UserError, match=expected):
        phases._batches(Phase(0, 4, 0, True, 16, 0), 0)
    # Rows of any length, which may become known when they are read alone.
    unknown = {name: tf.TensorSpec([None, None], tf.int32) for name in ENCODER_INPUTS}
    records.batches = lambda **_: tf.data.Dataset.from_generator(list, output_signature=unknown)
    with pytest.raises(UserError, match=r"input_ids of a batch is \(None, None\) instead of"):
        held_out_batches(make_config(), records, strategy)
    records.batches = lambda **_: tf.data.Dataset.from_tensor_slices(rows).batch(2)
    # Further features may have any shape.
    rows = {"input_ids": np.ones([4, 16], np.int32), "more": np.ones([4], np.int32)}
    with pytest.raises(UserError, match="my rows of 16: input_mask of a batch is missing"):
        held_out_batches(make_config(), records, strategy)


@pytest.mark.parametrize("precision", ["float32", "mixed_float16"])
def test_the_learning_rate_restarts_in_a_stage_if_updates_were_left_out(
    make_config, monkeypatch, precision
):
    """As with `--on_nonfinite=skip`, and with float16 until its scale has been found."""
    stages = [Stage("generator", 3), Stage("discriminator", 3)]
    model = types.SimpleNamespace(stages=lambda: stages, start_stage=lambda: None)
    schedule = StagedSchedule([WarmupPolynomialDecay(0.1, stage.num_steps) for stage in stages])
    optimizer = make_optimizer("adam", schedule, weight_decay_rate=0.0, precision=precision)
    variable = keras.Variable(np.ones(3, np.float32), name="kernel")
    optimizer.build([variable])
    step = tf.Variable(0, dtype=tf.int64)
    monkeypatch.setattr(PretrainingPhases, "_compile", lambda self: None)
    monkeypatch.setattr(PretrainingPhases, "_batches", lambda *_: [])
    records = types.SimpleNamespace(locating_damage=contextlib.nullcontext)
    log = types.SimpleNamespace(set_phase=lambda length, stage: None)
    segments = PretrainingPhases(
        make_config(num_train_steps=6),
        None,
        model,
        optimizer,
        step,
        records,
        None,
        None,
        log,
        discard,
    ).segments()
    assert next(segments).end_step == 3
    optimizer.apply([tf.ones(3)], [variable])  # the only one of three updates
    step.assign(3)
    assert next(segments).end_step == 6
    optimizer.apply([tf.ones(3)], [variable])
    assert last_learning_rate(optimizer) == pytest.approx(0.1 * (1 - 1 / 3))
