"""The part of RELIABILITY.md about killed programs, and the sums of its figures."""

from collections.abc import Mapping
from typing import Any

from electra_tf.util.console import markdown_table

_COUNTS = ("trials", "kills", "starts", "fresh")
_TEXT = """\
## Killed programs

The programs, run from their command lines, are killed by SIGKILL and restarted until they end.
A kill strikes at a random time, or in the middle of a file change drawn from all that an
unkilled run makes (`shim.c` counts them, and half of a write is done). Then everything that
they leave is compared with what an unkilled run leaves: weights, moments and step of every
checkpoint, every line of the logs (each step's losses, which follow from the order of the
data), features, results, records, and names of files. The comparison excludes times, checksums
of content with times, TensorBoard's files, pictures and the graph of an export. Two replicas
may differ by 1e-6; all others must be bit-identical. Most starts fork a process that imported
TensorFlow and has no device yet; *fresh* ones are new processes. Of {starts:,} starts,
{kills:,} were killed, the others ended by themselves. The kills struck {places}.
"""


def promise(kills: Mapping[str, Any]) -> str:
    """Returns the row of the table of promises."""
    training = [each for each in kills["cases"].values() if each["trains"]]
    exact = sum(each["kills"] for each in training if each["exact"])
    several = sum(each["kills"] for each in training) - exact
    others = sum(each["kills"] for each in kills["cases"].values()) - exact - several
    return (
        "| A program that is killed and started again leaves what an unkilled one leaves. | "
        f"`tests/faults/kills.py` | {exact:,} kills of training on one device, bit-identical; "
        f"{several:,} on two replicas, within 1e-6; {others:,} of other programs |"
    )


def section(kills: Mapping[str, Any]) -> str:
    """Returns the section with its table."""
    cases = kills["cases"]
    places = sorted(kills["places"].items(), key=lambda item: -item[1])
    text = _TEXT.format(
        starts=sum(each["starts"] for each in cases.values()),
        kills=sum(each["kills"] for each in cases.values()),
        places=", ".join(f"{name} ({count})" for name, count in places),
    )
    rows = [[name, *(f"{each[key]:,}" for key in _COUNTS)] for name, each in cases.items()]
    columns = ["killed", "runs compared", "kills", "starts", "fresh"]
    return f"{text}\n{markdown_table(columns, rows, text_columns=1)}"


def add_kills(figures: dict[str, Any], found: Mapping[str, Any]) -> None:
    """Adds the figures of `tests.faults.kills` to those of all trials."""
    kept = figures.setdefault("kills", {"cases": {}, "places": {}, "minutes": 0.0})
    for name, case in found["cases"].items():
        before = kept["cases"].setdefault(name, {**case, **dict.fromkeys(_COUNTS, 0)})
        for key in _COUNTS:
            before[key] += case[key]
    for name, count in found["places"].items():
        kept["places"][name] = kept["places"].get(name, 0) + count
    kept["minutes"] = round(kept["minutes"] + found.get("minutes", 0.0), 1)
    figures["violations"] += found["violations"]
