"""Coordination of the workers of a run: agreement and failures."""

import contextlib
import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from electra_tf.util.errors import UserError, WorkerLostError, is_out_of_memory

# Errors of a collective operation whose peer is gone.
_LOST = (
    tf.errors.UnavailableError,
    tf.errors.AbortedError,
    tf.errors.CancelledError,
    tf.errors.DeadlineExceededError,
    tf.errors.InternalError,
)
# A worker in TensorFlow's messages.
_PEER = re.compile(r"/job:worker/replica:0/task:(\d+)")


class Workers:
    """The processes of a run; without multi_worker there is one.

    Collective methods must be called by all workers.

    Attributes:
        index, count: index of this worker, and number of workers.
        is_chief: whether this worker writes logs, checkpoints and results.
    """

    def __init__(self, strategy: tf.distribute.Strategy) -> None:
        self._strategy = strategy
        self.index, self.count = 0, 1
        self._addresses: list[str] = []
        resolver = strategy.cluster_resolver
        if isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy) and resolver:
            self.index = resolver.task_id
            self._addresses = resolver.cluster_spec().job_tasks("worker")
            self.count = len(self._addresses)
        self.is_chief = self.index == 0
        self._sum = tf.function(self._sum_over_replicas, autograph=False)

    def any_worker(self, flag: bool) -> bool:
        """Returns whether `flag` is true on any worker."""
        if self.count == 1:
            return flag
        return bool(self._sum(tf.constant(float(flag))) > 0)

    def barrier(self) -> None:
        """Waits until all workers have called it."""
        self.any_worker(False)

    def require_same(self, value: int, problem: str) -> None:
        """Raises UserError with `problem` unless all workers have the same integer."""
        if self.count == 1:
            return
        values = [
            int(self._sum(tf.constant(value if i == self.index else 0, tf.int64)))
            // (self._strategy.num_replicas_in_sync // self.count)
            for i in range(self.count)
        ]
        if len(set(values)) > 1:
            raise UserError(f"{problem} (by worker: {', '.join(map(str, values))})")

    def require_equal(self, settings: Mapping[str, Any]) -> None:
        """Raises UserError unless all workers have the same settings and data.

        Args:
            settings: JSON values by name, such as hyperparameters and digests of data; the
                names must be the same.
        """
        if self.count == 1:
            return
        names = sorted(settings)
        digests = [
            int(
                hashlib.sha256(json.dumps(settings[name], default=str).encode()).hexdigest()[
                    :12
                ],
                16,
            )
            for name in names
        ]
        table = np.zeros([self.count, len(names)], np.int64)
        table[self.index] = digests
        replicas = self._strategy.num_replicas_in_sync // self.count
        table = self._sum(tf.constant(table)).numpy() // replicas
        differing = [
            f"{name}: {settings[name]!r} on worker {self.index}, another value on worker "
            f"{', '.join(map(str, np.flatnonzero(column != column[self.index])))}"
            for name, column in zip(names, table.T, strict=True)
            if np.any(column != column[0])
        ]
        if differing:
            raise UserError(
                "All workers must have the same settings and data. Different:\n  "
                + "\n  ".join(differing)
            )

    def require_equal_weights(self, variables: Sequence[Any], source: str) -> None:
        """Raises UserError unless all workers have the same values of variables.

        Replicas that start from different weights would stay different.

        Args:
            variables: the weights.
            source: where they have been loaded from, for the message.
        """
        if self.count == 1:
            return
        digest = hashlib.sha256()
        for variable in variables:
            digest.update(np.ascontiguousarray(variable.numpy()))
        self.require_equal({f"weights of {source}": digest.hexdigest()[:12]})

    def from_chief(self, value: int) -> int:
        """Returns the chief's value, an integer below 2**53."""
        if self.count == 1:
            return value
        summed = self._sum(tf.constant(value if self.is_chief else 0, tf.int64))
        return int(summed) // (self._strategy.num_replicas_in_sync // self.count)

    @contextlib.contextmanager
    def explain_losses(self, how_to_resume: str) -> Iterator[None]:
        """Turns TensorFlow's errors about lost workers into WorkerLostError."""
        try:
            yield
        except _LOST as error:
            if self.count == 1 or is_out_of_memory(error):
                raise
            raise WorkerLostError(
                f"Worker {self.index} of {self.count} stops: another worker has exited or is "
                f"unreachable. {self._where_to_look(error.message)} "
                f"{how_to_resume}\nTensorFlow says: {_without_graph_trace(error.message)}"
            ) from error

    def _where_to_look(self, message: str) -> str:
        """Returns which workers' output shows the cause of an error about lost workers."""
        lost = sorted({int(each) for each in _PEER.findall(message)} - {self.index})
        named = [
            f"worker {i} ({self._addresses[i]}{', the chief' if i == 0 else ''})"
            for i in lost
            if i < len(self._addresses)
        ]
        return f"See the output of {' and '.join(named) or 'the others'} for the cause."

    def _sum_over_replicas(self, value: tf.Tensor) -> tf.Tensor:
        per_replica = self._strategy.run(lambda x: tf.identity(x), args=(value,))
        return self._strategy.reduce(tf.distribute.ReduceOp.SUM, per_replica, axis=None)


def _without_graph_trace(message: str) -> str:
    """Returns the part of a message that names the peer, without the graph trace."""
    marker = "Collective ops is aborted by: "
    start = message.find(marker)
    lines = message[start + len(marker) if start >= 0 else 0 :].splitlines()
    return " ".join(line.strip() for line in lines[:3])[:400]
