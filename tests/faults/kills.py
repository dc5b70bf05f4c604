"""Programs that are killed at random and started again leave what unkilled ones leave.

`python -m tests.faults.kills FIGURES --seed 1 --kills 100` runs with the shim. A kill is by
number of a change of a file, in the middle of it, or by time. The moments follow from the seed,
the case and the number of the trial.
"""

import argparse
import collections
import json
import pathlib
import random
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from typing import Any

from tests.faults.kill_cases import CASES, Case, write_data
from tests.faults.run_comparison import compare, newest_step
from tests.faults.starts import KILLED, End, Server, run_fresh

_FRESH_SHARE = 0.1
# Seconds that a start of Python and TensorFlow takes, of fresh starts.
_IMPORT_SECONDS = 5.0
_MAX_KILLS = 6
_PLACES = {
    "a checkpoint": r"ckpt-|/checkpoint\b|best",
    "the log": r"train_log|tensorboard|sentences",
    "the feature cache": r"/features/",
    "results": r"/results/|eval_results",
    "an export or conversion": r"/(exported|converted)",
    "records": r"/records",
    "a vocabulary": r"/run/vocab",
}


class Suite:
    """The cases, in folders of their own."""

    def __init__(self, folder: pathlib.Path, seed: int, max_kills: int = _MAX_KILLS) -> None:
        self._folder = folder
        self._seed = seed
        self._max_kills = max_kills
        self._server = Server()
        self._data = folder / "data"
        self._data.mkdir()
        self._server.call(write_data, str(self._data))
        self._whole: dict[str, list[End]] = {}
        self.figures: dict[str, Any] = {"cases": {}, "places": {}, "violations": []}

    def trial(self, case: Case, number: int) -> int:
        """Kills the commands of a case and lets them end; returns the number of kills."""
        generator = random.Random(f"{self._seed} {case.name} {number}")
        whole = self._unkilled(case)
        place = self._folder / f"{case.name} {number}"
        (place / "run").mkdir(parents=True)
        kills = 0
        problems: list[str] = []
        for command, unkilled in zip(case.commands, whole, strict=True):
            for left in reversed(range(generator.randint(1, self._max_kills) + 1)):
                before = newest_step(place / "run")
                end = self._start(case, command, place, generator if left else None, unkilled)
                after = newest_step(place / "run")
                if after < before:
                    problems.append(f"the newest checkpoint is of step {after}, not {before}")
                if end.status == KILLED:
                    kills += 1
                    self._note_place(end)
                elif end.status == 0 or (case.done and case.done in end.output):
                    break
                else:
                    problems.append(f"status {end.status}: {end.output[-600:]}")
                    break
        if not problems:
            reference = self._folder / case.name / "run"
            problems = self._server.call(compare, reference, place / "run", case.tolerance)
        counts = self._counts(case)
        counts["trials"] += 1
        counts["kills"] += kills
        for problem in problems:
            where = f"{case.name}, seed {self._seed}, trial {number}"
            self.figures["violations"].append(f"{where}, {kills} kills: {problem}")
        if not problems:
            shutil.rmtree(place)
        return kills

    def _counts(self, case: Case) -> dict[str, Any]:
        names = ("trials", "kills", "starts", "fresh")
        new = {**dict.fromkeys(names, 0), "trains": case.trains, "exact": not case.tolerance}
        return self.figures["cases"].setdefault(case.name, new)

    def _unkilled(self, case: Case) -> list[End]:
        """Returns the ends of an unkilled run, whose files are those to compare with."""
        if case.name not in self._whole:
            place = self._folder / case.name
            (place / "run").mkdir(parents=True)
            ends = [
                self._server.run(self._spelled(command, place), place)
                for command in case.commands
            ]
            for end in ends:
                if end.status:
                    raise RuntimeError(f"{case.name}: {end.output[-2000:]}")
            self._whole[case.name] = ends
        return self._whole[case.name]

    def _start(
        self,
        case: Case,
        command: Sequence[str],
        place: pathlib.Path,
        generator: random.Random | None,
        unkilled: End,
    ) -> End:
        """Starts a command, to be killed at random or, without a generator, to end."""
        counts = self._counts(case)
        counts["starts"] += 1
        arguments = self._spelled(command, place)
        if generator is None:
            return self._server.run(arguments, place)
        if generator.random() < _FRESH_SHARE:
            counts["fresh"] += 1
            seconds = _IMPORT_SECONDS + generator.random() * unkilled.seconds
            return run_fresh(arguments, place, seconds)
        if generator.random() < 0.3:
            seconds = generator.uniform(0.2, 1.0) * unkilled.seconds
            return self._server.run(arguments, place, seconds=seconds)
        change = generator.randrange(unkilled.changes)
        return self._server.run(arguments, place, change=change)

    def _spelled(self, command: Sequence[str], place: pathlib.Path) -> list[str]:
        return [
            part.replace("{data}", str(self._data)).replace("{run}", str(place / "run"))
            for part in command
        ]

    def _note_place(self, end: End) -> None:
        found = re.search(r"killed at change \d+: (.*)", end.output)
        name = "no change of a file"
        if found:
            names = [name for name, pattern in _PLACES.items() if re.search(pattern, found[1])]
            name = next(iter(names), "other files")
        places = self.figures["places"]
        places[name] = places.get(name, 0) + 1


def run(
    figures: pathlib.Path,
    seed: int,
    kills: int,
    minutes: float,
    names: Sequence[str] = (),
    max_kills: int = _MAX_KILLS,
) -> dict[str, Any]:
    """Kills until there were enough kills, or the time is over; writes the figures."""
    cases = [case for case in CASES if not names or case.name in names]
    start = time.monotonic()
    count: collections.Counter[bool] = collections.Counter()
    with tempfile.TemporaryDirectory() as folder:
        suite = Suite(pathlib.Path(folder).resolve(), seed, max_kills)
        number = 0
        needed = any(case.trains for case in cases)
        while count[needed] < kills and time.monotonic() - start < 60 * minutes:
            case = cases[number % len(cases)]
            count[case.trains] += suite.trial(case, number // len(cases))
            number += 1
            suite.figures["minutes"] = round((time.monotonic() - start) / 60, 1)
            figures.write_text(json.dumps(suite.figures, indent=2) + "\n")
            print(f"{sum(count.values())} kills, {case.name}", flush=True)
    return suite.figures


def main() -> None:
    """Reads the flags; exits with 1 if anything was found."""
    parser = argparse.ArgumentParser()
    parser.add_argument("figures", type=pathlib.Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--max_kills", type=int, default=_MAX_KILLS, help="of a run")
    parser.add_argument("--case", action="append", default=[])
    options = parser.parse_args()
    found = run(
        options.figures,
        options.seed,
        options.kills,
        options.minutes,
        options.case,
        options.max_kills,
    )
    print("\n".join(found["violations"]))
    sys.exit(bool(found["violations"]))


if __name__ == "__main__":
    main()
