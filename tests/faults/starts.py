"""Starts of programs, many of them cheap: TensorFlow is imported once and the process forked.

The server of `multiprocessing` that forks has imported TensorFlow and the programs, but has not
initialized devices: a fork of it is a process that has just been started, except for the seed
of Python's string hashes. A fresh start is a process of its own.
"""

import contextlib
import multiprocessing
import os
import pathlib
import runpy
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from tests.faults.shim import Kind, Shim
from tests.processes import ROOT

PRELOADED = "tests.preloaded"
TIMEOUT = 900
# The status of a process that SIGKILL has ended.
KILLED = -9


class End(NamedTuple):
    """How a start ended.

    Attributes:
        status: exit status; negative for a signal.
        output: what it printed, standard error included.
        seconds: how long it took.
        changes: changes of files in the folder that it made; None if it was killed.
    """

    status: int
    output: str
    seconds: float
    changes: int | None


class Server:
    """Forks processes; its environment must have the shim."""

    def __init__(self) -> None:
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload([PRELOADED])

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Returns what a function returns in a process of its own."""
        ours, theirs = self._context.Pipe(duplex=False)
        process = self._context.Process(target=_answer, args=(theirs, function, arguments))
        process.start()
        theirs.close()
        try:
            return ours.recv()
        finally:
            process.join(TIMEOUT)
            process.kill()

    def run(
        self,
        arguments: Sequence[str],
        folder: pathlib.Path,
        *,
        change: int | None = None,
        seconds: float | None = None,
    ) -> End:
        """Runs a program in a fork.

        Args:
            arguments: the program's file and its flags.
            folder: where changes are counted, and the output is written to.
            change: number of the change in the middle of which it is killed.
            seconds: when it is killed.
        """
        counts, output = folder / "changes", folder / "output"
        counts.unlink(missing_ok=True)
        start = time.monotonic()
        process = self._context.Process(
            target=_run_program, args=(tuple(arguments), str(folder), change)
        )
        process.start()
        process.join(TIMEOUT if seconds is None else seconds)
        if process.exitcode is None:
            process.kill()
        process.join(TIMEOUT)
        took = time.monotonic() - start
        changes = int(counts.read_text()) if counts.exists() else None
        text = output.read_text(errors="replace") if output.exists() else ""
        return End(process.exitcode, text, took, changes)


def run_fresh(
    arguments: Sequence[str], folder: pathlib.Path, seconds: float | None = None
) -> End:
    """Runs a program in a process of its own, killed after so many seconds."""
    start = time.monotonic()
    with (folder / "output").open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, *arguments], cwd=ROOT, stdout=output, stderr=output
        )
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(TIMEOUT if seconds is None else seconds)
        process.kill()
        process.wait()
    text = (folder / "output").read_text(errors="replace")
    return End(process.returncode, text, time.monotonic() - start, None)


def _answer(connection: Any, function: Callable[..., Any], arguments: tuple) -> None:
    try:
        connection.send(function(*arguments))
    except BaseException as error:
        connection.send(error)
        raise


def _run_program(arguments: tuple[str, ...], folder: str, change: int | None) -> None:
    with open(os.path.join(folder, "output"), "wb") as output:
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
    sys.argv = [*arguments]
    shim = Shim()
    shim.record(os.path.join(folder, "run"), None)
    if change is not None:
        shim.fail(change, Kind.KILL, 0)
    try:
        runpy.run_path(str(ROOT / arguments[0]), run_name="__main__")
    finally:
        changes = shim.stop()
        pathlib.Path(folder, "changes").write_text(f"{changes}")
