"""RELIABILITY.md from the figures of `tests.faults.soak`.

`python -m tests.faults.report tests/faults/figures.json RELIABILITY.md`.
"""

import argparse
import json
import pathlib
from collections.abc import Mapping
from typing import Any

from electra_tf.util.console import markdown_table
from tests.faults import (
    report_builder,
    report_fuzzing,
    report_kills,
    report_runs,
    report_serving,
)
from tests.faults.corruption import (
    ANOTHER,
    DETECTED,
    HARMLESS,
    PASSED_OVER,
    UNCHANGED,
    VIOLATIONS,
)

_INTRODUCTION = """\
# Reliability

This page lists what the programs promise when something goes wrong, how that is tested, and
what was measured. `make test` tests a small part of it with a fixed seed.
`make soak SOAK_MINUTES=20` tests a larger part, then everything, and then more random faults
for the remaining time; the tables show what was tested. This page is written by
`python -m tests.faults.report tests/faults/figures.json RELIABILITY.md`
from the figures of the last soak: {rounds} rounds in {minutes} minutes from seed {first_seed},
and {kill_minutes} minutes of kills; Python {python}, TensorFlow {tensorflow}, {system}.

**{summary}**
"""
_NOT_REACHED = "Time ran out before or during these parts: {}."
_PROMISES = """\
## Promises

| promise | how it is tested | figures |
| --- | --- | --- |
| After a disk error or a power cut, either the old or the new content is there, complete: the \
newest complete checkpoint is found, never a damaged one, and always one if there was one. \
| `tests/faults/storage.py` | {images_read:,} states of a disk after a power cut at \
{crash_points:,} points, {errors_tried:,} failed calls |
| What was reported as written is still there after a power cut. | the same, after the last \
change | among these |
| A disk error is one message, without a traceback, and writing again succeeds. | the same | \
among these |
| A damaged file is named in one message, or changes nothing. | `tests/faults/corruption.py` | \
{damages:,} damages, {detected:,} named in an error, {passed:,} in a warning, {harmless:,} \
harmless |
{kills}
"""
_STORAGE = """\
## Full disks, disk errors and power cuts

A library loaded into the process (`tests/faults/shim.c`) records every change of a file or a
name, including those of TensorFlow's C++ writers. Each call is then made to fail in turn:
ENOSPC once, ENOSPC from then on, EIO once, EIO from then on, and a write of half the bytes.
After each change, the power is cut in a model of the disk (`tests/faults/disk.py`), in which
only flushed data and names in flushed folders are safe. The states after the cut have
everything written, only what was flushed, names without their data, zeros as data, a random
part of the journal with torn writes, or names in any order. The programs' own code reads each
state, writes to it again and reads it again. *Refused* means a message that says what to do,
while data is being replaced. Each distinct state is counted once; a call can fail in five ways.
"""
_CORRUPTION = """\
## Damaged files

One file of each kind is damaged and read as the programs read it: a bit, a byte or a digit is
changed, or the file is cut, emptied, zeroed, partly zeroed, garbled, lengthened or removed. *In
a warning* means that the program falls back to an older checkpoint or to another way. *Another
input* is one that is still valid, so that no program can detect the damage: text of the user's
own, such as a vocabulary with another word, and records without a manifest that are cut exactly
between two of them.
"""
_LIMITS = """\
## What is not promised

- Records without `pretrain_data.json`, such as those of the authors' code, have a checksum for
  each record only: a file cut exactly between two records reads as a shorter file. The program
  warns of missing and empty shards.
- Training checks the sizes of record files and the checksum of every record. Only
  `inspect_dataset.py --verify` finds a file replaced by another one of the same size.
- Files of earlier versions have no checksum of their content: in `config.json`, manifests,
  results and exports, only damage that breaks their format is found.
- A vocabulary whose description has been removed is used with the given settings; records and
  models made with it refuse other settings.
- A power cut may lose the last lines of the log, and features are recomputed.
- Nothing is promised on a disk that reports data as flushed and loses it.
- Training a vocabulary takes memory for every distinct word, and in text without spaces, words
  are as long as the lines. A JSONL or Parquet record is held in memory as a whole.
"""


