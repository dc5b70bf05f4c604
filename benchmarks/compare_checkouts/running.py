"""Runs cases with a checkout; their outputs are reused until its sources change."""

import dataclasses
import hashlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

from benchmarks.compare_checkouts.cases import CHECKPOINT_STATE, Case, Command, Interruption
from benchmarks.compare_checkouts.inputs import MODELS, PREPARATION, write_files
from electra_tf.util.errors import UserError

_MARK = ".complete.json"
_TIMEOUT_SECONDS = 1500
_ATTEMPTS = 5
_NOT_COMPARED = ("tests", "benchmarks")
# Output of the programs, the state of checkpoints, TensorBoard and the log of training.
_DATED = re.compile(r"\.|checkpoint$|events\.out\.tfevents|train_log\.jsonl$")
# A fixed number of threads, no GPU, and no bytecode written into the checkout.
_ENVIRONMENT = {
    "CUDA_VISIBLE_DEVICES": "-1",
    "TF_NUM_INTRAOP_THREADS": "2",
    "TF_NUM_INTEROP_THREADS": "2",
    "TF_CPP_MIN_LOG_LEVEL": "2",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONUNBUFFERED": "1",
}


class CaseError(UserError):
    """A command ended with an unexpected exit status."""


class MissedInterruptionError(CaseError):
    """A signal came too late; another attempt may hit the right step."""


@dataclasses.dataclass(frozen=True)
class Outcome:
    """The run of a case with one checkout.

    Attributes:
        folder: its outputs.
        seconds: wall time.
        error: why it failed, or None.
        reused: whether the outputs are those of an earlier run.
    """

    folder: pathlib.Path
    seconds: float
    error: str | None = None
    reused: bool = False


class Side:
    """One of the two checkouts.

    Args:
        name: "before" or "after"; also the side's folder in `work`.
        checkout: root of the repository.
        work: folder of inputs and outputs. A case runs in `work/running` and is moved to
            its side's folder afterwards, so that both sides write the same paths.

    Raises:
        UserError: `checkout` is not a checkout of the project.
    """

    def __init__(self, name: str, checkout: pathlib.Path, work: pathlib.Path) -> None:
        if not (checkout / "run_pretraining.py").exists():
            raise UserError(f"--{name}={checkout} is no checkout: it has no run_pretraining.py")
        self.name = name
        self.checkout = checkout.resolve()
        self._work = work
        self._sources = _digest(_source_files(self.checkout), self.checkout)

    def prepare_inputs(self) -> pathlib.Path:
        """Returns the folder of the inputs, which this checkout creates if they are missing.

        Raises:
            CaseError: a program failed.
        """
        folder = self._work / "inputs"
        if not (folder / _MARK).exists():
            shutil.rmtree(folder, ignore_errors=True)
            write_files(folder)
            self._run_commands(PREPARATION, folder, folder)
            _write_mark(folder, _digest(_input_files(folder), folder), 0.0)
        return folder

    def run(self, case: Case, inputs: pathlib.Path) -> Outcome:
        """Runs a case unless these sources have run it on these inputs before."""
        folder = self._work / self.name / case.name
        key = hashlib.sha256(
            f"{self._sources} {_read_mark(inputs)['key']} {case}".encode()
        ).hexdigest()
        mark = _read_mark(folder)
        if mark and mark["key"] == key:
            return Outcome(folder, mark["seconds"], reused=True)
        running = self._work / "running" / case.name
        shutil.rmtree(folder, ignore_errors=True)
        start = time.monotonic()
        error = None
        for attempt in range(_ATTEMPTS):
            self._create_folder(case, inputs, running)
            try:
                self._run_commands(case, inputs, running)
            except MissedInterruptionError as failure:
                error = str(failure)
                if attempt < _ATTEMPTS - 1:
                    continue
            except CaseError as failure:
                error = str(failure).replace(str(running), str(folder))
            else:
                error = None
            break
        seconds = time.monotonic() - start
        folder.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(running, folder)
        if error is None:
            _write_mark(folder, key, seconds)
        return Outcome(folder, seconds, error)

    def _create_folder(self, case: Case, inputs: pathlib.Path, folder: pathlib.Path) -> None:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        if case.with_model:
            shutil.copytree(inputs / MODELS, folder / MODELS)

    def _run_commands(self, case: Case, inputs: pathlib.Path, folder: pathlib.Path) -> None:
        for number, command in enumerate(case.commands, 1):
            self._run_command(command, number, inputs, folder)

    def _run_command(
        self, command: Command, number: int, inputs: pathlib.Path, folder: pathlib.Path
    ) -> None:
        """Runs a command in `folder`; raises CaseError for an unexpected exit status."""
        arguments = command.arguments(str(inputs), str(folder))
        environment = {k: v for k, v in os.environ.items() if k != "TF_CONFIG"}
        errors = folder / f".stderr_{number}.txt"
        output = folder / (command.output or f".stdout_{number}.txt")
        with output.open("wb") as stdout, errors.open("wb") as stderr:
            process = subprocess.Popen(
                [sys.executable, *arguments],
                cwd=self.checkout,
                env={**environment, **_ENVIRONMENT},
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
            )
            try:
                expected = _interrupt(process, command, number, folder)
                status = process.wait(_TIMEOUT_SECONDS)
            except subprocess.TimeoutExpired:
                raise CaseError(f"{command.program}: no end; see {errors}") from None
            finally:
                process.kill()
                process.wait()
        if status != expected:
            said = errors.read_text(errors="replace").strip().rpartition("\n")[2]
            raise CaseError(
                f"{command.program} ended with status {status}, not {expected}: {said} "
                f"(see {errors})"
            )
        if command.interruption:
            _check_interruption(command.interruption, folder)


