"""What workers compare with each other; a second one is played by its share of the sum."""

import numpy as np
import pytest
import tensorflow as tf

from electra_tf.training.distribution.workers import Workers
from electra_tf.util.errors import UserError, WorkerLostError

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


def test_integers_are_compared():
    first, _ = two_workers()
    sums = [3, 5]
    first._sum = lambda _: sums.pop(0)
    with pytest.raises(UserError, match=r"^They differ \(by worker: 3, 5\)$"):
        first.require_same(3, "They differ")
    assert not sums
    Workers(tf.distribute.get_strategy()).require_same(3, "They differ")  # it is alone


def test_weights_are_compared():
    first, second = two_workers()
    added = []

    def add(table: tf.Tensor) -> tf.Tensor:
        added.append(table.numpy())
        return table

    variables = [tf.Variable([1.0, 2.0]), tf.Variable([[3.0]])]
    second._sum = add
    with pytest.raises(UserError):  # the other's share is missing
        second.require_equal_weights(variables, "ckpt-1")
    first._sum = lambda table: table + added[0]
    first.require_equal_weights(variables, "ckpt-1")
    variables[1].assign([[3.5]])
    with pytest.raises(UserError, match=r"weights of ckpt-1: '\w+' on worker 0, another value"):
        first.require_equal_weights(variables, "ckpt-1")
    Workers(tf.distribute.get_strategy()).require_equal_weights(variables, "")  # it is alone


def test_the_chief_tells_the_others_a_number():
    first, second = two_workers()
    second.is_chief = False
    second._sum = lambda value: value + 7
    assert second.from_chief(3) == 7
    first._sum = lambda value: value
    assert first.from_chief(7) == 7
    assert Workers(tf.distribute.get_strategy()).from_chief(7) == 7


def test_lost_workers_are_told_from_errors_of_this_one():
    alone = Workers(tf.distribute.get_strategy())
    first, _ = two_workers()
    lost = tf.errors.UnavailableError(
        None, None, "Collective ops is aborted by: peer 1 is gone\nmore"
    )
    with pytest.raises(tf.errors.UnavailableError), alone.explain_losses("Run it again."):
        raise lost
    with (
        pytest.raises(
            WorkerLostError,
            match=r"Worker 0 of 2 stops: .*Run it again\.\n.*peer 1 is gone more",
        ),
        first.explain_losses("Run it again."),
    ):
        raise lost


@pytest.mark.parametrize(
    ("message", "where"),
    [
        (
            "Error from /job:worker/replica:0/task:1: from /job:worker/replica:0/task:0 while",
            r"worker 0 \(a:1, the chief\) for the cause",
        ),
        ("/job:worker/replica:0/task:1 is gone", "the others for the cause"),
        ("peer is gone", "the others for the cause"),
    ],
)
def test_a_lost_worker_is_named_with_its_address(message, where):
    _, second = two_workers()
    second._addresses = ["a:1", "b:2"]
    error = tf.errors.InternalError(None, None, message)
    with (
        pytest.raises(WorkerLostError, match=rf"See the output of {where}"),
        second.explain_losses("Run it again."),
    ):
        raise error
