"""Signals that end programs, and terminals that are closed."""

import os
import pty
import signal
import sys
import time
from contextlib import nullcontext

import pytest

from electra_tf.util import signals
from electra_tf.util.signals import (
    TERMINATIONS,
    discard_closed_terminal,
    exiting_on_signals,
    handling,
)


def test_a_closed_terminal_gets_nothing_and_a_file_stays_one():
    terminal, screen = pty.openpty()
    saved = os.dup(1), os.dup(2)
    reading, writing = os.pipe()
    try:
        os.dup2(screen, 1)
        os.dup2(writing, 2)
        os.close(terminal)
        os.close(screen)
        with pytest.raises(OSError, match="Input/output error"):
            os.write(1, b"lost")
        discard_closed_terminal()
        assert os.write(1, b"lost") == 4
        os.write(2, b"kept")
    finally:
        for number, descriptor in zip((1, 2), saved, strict=True):
            os.dup2(descriptor, number)
            os.close(descriptor)
        os.close(writing)
    assert os.read(reading, 9) == b"kept"
    os.close(reading)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_signals_end_a_program_in_order(number, monkeypatch):
    monkeypatch.setattr(signals, "discard_closed_terminal", lambda: None)
    before = signal.signal(number, signal.SIG_DFL)  # the tests may run under `nohup`
    try:
        with pytest.raises(SystemExit) as ended, exiting_on_signals():
            signal.raise_signal(number)
        assert ended.value.code == 128 + number
        assert signal.getsignal(number) == signal.SIG_DFL
        # `nohup` ignores SIGHUP; scripts of clusters ignore SIGTERM while they wait.
        signal.signal(number, signal.SIG_IGN)
        ends = pytest.raises(SystemExit) if number == signal.SIGTERM else nullcontext()
        with ends, exiting_on_signals():
            signal.raise_signal(number)
        assert signal.getsignal(number) == signal.SIG_IGN
    finally:
        signal.signal(number, before)


class SignalsInDel:
    """Gets a signal while Python discards what is raised."""

    def __del__(self) -> None:
        signal.raise_signal(signal.SIGTERM)


def fail(number: int, frame: object) -> None:
    raise ValueError(number)


def get_signal_in_del(seconds: float) -> None:
    value = SignalsInDel()
    del value
    time.sleep(seconds)


@pytest.mark.parametrize("seconds", [10, 0])
def test_a_signal_that_python_discards_ends_the_block_nevertheless(seconds, capsys):
    before, report = signal.getsignal(signal.SIGTERM), sys.unraisablehook
    start = time.monotonic()
    # With 0, the block ends before the error can be raised again.
    with pytest.raises(ValueError, match="15"), handling(TERMINATIONS, fail):
        get_signal_in_del(seconds)
    assert time.monotonic() - start < 5
    assert signal.getsignal(signal.SIGTERM) == before
    assert sys.unraisablehook is report
    assert capsys.readouterr().err == ""
    with pytest.raises(SystemExit), exiting_on_signals():
        get_signal_in_del(seconds)


def test_other_errors_that_python_discards_are_reported(monkeypatch):
    class Fails:
        def __del__(self) -> None:
            raise KeyError("of something else")

    reported = []
    monkeypatch.setattr(sys, "unraisablehook", lambda found: reported.append(found.exc_type))
    with handling(TERMINATIONS, fail):
        value = Fails()
        del value
    assert reported == [KeyError]
