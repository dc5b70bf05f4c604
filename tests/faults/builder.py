"""Faults of the programs that build records and vocabularies, tried on the programs themselves.

`python -m tests.faults.builder FIGURES --seed 1 --rounds 3` kills them and their processes at
random, fills their disk, takes their permissions away, links folders in circles, starts two at
once, and gives them every code point. After each fault, every file with a final name must be
that of the older or of the new data. `--line_mb 1000` measures the memory that a very long line
takes.
"""

import argparse
import json
import pathlib
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from typing import Any

from tests.faults import mounts
from tests.faults.build_texts import LINES, write_long_line
from tests.faults.builder_faults import FAULTS, MOUNTING, VOCAB_FILE, Trials, vocabulary_flags
from tests.faults.built import BUILD, VOCABULARY, run

# Memory that a line may take beyond one of a megabyte, however long it is.
MEMORY_LIMIT_MB = 600.0
PROGRAMS = ((BUILD, ()), (VOCABULARY, ()))


def try_fault(trials: Trials, name: str, figures: dict[str, Any]) -> None:
    """Tries a fault once, and adds what it leaves to the figures."""
    outcome, problems = FAULTS[name](trials)
    counts = figures["faults"].setdefault(name, {})
    counts[outcome] = counts.get(outcome, 0) + 1
    where = f"builder, {name}, seed {trials.seed}"
    figures["violations"] += [f"{where}: {problem}" for problem in problems]
    print(f"{where}: {outcome} {problems or ''}", flush=True)


def measure_line(
    folder: pathlib.Path, kind: str, program: str, flags: Sequence[str], megabytes: float
) -> dict[str, Any]:
    """Measures the memory of a program that reads one line of so many megabytes.

    Returns:
        "peak_mb" of its first process; "more_mb" than for a line of one megabyte; "seconds".

    Raises:
        RuntimeError: the program failed.
    """
    ends = []
    for size in (1, megabytes):
        place = pathlib.Path(tempfile.mkdtemp(dir=folder))
        (place / "corpus").mkdir()
        write_long_line(place / "corpus/line.txt", kind, size)
        to = [f"--vocab-file={VOCAB_FILE}", f"--output-dir={place}/records"]
        if program == VOCABULARY:
            to = vocabulary_flags(place, 60)
        end = run(program, [f"--corpus-dir={place}/corpus", *to, *flags], place)
        if end.status:
            raise RuntimeError(f"{program}, a line of {size} MB, {kind}: {end.errors[-600:]}")
        ends.append(end)
        shutil.rmtree(place)
    return {
        "line": kind,
        "program": " ".join([program, *flags]),
        "mb": megabytes,
        "peak_mb": round(ends[1].peak_mb, 1),
        "more_mb": round(ends[1].peak_mb - ends[0].peak_mb, 1),
        "seconds": round(ends[1].seconds, 1),
    }


def main() -> None:
    """Reads the flags, tries the faults and writes the figures; exits with 1 on violations."""
    parser = argparse.ArgumentParser()
    parser.add_argument("figures", type=pathlib.Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--fault", choices=FAULTS, action="append")
    parser.add_argument("--line_mb", type=float, default=0, help="size of the long lines")
    parser.add_argument("--line", choices=LINES, action="append")
    options = parser.parse_args()
    start = time.monotonic()
    figures: dict[str, Any] = {"faults": {}, "memory": [], "violations": []}
    no_mounts = mounts.own_mounts()
    names = [*(FAULTS if options.fault is None else options.fault)]
    if no_mounts:
        figures["left_out"] = {name: no_mounts for name in names if name in MOUNTING}
        names = [name for name in names if name not in MOUNTING]

    def note() -> None:
        figures["minutes"] = round((time.monotonic() - start) / 60, 1)
        options.figures.write_text(json.dumps(figures, indent=2) + "\n")

    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name).resolve()
        trials = Trials(folder, options.seed) if options.rounds else None
        for fault in names * options.rounds:
            if time.monotonic() - start > 60 * options.minutes:
                break
            try_fault(trials, fault, figures)
            note()
        for kind in (options.line or LINES) if options.line_mb else ():
            for program, flags in PROGRAMS:
                row = measure_line(folder, kind, program, flags, options.line_mb)
                print(row, flush=True)
                figures["memory"].append(row)
                if row["more_mb"] > MEMORY_LIMIT_MB:
                    figures["violations"].append(f"builder, memory of a long line: {row}")
                note()
    sys.exit(bool(figures["violations"]))


if __name__ == "__main__":
    main()
