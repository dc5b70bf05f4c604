"""What workers compare with each other; a second one is played by its share of the sum."""

import numpy as np
import pytest
import tensorflow as tf

from electra_tf.training.distribution.workers import Workers
from electra_tf.util.errors import UserError

OURS = {"data": {"128": "abc"}, "vocabulary": "def", "train_batch_size": 8}


def shares(worker: Workers, settings: dict) -> np.ndarray:
    """Returns what a worker adds to the sum."""
    added = []

    def add(table: tf.Tensor) -> tf.Tensor:
        added.append(table.numpy())
        return tf.tile(table[worker.index : worker.index + 1], [worker.count, 1])

    worker._sum = add
    worker.require_equal(settings)
    return added[0]


def two_workers() -> list[Workers]:
    workers = [Workers(tf.distribute.get_strategy()) for _ in range(2)]
    for index, worker in enumerate(workers):
        worker.index, worker.count = index, 2
    for worker in workers:
        # Of a strategy of two replicas, one a worker.
        worker._strategy = type("Strategy", (), {"num_replicas_in_sync": 2})()
    return workers


@pytest.mark.parametrize(
    ("name", "theirs"), [("data", {"128": "abd"}), ("train_batch_size", 16), (None, None)]
)
def test_settings_and_data_are_compared(name, theirs):
    first, second = two_workers()
    share = shares(second, OURS if name is None else OURS | {name: theirs})
    first._sum = lambda table: table + share
    if name is None:
        first.require_equal(OURS)
        return
    with pytest.raises(
        UserError, match=f"{name}: .* on worker 0, another value on worker 1"
    ) as e:
        first.require_equal(OURS)
    assert "vocabulary" not in str(e.value)
