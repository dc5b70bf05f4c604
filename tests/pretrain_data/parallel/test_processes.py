"""Processes of a build that are lost."""

import multiprocessing
import time

import pytest

from electra_tf.util.console import ProgressBar
from electra_tf.util.errors import UserError
from pretrain_data.parallel.processes import run_jobs
from tests.pretrain_data.parallel.dying_work import Job, work


def test_a_killed_process_ends_the_build_at_once_while_others_report():
    """Its death was noticed only when all others had nothing to say for a second."""
    jobs = [Job(0, is_killed=True), Job(1, is_killed=False)]
    start = time.monotonic()
    with pytest.raises(UserError, match=r"was killed by SIGKILL.*reduce --num-processes"):
        run_jobs(work, jobs, ProgressBar(10))
    assert time.monotonic() - start < 30
    assert multiprocessing.active_children() == []
