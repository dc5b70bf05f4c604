"""Processes of a build that are lost."""

import multiprocessing
import signal
import time
from contextlib import nullcontext

import pytest

from electra_tf.util.console import ProgressBar
from electra_tf.util.errors import UserError
from pretrain_data.parallel import processes
from pretrain_data.parallel.processes import exiting_on_signals, run_jobs
from tests.pretrain_data.parallel.dying_work import Job, work


def test_a_killed_process_ends_the_build_at_once_while_others_report():
    """Its death was noticed only when all others had nothing to say for a second."""
    jobs = [Job(0, is_killed=True), Job(1, is_killed=False)]
    start = time.monotonic()
    with pytest.raises(UserError, match=r"was killed by SIGKILL.*reduce --num-processes"):
        run_jobs(work, jobs, ProgressBar(10))
    assert time.monotonic() - start < 30
    assert multiprocessing.active_children() == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_signals_end_a_build_in_order(number, monkeypatch):
    monkeypatch.setattr(processes, "discard_closed_terminal", lambda: None)
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
