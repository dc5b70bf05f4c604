"""Coordination of the workers of a run: agreement, failures and preemption."""

import contextlib
import hashlib
import json
import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from types import FrameType
from typing import Any

import numpy as np
import tensorflow as tf

from electra_tf.util.console import discard_closed_terminal, signals_to_handle
from electra_tf.util.errors import PreemptedError, UserError, WorkerLostError

# Errors of a collective operation whose peer is gone.
_LOST = (
    tf.errors.UnavailableError,
    tf.errors.AbortedError,
    tf.errors.CancelledError,
    tf.errors.DeadlineExceededError,
    tf.errors.InternalError,
)
SIGNALS = (signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP)


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
        resolver = strategy.cluster_resolver
        if isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy) and resolver:
            self.index = resolver.task_id
            self.count = resolver.cluster_spec().num_tasks("worker")
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

    @contextlib.contextmanager
    def explain_losses(self, how_to_resume: str) -> Iterator[None]:
        """Turns TensorFlow's errors about lost workers into WorkerLostError."""
        try:
            yield
        except _LOST as error:
            if self.count == 1:
                raise
            raise WorkerLostError(
                f"Worker {self.index} of {self.count} stops: another worker has exited or is "
                f"unreachable. See the output of the others for the cause. "
                f"{how_to_resume}\nTensorFlow says: {_essence(error.message)}"
            ) from error

    def _sum_over_replicas(self, value: tf.Tensor) -> tf.Tensor:
        per_replica = self._strategy.run(lambda x: tf.identity(x), args=(value,))
        return self._strategy.reduce(tf.distribute.ReduceOp.SUM, per_replica, axis=None)


def _essence(message: str) -> str:
    """Returns the part of a message that names the peer, without the graph trace."""
    marker = "Collective ops is aborted by: "
    start = message.find(marker)
    lines = message[start + len(marker) if start >= 0 else 0 :].splitlines()
    return " ".join(line.strip() for line in lines[:3])[:400]


class Preemption:
    """Handles termination signals, so that all workers of a run stop together.

    SIGHUP, of a terminal that is closed, has no effect under `nohup`, which ignores it.

    Args:
        workers: the workers of the run.
    """

    def __init__(self, workers: Workers) -> None:
        self._workers = workers
        self._received: str | None = None
        self._deferring = False

    @contextlib.contextmanager
    def watch(self) -> Iterator["Preemption"]:
        """Installs the signal handlers; outside `deferred`, a signal ends the run at once."""
        if threading.current_thread() is not threading.main_thread():
            yield self  # only the main thread can install signal handlers
            return
        handled = signals_to_handle(SIGNALS)
        before = {number: signal.signal(number, self._receive) for number in handled}
        try:
            yield self
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    @contextlib.contextmanager
    def deferred(self) -> Iterator[None]:
        """Defers signals until the training loop can save; it polls `requested`."""
        self._deferring = True
        try:
            yield
        finally:
            self._deferring = False

    def requested(self) -> bool:
        """Returns whether any worker has received a signal; a collective call."""
        return self._workers.any_worker(self._received is not None)

    def _receive(self, number: int, frame: FrameType | None) -> None:
        if number == signal.SIGHUP:
            discard_closed_terminal()
        if self._received is not None:
            return  # cluster managers may repeat signals
        self._received = signal.Signals(number).name
        if not self._deferring:
            raise PreemptedError(
                f"{self._received}: nothing to save. Run the same command again to resume."
            )
        print(
            f"{self._received}: saving at the end of this loop (--iterations_per_loop) …",
            file=sys.stderr,
            flush=True,
        )
