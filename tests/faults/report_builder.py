"""The part of RELIABILITY.md about programs that build data, and the sums of its figures."""

from collections.abc import Mapping
from typing import Any

from electra_tf.util.console import markdown_table
from tests.faults.built import NEW, NONE, OLD, REFUSED

_OUTCOMES = (OLD, NONE, NEW, REFUSED)
_TEXT = """\
## Building data

`build_pretraining_dataset.py` and `build_vocabulary.py` run over older data, with one or two
processes, under these faults (`tests/faults/builder.py`): SIGKILL of the program or one of its
processes at a random time; a disk in memory that is too small; missing permissions (for root
too, by dropping its capabilities); two programs that write to the same place. Every file with
a final name must be from the older or the new data, the message must be one line without a
traceback, nothing else may be left, and the next build must work as if nothing had happened.
*Refused* are records that say that they are not complete.
"""
_MEMORY = """\
Peak memory of the first process while it reads one line of the given size, and the increase
over a line of one megabyte:
"""


def promise(builder: Mapping[str, Any]) -> str:
    """Returns the row of the table of promises."""
    count = sum(sum(outcomes.values()) for outcomes in builder["faults"].values())
    return (
        "| A build that fails leaves the older data, and no half of a shard under a final "
        "name; its memory does not grow with the length of a line. "
        f"| `tests/faults/builder.py` | {count:,} faults of builds |"
    )


def section(builder: Mapping[str, Any]) -> str:
    """Returns the section with its tables."""
    rows = []
    for name, outcomes in builder["faults"].items():
        counts = [sum(outcomes.values()), *(outcomes.get(each, 0) for each in _OUTCOMES)]
        rows.append([name, *(f"{count:,}" for count in counts)])
    parts = [_TEXT, markdown_table(["fault", "trials", *_OUTCOMES], rows, text_columns=1)]
    for name, reason in builder.get("left_out", {}).items():
        parts.append(f"\nNot tried: {name} ({reason}).")
    if builder["memory"]:
        rows = [
            [
                each["line"],
                f"`{each['program']}`",
                *(f"{each[key]:,.0f}" for key in ("mb", "peak_mb", "more_mb", "seconds")),
            ]
            for each in builder["memory"]
        ]
        columns = ["line", "program", "MB", "peak, MB", "more, MB", "seconds"]
        parts += ["", _MEMORY, markdown_table(columns, rows, text_columns=2)]
    return "\n".join(parts)


def add_builder(figures: dict[str, Any], found: Mapping[str, Any]) -> None:
    """Adds the figures of `tests.faults.builder` to those of all trials."""
    kept = figures.setdefault("builder", {"faults": {}, "memory": [], "minutes": 0.0})
    for name, outcomes in found["faults"].items():
        counts = kept["faults"].setdefault(name, {})
        for outcome, count in outcomes.items():
            counts[outcome] = counts.get(outcome, 0) + count
    kept["memory"] += found["memory"]
    kept["minutes"] = round(kept["minutes"] + found.get("minutes", 0.0), 1)
    if "left_out" in found:
        kept["left_out"] = found["left_out"]
    figures["violations"] += found["violations"]
