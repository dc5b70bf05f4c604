"""The evaluation of a run, without its model."""

import types

import numpy as np
import tensorflow as tf

from electra_tf.config.phases import Stage
from electra_tf.config.recorded_settings import Change
from electra_tf.pretraining_phases import PretrainingPhases, describe_moved_position
from electra_tf.training.evaluation import HeldOutResult
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


def test_examples_that_another_batch_size_skips_or_repeats_are_counted(make_config):
    records = types.SimpleNamespace(num_examples=lambda length: {8: 400, 16: None}[length])
    stages = [Stage("all", 100)]

    def describe(before: int, step: int, name: str = "train_batch_size", **changes) -> list:
        config = make_config(num_train_steps=100, train_batch_size=8, **changes)
        changed = [Change(name, before, 8, "training")]
        return describe_moved_position(config, stages, changed, step, records)

    assert describe(4, 10) == [
        "Data:    goes on after example 80 of 16 tokens (10 steps of 8); 10 steps of 4 have "
        "read 40, so 40 examples are skipped"
    ]
    short = {"length_curriculum": (8,), "length_curriculum_share": 0.5}
    (line,) = describe(12, 10, **short)
    assert line.endswith("so 40 examples (0.1 epochs of 400) are trained on again")
    # Records of a length are read from the first one.
    assert describe(4, 50, **short) == []
    assert describe(4, 51, **short)[0].startswith("Data:    goes on after example 8 of 16")
    assert describe(4, 0) == describe(4, 100) == describe(4, 10, "seed") == []
