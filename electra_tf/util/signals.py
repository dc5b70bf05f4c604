"""Signals that end a program, and terminals that are closed."""

import contextlib
import errno
import os
import signal
import termios
import threading
from collections.abc import Callable, Iterator, Sequence
from types import FrameType

# Of cluster managers, and of a terminal that is closed.
TERMINATIONS = (signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP)
_OF_PROGRAMS = (signal.SIGTERM, signal.SIGHUP)


@contextlib.contextmanager
def handling(
    signals: Sequence[signal.Signals],
    handler: Callable[[int, FrameType | None], None] | signal.Handlers,
) -> Iterator[Sequence[signal.Signals]]:
    """Handles signals until the end of the `with`; returns those that it handles.

    SIGHUP stays ignored where it is, as under `nohup`. Others are handled in any case: scripts
    of clusters ignore SIGTERM while they wait for us. Only the main thread can handle signals;
    elsewhere, this has no effect.
    """
    if threading.current_thread() is not threading.main_thread():
        yield []
        return
    ignored = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    handled = [each for each in signals if not (ignored and each == signal.SIGHUP)]
    before = {number: signal.signal(number, handler) for number in handled}
    try:
        yield handled
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)


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
