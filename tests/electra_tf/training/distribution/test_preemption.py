"""Termination signals: at once, after the loop, repeated, ignored, and in other threads."""

import signal
import threading

import pytest
import tensorflow as tf

from electra_tf.training.distribution.preemption import Preemption
from electra_tf.training.distribution.workers import Workers
from electra_tf.util.errors import PreemptedError


def test_a_signal_stops_the_run_at_once_or_after_the_loop(capsys):
    preemption = Preemption(Workers(tf.distribute.get_strategy()))
    with preemption.watch():
        assert not preemption.requested()
        with preemption.deferred():
            signal.raise_signal(signal.SIGUSR1)
            signal.raise_signal(signal.SIGTERM)  # cluster managers repeat themselves
        assert preemption.requested()
    assert capsys.readouterr().err.count("SIGUSR1: saving at the end of this loop") == 1
    preemption = Preemption(Workers(tf.distribute.get_strategy()))
    with (
        preemption.watch(),
        pytest.raises(PreemptedError, match="SIGTERM: nothing to save"),
    ):
        signal.raise_signal(signal.SIGTERM)


def test_a_closed_terminal_stops_the_run_unless_nohup_ignores_it(monkeypatch):
    discarded = []
    monkeypatch.setattr(
        "electra_tf.training.distribution.preemption.discard_closed_terminal",
        lambda: discarded.append(True),
    )
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        for handler, stops in ((signal.SIG_DFL, True), (signal.SIG_IGN, False)):
            signal.signal(signal.SIGHUP, handler)
            preemption = Preemption(Workers(tf.distribute.get_strategy()))
            with preemption.watch(), preemption.deferred():
                signal.raise_signal(signal.SIGHUP)
            assert preemption.requested() is stops
            assert signal.getsignal(signal.SIGHUP) is handler
        assert len(discarded) == 1
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_script_that_ignores_sigterm_while_it_waits_does_not_disturb(capsys):
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        preemption = Preemption(Workers(tf.distribute.get_strategy()))
        with preemption.watch(), preemption.deferred():
            signal.raise_signal(signal.SIGTERM)
        assert preemption.requested()
    finally:
        signal.signal(signal.SIGTERM, before)


def test_only_the_main_thread_handles_signals():
    before = signal.getsignal(signal.SIGTERM)
    found = []

    def watch() -> None:
        with Preemption(Workers(tf.distribute.get_strategy())).watch() as preemption:
            found.append((preemption.requested(), signal.getsignal(signal.SIGTERM)))

    thread = threading.Thread(target=watch)
    thread.start()
    thread.join()
    assert found == [(False, before)]
