"""Signals that end a program, and terminals that are closed."""

import contextlib
import errno
import os
import signal
import sys
import termios
import threading
from collections.abc import Callable, Iterator, Sequence
from types import FrameType
from typing import Any

# Signals of cluster managers, and of a closed terminal.
TERMINATIONS = (signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP)
_EXIT_SIGNALS = (signal.SIGTERM, signal.SIGHUP)
_SECONDS_UNTIL_RERAISED = 0.1


@contextlib.contextmanager
def handling(
    signals: Sequence[signal.Signals],
    handler: Callable[[int, FrameType | None], None] | signal.Handlers,
) -> Iterator[Sequence[signal.Signals]]:
    """Handles signals inside the `with` block; yields those that it handles.

    SIGHUP stays ignored if it is ignored already, as under `nohup`. Other signals are handled
    even then: cluster scripts ignore SIGTERM while they wait for this process. Only the main
    thread can handle signals; in others, this has no effect. An exception of the handler ends
    the block, even if Python first discards it, as in `__del__` and weak-reference callbacks.
    """
    if threading.current_thread() is not threading.main_thread():
        yield []
        return
    ignored = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    handled = [each for each in signals if not (ignored and each == signal.SIGHUP)]
    discarded = _DiscardedErrors()
    if callable(handler):
        handler = discarded.recording(handler)
    before = {number: signal.signal(number, handler) for number in handled}
    try:
        with discarded.reraising():
            yield handled
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)


class _DiscardedErrors:
    """Reraises errors of signal handlers that Python has discarded."""

    def __init__(self) -> None:
        self._error: BaseException | None = None
        self._number: int | None = None
        self._timer: threading.Timer | None = None

    def recording(self, handler: Callable[[int, FrameType | None], None]) -> Callable:
        """Returns a handler that also records its error for `reraising`."""

        def handle(number: int, frame: FrameType | None) -> None:
            try:
                handler(number, frame)
            except BaseException as error:
                self._error, self._number = error, number
                raise

        return handle

    @contextlib.contextmanager
    def reraising(self) -> Iterator[None]:
        """Reraises an error discarded inside the block: a moment later, or at its end."""
        report = sys.unraisablehook

        def check(unraisable: Any) -> None:
            if self._error is None or unraisable.exc_value is not self._error:
                report(unraisable)
                return
            # Sends the signal again, because the main thread has to raise the error.
            signal.signal(self._number, self._raise)
            kill = signal.pthread_kill, (threading.main_thread().ident, self._number)
            self._timer = threading.Timer(_SECONDS_UNTIL_RERAISED, *kill)
            self._timer.daemon = True
            self._timer.start()

        sys.unraisablehook = check
        try:
            yield
            if self._timer is not None:
                raise self._error
        finally:
            sys.unraisablehook = report
            if self._timer is not None:
                self._timer.cancel()

    def _raise(self, *_: object) -> None:
        self._timer = None
        raise self._error


@contextlib.contextmanager
def exiting_on_signals() -> Iterator[None]:
    """Turns SIGTERM, and SIGHUP of a closed terminal, into SystemExit.

    Thus child processes are ended and temporary files removed. For other threads and `nohup`,
    see `handling`.
    """

    def exit_program(number: int, *_: object) -> None:
        for each in handled:
            signal.signal(each, signal.SIG_IGN)
        if number == signal.SIGHUP:
            discard_closed_terminal()
        raise SystemExit(128 + number)

    with handling(_EXIT_SIGNALS, exit_program) as handled:
        yield


def discard_closed_terminal() -> None:
    """Discards further output to a terminal, because printing to a closed one fails."""
    with open(os.devnull, "wb") as devnull:
        for number in (1, 2):
            if _is_terminal(number):
                os.dup2(devnull.fileno(), number)


def _is_terminal(number: int) -> bool:
    """Whether a stream is a terminal, even a closed one, for which `os.isatty` is false."""
    try:
        termios.tcgetattr(number)
    except termios.error as error:
        return error.args[0] == errno.EIO
    return True
