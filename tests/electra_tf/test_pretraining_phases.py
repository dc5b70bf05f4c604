"""The evaluation of a run, without its model."""

import numpy as np
import tensorflow as tf

from electra_tf.pretraining_phases import PretrainingPhases
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
