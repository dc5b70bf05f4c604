"""Damages files one by one, and judges what the programs make of them.

`python -m tests.faults.corruption FIGURES --seed 1 --trials 1000` appends a line per trial, and
goes on after the last one: a trial that ends the process is noticed by who started it.
"""

import argparse
import contextlib
import io
import json
import pathlib
import random
import subprocess
import sys
import tempfile
import traceback
from typing import Any, NamedTuple

from tests.conftest import ROOT

DETECTED = "detected: an error names the file"
PASSED_OVER = "detected: a warning names the file, and an older one or another way is taken"
HARMLESS = "harmless: the same outcome"
ANOTHER = "another legal input"
UNCHANGED = "the damage changed nothing"
# What must not be.
UNNAMED = "an error without the file"
TRACEBACK = "a traceback"
SILENT = "a wrong outcome in silence"
CRASH = "the process died"
VIOLATIONS = (UNNAMED, TRACEBACK, SILENT, CRASH)


class Trial(NamedTuple):
    """A damage and its outcome; `detail` is the message of an error."""

    number: int
    target: str
    file: str
    damage: str
    outcome: str
    detail: str


def main() -> None:
    """Runs the trials that the file of figures lacks."""
    parser = argparse.ArgumentParser()
    parser.add_argument("figures", type=pathlib.Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--trials", type=int, required=True)
    parser.add_argument("--target", action="append", default=[])
    options = parser.parse_args()
    done = len(read_trials(options.figures))
    with (
        tempfile.TemporaryDirectory() as folder,
        options.figures.open("a", encoding="utf-8") as figures,
    ):
        trials = _Trials(pathlib.Path(folder).resolve(), options.seed, options.target)
        for number in range(done, options.trials):
            # Left behind by a trial that ends the process.
            place = figures.tell()
            figures.write(json.dumps(trials.planned(number)._asdict()) + "\n")
            figures.flush()
            trial = trials.run(number)
            figures.seek(place)
            figures.truncate()
            figures.write(json.dumps(trial._asdict()) + "\n")
            figures.flush()


def run_trials(figures: pathlib.Path, seed: int, count: int, *flags: str) -> list[Trial]:
    """Runs trials in processes, as many as it takes; returns all of them."""
    command = [sys.executable, "-m", "tests.faults.corruption", str(figures)]
    command += [f"--seed={seed}", f"--trials={count}", *flags]
    while True:
        before = len(read_trials(figures))
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        trials = read_trials(figures)
        if done.returncode == 0:
            return trials
        # A negative status is a signal; otherwise the harness itself failed.
        if done.returncode > 0 or len(trials) == before:
            # The stack of a crash stands before a long list.
            said = done.stderr.partition("\nExtension modules:")[0]
            raise RuntimeError(f"{done.returncode}: {said[-3000:]}")


def read_trials(figures: pathlib.Path) -> list[Trial]:
    """Returns the trials in a file of figures."""
    if not figures.exists():
        return []
    return [Trial(**json.loads(line)) for line in figures.read_text().splitlines()]


class _Trials:
    """Trials by number; each follows from the seed and its number."""

    def __init__(self, folder: pathlib.Path, seed: int, names: list[str]) -> None:
        from tests.faults.targets import TARGETS

        self._folder = folder
        self._seed = seed
        self._targets = [target for target in TARGETS if target.name in names] or TARGETS
        self._expected: dict[str, Any] = {}

    def planned(self, number: int) -> Trial:
        """Returns a trial that ended its process."""
        target, file, name, _ = self._plan(number)
        return Trial(number, target.name, file, name, CRASH, f"seed {self._seed}")

    def run(self, number: int) -> Trial:
        """Damages a file and reads it."""
        from tests.faults.damages import damage

        target, file, name, generator = self._plan(number)
        folder = self._made(target, f"{number}")
        changed = damage(folder / file, name, generator)
        outcome, detail = UNCHANGED, ""
        if changed:
            outcome, detail = self._judge(target, folder, file, name)
        if outcome in VIOLATIONS:
            detail = f"seed {self._seed}: {detail}"
        return Trial(number, target.name, file, name, outcome, detail[:400])

    def _plan(self, number: int) -> tuple[Any, str, str, random.Random]:
        from tests.faults.damages import DAMAGES
        from tests.faults.targets import files_of

        generator = random.Random(f"{self._seed} {number}")
        target = self._targets[number % len(self._targets)]
        if target.name not in self._expected:
            folder = self._made(target, "whole")
            self._expected[target.name] = target.outcome(folder)
        whole = self._folder / target.name / "whole"
        file = generator.choice(files_of(target, whole))
        return target, str(file.relative_to(whole)), generator.choice([*DAMAGES]), generator

    def _made(self, target: Any, name: str) -> pathlib.Path:
        folder = self._folder / target.name / name
        folder.mkdir(parents=True)
        target.make(folder)
        return folder

    def _judge(
        self, target: Any, folder: pathlib.Path, file: str, damage: str
    ) -> tuple[str, str]:
        from electra_tf.util.errors import UserError

        warnings = io.StringIO()
        # A checkpoint is named without the suffixes of its files.
        names = {pathlib.Path(file).name, pathlib.Path(file).name.partition(".")[0]}
        if target.legal:  # Where two files contradict each other, either may be the wrong one.
            names |= {path.name for path in folder.iterdir()}
        try:
            with contextlib.redirect_stderr(warnings):
                found = target.outcome(folder)
        except UserError as error:
            is_named = any(f"{folder}/" in str(error) and name in str(error) for name in names)
            return DETECTED if is_named else UNNAMED, str(error)
        except Exception as error:
            frames = traceback.extract_tb(error.__traceback__)
            where = ", ".join(f"{f.name} {f.lineno}" for f in frames[-4:])
            return TRACEBACK, f"{type(error).__name__}: {str(error)[:200]} ({where})"
        warned = warnings.getvalue()
        if found == self._expected[target.name]:
            return HARMLESS, warned
        if any(name in warned for name in names):
            return PASSED_OVER, warned
        return ANOTHER if damage in target.legal else SILENT, warned


if __name__ == "__main__":
    main()
