"""Termination signals, by which all workers of a run save and stop together."""

import contextlib
import signal
import sys
from collections.abc import Iterator
from types import FrameType

from electra_tf.training.distribution.workers import Workers
from electra_tf.util.errors import PreemptedError
from electra_tf.util.signals import TERMINATIONS, discard_closed_terminal, handling


class Preemption:
    """Handles termination signals, so that all workers of a run stop together.

    SIGHUP, sent when a terminal closes, has no effect under `nohup`, which ignores it.

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
        with handling(TERMINATIONS, self._receive):
            yield self

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
