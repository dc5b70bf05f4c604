"""What the processes of a run agree on, and who of them writes."""

import contextlib
import signal
import sys
import threading
from collections.abc import Iterator
from types import FrameType

import tensorflow as tf

from electra_tf.util.errors import PreemptedError, UserError, WorkerLostError

# What TensorFlow raises where a collective operation fails for want of a peer.
_LOST = (
    tf.errors.UnavailableError,
    tf.errors.AbortedError,
    tf.errors.CancelledError,
    tf.errors.DeadlineExceededError,
    tf.errors.InternalError,
)
SIGNALS = (signal.SIGTERM, signal.SIGUSR1)


class Workers:
    """The processes that train together; a run on one host is a single one.

    Methods that agree on something are to be called by all workers.

    Attributes:
        index, count: of this worker, and how many there are.
        is_chief: this one writes logs, checkpoints and results.
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
        """Returns when all workers have come here."""
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

    @contextlib.contextmanager
    def explain_losses(self, how_to_resume: str) -> Iterator[None]:
        """Turns TensorFlow's errors about lost workers into one that says what to do."""
        try:
            yield
        except _LOST as error:
            if self.count == 1:
                raise
            raise WorkerLostError(
                f"Worker {self.index} of {self.count} stops: another worker has ended or "
                f"cannot be reached. See the output of the others for the cause. "
                f"{how_to_resume}\nTensorFlow says: {_essence(error.message)}"
            ) from error

    def _sum_over_replicas(self, value: tf.Tensor) -> tf.Tensor:
        per_replica = self._strategy.run(lambda x: tf.identity(x), args=(value,))
        return self._strategy.reduce(tf.distribute.ReduceOp.SUM, per_replica, axis=None)


def _essence(message: str) -> str:
    """Returns the part of a message that names the peer, without the graph's trace."""
    marker = "Collective ops is aborted by: "
    start = message.find(marker)
    lines = message[start + len(marker) if start >= 0 else 0 :].splitlines()
    return " ".join(line.strip() for line in lines[:3])[:400]


class Preemption:
    """Notes the signals while `watch` is active; `requested` says it to all workers alike.

    Args:
        workers: who stop together.
    """

    def __init__(self, workers: Workers) -> None:
        self._workers = workers
        self._received: str | None = None
        self._deferring = False

    @contextlib.contextmanager
    def watch(self) -> Iterator["Preemption"]:
        """Takes over the signals; outside of `deferred` they end the run at once."""
        if threading.current_thread() is not threading.main_thread():
            yield self  # only the main thread can take over signals
            return
        before = {number: signal.signal(number, self._receive) for number in SIGNALS}
        try:
            yield self
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    @contextlib.contextmanager
    def deferred(self) -> Iterator[None]:
        """Lets a training loop come to a place where it can save; it asks `requested`."""
        self._deferring = True
        try:
            yield
        finally:
            self._deferring = False

    def requested(self) -> bool:
        """Returns whether any worker was told to end; all workers have to ask."""
        return self._workers.any_worker(self._received is not None)

    def _receive(self, number: int, frame: FrameType | None) -> None:
        if self._received is not None:
            return  # cluster managers repeat themselves
        self._received = signal.Signals(number).name
        if not self._deferring:
            raise PreemptedError(
                f"{self._received}: nothing to save. Run the same command again to go on."
            )
        print(
            f"{self._received}: saving at the end of this loop (--iterations_per_loop) …",
            file=sys.stderr,
            flush=True,
        )
