"""Ends a run in order when the machine is taken away: SIGTERM, or SIGUSR1 from SLURM."""

import contextlib
import signal
import sys
import threading
from collections.abc import Iterator
from types import FrameType

from electra_tf.util.errors import PreemptedError
from electra_tf.workers import Workers

SIGNALS = (signal.SIGTERM, signal.SIGUSR1)


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
        return self._workers.any(self._received is not None)

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
