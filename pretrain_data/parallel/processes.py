"""Runs build jobs, in this process or in one process each."""

import contextlib
import multiprocessing
import multiprocessing.connection
import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from multiprocessing.connection import Connection
from typing import Any

from electra_tf.util.console import ProgressBar
from electra_tf.util.errors import UserError
from electra_tf.util.signals import handling
from pretrain_data.parallel.counts import BuildCounts, WorkerError

# Runs a job, reporting its progress, and returns the result.
Work = Callable[[Any, Callable[[BuildCounts], None]], Any]

TERMINATED_STATUS = 128 + signal.SIGTERM
# Maximum wait for processes to end: one in a system call to a hanging disk does not.
_SECONDS_TO_END = 5.0


def run_jobs(work: Work, jobs: list[Any], progress: ProgressBar) -> list[Any]:
    """Runs all jobs: a single one in this process, several in one process each.

    Args:
        work: a function of a module; `run_job` or `scan_documents`.
        jobs: the jobs; each has an `index`, from 0.
        progress: shows the progress of all jobs.

    Returns:
        The result of each job.

    Raises:
        UserError: the input is invalid, or a process was killed.
        WorkerError: a process failed for another reason.
    """
    return (_run_here if len(jobs) == 1 else _run_in_processes)(work, jobs, progress)


def _run_here(work: Work, jobs: list[Any], progress: ProgressBar) -> list[Any]:
    def report(totals: BuildCounts) -> None:
        progress.update(totals.disk_bytes, totals.text_bytes, totals.examples)

    return [work(jobs[0], report)]


def _run_in_processes(work: Work, jobs: list[Any], progress: ProgressBar) -> list[Any]:
    """Runs each job in its own process; any failure ends them all."""
    # Spawned, because TensorFlow does not survive a fork.
    context = multiprocessing.get_context("spawn")
    processes: dict[Connection, multiprocessing.Process] = {}
    totals = [BuildCounts()] * len(jobs)
    results: list[Any] = [None] * len(jobs)
    try:
        with _without_sigint():
            for job in jobs:
                # One pipe each: a process that is killed while writing would leave a shared
                # queue locked, or with half a message.
                ours, theirs = context.Pipe(duplex=False)
                process = context.Process(
                    target=_run_job, args=(work, job, theirs), daemon=True
                )
                process.start()
                theirs.close()
                processes[ours] = process
        for index, message in _receive(processes):
            if isinstance(message, Exception):
                raise message
            if isinstance(message, BuildCounts):
                totals[index] = message
            else:
                results[index] = message
            progress.update(
                sum(t.disk_bytes for t in totals),
                sum(t.text_bytes for t in totals),
                sum(t.examples for t in totals),
            )
    finally:
        _end_processes([*processes.values()])
    return results


@contextlib.contextmanager
def _without_sigint() -> Iterator[None]:
    """Makes new processes ignore Ctrl-C, which reaches all of them; the parent ends them."""
    with handling([signal.SIGINT], signal.SIG_IGN):
        yield


def _end_processes(processes: list[multiprocessing.Process]) -> None:
    for process in processes:
        process.terminate()
    for process in processes:
        process.join(_SECONDS_TO_END)
        if process.exitcode is None:
            process.kill()
            process.join(_SECONDS_TO_END)


def _receive(
    processes: Mapping[Connection, multiprocessing.Process],
) -> Iterator[tuple[int, Any]]:
    """Yields job indices and messages, until each process has sent its result.

    Raises:
        UserError: a process has ended without a result.
    """
    waiting = dict(processes)
    while waiting:
        for connection in multiprocessing.connection.wait([*waiting]):
            try:
                index, message = connection.recv()
            except (EOFError, OSError):
                raise _lost_process_error(waiting[connection]) from None
            yield index, message
            if not isinstance(message, BuildCounts):
                del waiting[connection]


def _lost_process_error(process: multiprocessing.Process) -> UserError:
    process.join(_SECONDS_TO_END)
    status = process.exitcode
    ended = f"has ended with status {status}"
    if status is not None and status < 0:
        ended = f"was killed by {signal.Signals(-status).name}"
    return UserError(
        f"A process of the build {ended}. If the system was out of memory, reduce "
        "--num-processes"
    )


def _run_job(work: Work, job: Any, parent: Connection) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
    try:
        try:
            result = work(job, lambda totals: parent.send((job.index, totals)))
        except (UserError, WorkerError) as error:
            result = error
        parent.send((job.index, result))
    except BrokenPipeError:  # the parent has been killed
        os._exit(TERMINATED_STATUS)


def _end_with_parent() -> None:
    """Ends this process if its parent has been killed, and so cannot end it."""
    multiprocessing.parent_process().join()
    os._exit(TERMINATED_STATUS)
