"""Runs build jobs, in this process or in one process each."""

import multiprocessing
import os
import queue
import signal
from collections.abc import Iterator

from electra_tf.util.console import ProgressBar
from electra_tf.util.errors import UserError
from pretrain_data.build.worker import BuildCounts, BuildJob, BuildResult, WorkerError, run_job


def run_jobs(jobs: list[BuildJob], progress: ProgressBar) -> list[BuildResult]:
    """Runs all jobs: a single one in this process, several in one process each.

    Raises:
        UserError: the input is invalid.
        WorkerError: a process failed for another reason.
    """
    return _run_here(jobs[0], progress) if len(jobs) == 1 else _run_apart(jobs, progress)


def _run_here(job: BuildJob, progress: ProgressBar) -> list[BuildResult]:
    def report(totals: BuildCounts) -> None:
        progress.update(totals.disk_bytes, totals.text_bytes, totals.examples)

    return [run_job(job, report)]


def _run_apart(jobs: list[BuildJob], progress: ProgressBar) -> list[BuildResult]:
    """Runs each job in its own process; any failure ends them all."""
    # Spawned, because TensorFlow does not survive a fork.
    context = multiprocessing.get_context("spawn")
    messages = context.Queue()
    processes = [
        context.Process(target=_work, args=(job, messages), daemon=True) for job in jobs
    ]
    totals = [BuildCounts()] * len(jobs)
    results: list[BuildResult | None] = [None] * len(jobs)
    try:
        for process in processes:
            process.start()
        for index, message in _receive(messages, processes, results):
            if isinstance(message, Exception):
                raise message
            if isinstance(message, BuildResult):
                results[index] = message
            else:
                totals[index] = message
            progress.update(
                sum(t.disk_bytes for t in totals),
                sum(t.text_bytes for t in totals),
                sum(t.examples for t in totals),
            )
    finally:
        for process in processes:
            if process.pid is not None:
                process.terminate()
                process.join()
    return results


def _receive(
    messages: multiprocessing.Queue,
    processes: list[multiprocessing.Process],
    results: list[BuildResult | None],
) -> Iterator[tuple[int, BuildCounts | BuildResult | Exception]]:
    """Yields messages of the processes until the caller has filled `results`."""
    while None in results:
        try:
            message = messages.get(timeout=1.0)
        except queue.Empty:
            _check_alive(messages, processes, results)
        else:
            yield message


def _check_alive(
    messages: multiprocessing.Queue,
    processes: list[multiprocessing.Process],
    results: list[BuildResult | None],
) -> None:
    for process, result in zip(processes, results, strict=True):
        if result is None and process.exitcode is not None and messages.empty():
            raise WorkerError(
                f"A build process exited with code {process.exitcode}; it may have run out of "
                "memory. Reduce --num-processes."
            )


def _work(job: BuildJob, messages: multiprocessing.Queue) -> None:
    # Ctrl-C reaches every process; the parent terminates the workers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
    try:
        messages.put(
            (job.index, run_job(job, lambda totals: messages.put((job.index, totals))))
        )
    except (UserError, WorkerError) as error:
        messages.put((job.index, error))