def report(figures: Mapping[str, Any]) -> str:
    """Returns the page."""
    storage, corruption = figures["storage"], figures["corruption"]
    broken = figures["violations"]
    counts = {
        name: sum(each.get(outcome, 0) for each in corruption.values())
        for name, outcome in (
            ("detected", DETECTED),
            ("passed", PASSED_OVER),
            ("harmless", HARMLESS),
        )
    }
    totals = {
        key: sum(each[key] for each in storage.values())
        for key in ("images_read", "crash_points", "errors_tried")
    }
    damages = sum(
        count
        for each in corruption.values()
        for outcome, count in each.items()
        if outcome != UNCHANGED
    )
    summary = (
        f"{len(broken)} of the trials broke a promise:" if broken else "No promise was broken."
    )
    notes = [*broken, *figures.get("notes", ())]
    if figures.get("not_reached"):
        notes.append(_NOT_REACHED.format(", ".join(figures["not_reached"])))
    parts = [
        _INTRODUCTION.format(
            **figures,
            summary=summary,
            kill_minutes=figures.get("kills", {}).get("minutes", 0.0),
        )
        + "".join(f"\n- {note}" for note in notes),
        _PROMISES.format(
            **totals,
            **counts,
            damages=damages,
            kills="\n".join(
                [
                    *(each.promise(figures[name]) for name, each in parts_of(figures)),
                    *report_runs.promises(figures),
                ]
            ),
        ),
        f"{_STORAGE}\n{_storage_table(storage)}",
        f"{_CORRUPTION}\n{_corruption_table(corruption)}",
        *(each.section(figures[name]) for name, each in parts_of(figures)),
        *report_runs.sections(figures),
        _LIMITS,
    ]
    return "\n".join(part.rstrip("\n") + "\n" for part in parts)


def parts_of(figures: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Returns the names and reports of the parts that not every soak has."""
    parts = (
        ("kills", report_kills),
        ("builder", report_builder),
        ("fuzzing", report_fuzzing),
        ("serving", report_serving),
    )
    return [(name, each) for name, each in parts if name in figures]


def _storage_table(storage: Mapping[str, Any]) -> str:
    outcomes = ("old", "none", "new", "refused")
    columns = ["written", "points", "states", "of them read", "calls", "failures tried"]
    columns += [*outcomes, "others"]
    rows = []
    for name, each in storage.items():
        found = dict(each["outcomes"])
        counts = [found.pop(outcome, 0) for outcome in outcomes]
        keys = ("crash_points", "different_images", "images_read", "changes", "errors_tried")
        numbers = [*(each[key] for key in keys), *counts]
        rows.append([name, *(f"{number:,}" for number in numbers), f"{sum(found.values()):,}"])
    return markdown_table(columns, rows, text_columns=1)


def _corruption_table(corruption: Mapping[str, Any]) -> str:
    columns = {
        DETECTED: "in an error",
        PASSED_OVER: "in a warning",
        HARMLESS: "harmless",
        ANOTHER: "another input",
    }
    rows = [
        [
            name,
            *(f"{each.get(outcome, 0):,}" for outcome in columns),
            f"{sum(each.get(outcome, 0) for outcome in VIOLATIONS):,}",
        ]
        for name, each in corruption.items()
    ]
    return markdown_table(["file", *columns.values(), "unnoticed"], rows, text_columns=1)


def main() -> None:
    """Reads the figures and writes the page."""
    parser = argparse.ArgumentParser()
    parser.add_argument("figures", type=pathlib.Path)
    parser.add_argument("page", type=pathlib.Path)
    options = parser.parse_args()
    options.page.write_text(report(json.loads(options.figures.read_text())), encoding="utf-8")


if __name__ == "__main__":
    main()
