"""Work of build processes that are killed; imports nothing that takes long."""

import os
import signal
import time
from collections.abc import Callable
from typing import NamedTuple

from pretrain_data.parallel.counts import BuildCounts

# Longer than a test waits.
_SECONDS = 60.0


class Job(NamedTuple):
    """What a process does: it works on, or is killed."""

    index: int
    is_killed: bool


def work(job: Job, report: Callable[[BuildCounts], None]) -> bytes:
    """Reports all the time, or is killed."""
    if job.is_killed:
        report(BuildCounts())
        os.kill(os.getpid(), signal.SIGKILL)
    end = time.monotonic() + _SECONDS
    while time.monotonic() < end:
        report(BuildCounts(1))
        time.sleep(0.01)
    return b""