def _interrupt(
    process: subprocess.Popen, command: Command, number: int, folder: pathlib.Path
) -> int:
    """Sends the command's signal, if it has one; returns the exit status to expect.

    Raises:
        CaseError: the command ended before it wrote the file that the signal waits for.
    """
    interruption = command.interruption
    if interruption is None:
        return 0
    deadline = time.monotonic() + _TIMEOUT_SECONDS
    file = folder / interruption.file
    while not (file.exists() and interruption.content in file.read_text()):
        if process.poll() is not None or time.monotonic() > deadline:
            raise CaseError(
                f"{command.program} ended without {interruption.checkpoint}; see "
                f"{folder}/.stderr_{number}.txt"
            )
        time.sleep(0.01)
    time.sleep(interruption.delay)
    process.send_signal(interruption.number)
    if interruption.number == signal.SIGKILL:
        process.wait()
    return interruption.status


def _check_interruption(interruption: Interruption, folder: pathlib.Path) -> None:
    """Raises MissedInterruptionError unless the run was stopped where it should be."""
    wanted = folder / interruption.checkpoint
    state = (wanted.parent / CHECKPOINT_STATE).read_text()
    newest = re.search(r'^model_checkpoint_path: "(.*)"', state, re.MULTILINE)[1]
    if newest != wanted.name:
        raise MissedInterruptionError(f"stopped at {newest} instead of {wanted.name}")


def _source_files(checkout: pathlib.Path) -> list[pathlib.Path]:
    paths = []
    for path in checkout.rglob("*.py"):
        parts = path.relative_to(checkout).parts
        if parts[0] not in _NOT_COMPARED and not any(part.startswith(".") for part in parts):
            paths.append(path)
    return paths


def _input_files(folder: pathlib.Path) -> list[pathlib.Path]:
    """Returns the files whose bytes do not depend on when they were written."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return [path for path in files if not _DATED.match(path.name)]


def _digest(paths: list[pathlib.Path], root: pathlib.Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(paths):
        digest.update(f"{path.relative_to(root)}\0".encode())
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def _read_mark(folder: pathlib.Path) -> dict | None:
    path = folder / _MARK
    return json.loads(path.read_text()) if path.exists() else None


def _write_mark(folder: pathlib.Path, key: str, seconds: float) -> None:
    (folder / _MARK).write_text(json.dumps({"key": key, "seconds": seconds}) + "\n")
