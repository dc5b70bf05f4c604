"""Fine-tunings as processes of their own, which go on where they were stopped."""

import concurrent.futures
import dataclasses
import os
import pathlib
import shlex
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence

from electra_tf.util.console import format_seconds
from electra_tf.util.errors import UserError
from electra_tf.util.files import write_atomically
from finetune.results.result_files import JSON_SUFFIX, read_results
from finetune.results.summary import TrialResult

ROOT = pathlib.Path(__file__).parents[1]
PROGRAM = ROOT / "run_finetuning.py"
LOG_FILE, FLAGS_FILE = "log.txt", "flags.txt"
ONE_THREAD = {"TF_NUM_INTRAOP_THREADS": "1", "TF_NUM_INTEROP_THREADS": "1"}


@dataclasses.dataclass(frozen=True)
class Run:
    """The fine-tuning of one task from one start.

    Attributes:
        task: its name.
        start: name of what it starts from.
        folder: of everything it writes.
        flags: of run_finetuning.py, but for the number of trials.
    """

    task: str
    start: str
    folder: pathlib.Path
    flags: tuple[str, ...]

    @property
    def label(self) -> str:
        """Task and start."""
        return f"{self.task}, {self.start}"

    def results(self, num_trials: int) -> list[TrialResult] | None:
        """Returns the trials, or None as long as there are not so many.

        Raises:
            UserError: they were made with other flags.
        """
        made_with = self.folder / FLAGS_FILE
        if made_with.exists() and made_with.read_text() != self._flags_text:
            raise UserError(
                f"{self.folder} was made with other flags: choose another --output_dir, or "
                f"remove it.\n  there: {made_with.read_text().strip()}\n"
                f"  now:   {self._flags_text.strip()}"
            )
        path = self.folder / "results" / f"{self.task}{JSON_SUFFIX}"
        trials = read_results(path).trials if path.exists() else []
        return trials[:num_trials] if len(trials) >= num_trials else None

    def run(self, num_trials: int, environment: Mapping[str, str]) -> int:
        """Fine-tunes, and returns the status of the program."""
        write_atomically(self.folder / FLAGS_FILE, self._flags_text)
        command = [str(PROGRAM), f"--num_trials={num_trials}", *self.flags]
        return run_logged(command, self.folder / LOG_FILE, environment)

    @property
    def _flags_text(self) -> str:
        return shlex.join(self.flags) + "\n"


def run_logged(
    command: Sequence[str],
    log_file: pathlib.Path,
    environment: Mapping[str, str],
    python: str = sys.executable,
) -> int:
    """Runs a program of the repository; returns its status.

    Args:
        command: the program and its arguments.
        log_file: what it says is added there.
        environment: variables beside those of this process.
        python: what runs it.
    """
    log_file.parent.mkdir(parents=True, exist_ok=True)
    with log_file.open("a", encoding="utf-8") as log:
        return subprocess.run(
            [python, *command],
            stdout=log,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            cwd=ROOT,
            env={**os.environ, **environment},
        ).returncode


def run_all(runs: Sequence[Run], num_trials: int, num_processes: int) -> list[Run]:
    """Fine-tunes, `num_processes` at once, and returns the runs that failed.

    With more than one process each has one thread.
    """
    environment = ONE_THREAD if num_processes > 1 else {}

    def one(run: Run) -> bool:
        print(f"{run.label}: started, log {run.folder / LOG_FILE}", flush=True)
        start = time.monotonic()
        status = run.run(num_trials, environment)
        finished = status == 0 and run.results(num_trials) is not None
        said = "finished" if finished else f"FAILED with status {status}"
        print(f"{run.label}: {said} in {format_seconds(time.monotonic() - start)}", flush=True)
        return finished

    with concurrent.futures.ThreadPoolExecutor(num_processes) as pool:
        finished = list(pool.map(one, runs))
    return [run for run, good in zip(runs, finished, strict=True) if not good]
