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

# Of cluster managers, and of a terminal that is closed.
TERMINATIONS = (signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP)
_OF_PROGRAMS = (signal.SIGTERM, signal.SIGHUP)
_SECONDS_UNTIL_RAISED_AGAIN = 0.1


@contextlib.contextmanager
def handling(
    signals: Sequence[signal.Signals],
    handler: Callable[[int, FrameType | None], None] | signal.Handlers,
) -> Iterator[Sequence[signal.Signals]]:
    """Handles signals until the end of the `with`; returns those that it handles.

    SIGHUP stays ignored if it is, as under `nohup`. Other signals are handled even if they are
    ignored: cluster scripts ignore SIGTERM while they wait for us. Only the main thread can
    handle signals; elsewhere, this has no effect. What the handler raises ends the block, even
    if Python discards it at first, as it does in `__del__` and in callbacks of weak references.
    """
    if threading.current_thread() is not threading.main_thread():
        yield []
        return
    ignored = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    handled = [each for each in signals if not (ignored and each == signal.SIGHUP)]
    discarded = _DiscardedErrors()
    if callable(handler):
        handler = discarded.noting(handler)
    before = {number: signal.signal(number, handler) for number in handled}
    try:
        with discarded.raised_again():
            yield handled
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)


class _DiscardedErrors:
    """Raises errors of signal handlers again if Python has discarded them."""

    def __init__(self) -> None:
        self._error: BaseException | None = None
        self._number: int | None = None
        self._timer: threading.Timer | None = None

    def noting(self, handler: Callable[[int, FrameType | None], None]) -> Callable:
        """Returns the handler, whose error is then known to `raised_again`."""

        def handle(number: int, frame: FrameType | None) -> None:
            try:
                handler(number, frame)
            except BaseException as error:
                self._error, self._number = error, number
                raise

        return handle

    @contextlib.contextmanager
    def raised_again(self) -> Iterator[None]:
        """Raises an error that is discarded in the `with`: a moment later, or at its end."""
        report = sys.unraisablehook

        def check(unraisable: Any) -> None:
            if self._error is None or unraisable.exc_value is not self._error:
                report(unraisable)
                return
            # By the same signal, since it is the main thread that has to raise the error.
            signal.signal(self._number, self._raise)
            kill = signal.pthread_kill, (threading.main_thread().ident, self._number)
            self._timer = threading.Timer(_SECONDS_UNTIL_RAISED_AGAIN, *kill)
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

    So processes are ended and temporary files removed. See `handling` on other threads and on
    `nohup`.
    """

    def leave(number: int, *_: object) -> None:
        for each in handled:
            signal.signal(each, signal.SIG_IGN)
        if number == signal.SIGHUP:
            discard_closed_terminal()
        raise SystemExit(128 + number)

    with handling(_OF_PROGRAMS, leave) as handled:
        yield


def discard_closed_terminal() -> None:
    """Discards what is printed from now on to a terminal; printing to a closed one fails."""
    with open(os.devnull, "wb") as nowhere:
        for number in (1, 2):
            if _is_terminal(number):
                os.dup2(nowhere.fileno(), number)


def _is_terminal(number: int) -> bool:
    """Whether a stream is a terminal, even a closed one, for which `os.isatty` is false."""
    try:
        termios.tcgetattr(number)
    except termios.error as error:
        return error.args[0] == errno.EIO
    return True
