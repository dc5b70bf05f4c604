"""The parts of RELIABILITY.md about lost workers and long runs."""

from collections.abc import Mapping, Sequence
from typing import Any

from electra_tf.util.console import markdown_table

_WORKERS = """\
## Lost workers

A fault strikes one of two or three workers on this machine, drawn at random, after a random
checkpoint. *Kill* is SIGKILL, *stop* is SIGSTOP for good, and *delay* is SIGSTOP for some
seconds; with *other settings*, the worker starts with another learning rate. After a kill or a
stop, the survivors end with status 43 after the seconds in the table. Then all workers are
restarted, and weights and logs are compared with those of undisturbed workers, up to 1e-6. A
delayed worker's run ends as if nothing had happened. With other settings, all workers end with
status 1 and nothing is written.
"""
_NO_PARTITION = "Broken networks have not been tried.\n"
_PARTITION = """\
## Broken networks

Each worker has its own network namespace, and the port of one worker is removed from the bridge
between them, so that all its traffic is lost (`tests/faults/partition.py`). If the network is
*cut* for good, all workers end with status 43 after the seconds in the table, and a restart
resumes exactly; if it is cut for some seconds, the run ends as if nothing had happened.
"""
_LONG = """\
## Long runs

{steps:,} steps of a model of one layer by the program's own loop
(`tests/faults/long_run.py`{flag}), with evaluations and checkpoints. Slopes are of
the last four fifths, with their 95 % intervals.
"""
_UNITS = {
    "memory_mb": "memory, MB",
    "files": "open files",
    "threads": "threads",
    "step_cpu_ms": "CPU time of a step, ms",
}


def promises(figures: Mapping[str, Any]) -> list[str]:
    """Returns rows of the table of promises."""
    rows = []
    if "workers" in figures:
        trials = figures["workers"]["trials"]
        rows.append(
            "| When a worker is lost, the others end with status 43, and a restart resumes "
            "exactly; other settings are refused before the first step. | "
            f"`tests/faults/workers.py` | {len(trials)} faults |"
        )
    if figures.get("partition", {}).get("trials"):
        rows.append(
            "| When the network breaks, all workers end with status 43, and a restart resumes "
            "exactly. | `tests/faults/partition.py` | "
            f"{len(figures['partition']['trials'])} cuts |"
        )
    if "long_run" in figures:
        rows.append(
            "| Open files and threads do not grow with the steps; memory as the table says. | "
            f"`tests/faults/long_run.py` | {figures['long_run']['steps']:,} steps |"
        )
    return rows


def sections(figures: Mapping[str, Any]) -> list[str]:
    """Returns the sections with their tables."""
    parts = []
    if "workers" in figures:
        text = _WORKERS if "partition" in figures else f"{_WORKERS}{_NO_PARTITION}"
        parts.append(f"{text}\n{_worker_table(figures['workers']['trials'])}")
    if "partition" in figures:
        reason = figures["partition"].get("left_out")
        found = (
            f"Not tried: {reason}." if reason else _worker_table(figures["partition"]["trials"])
        )
        parts.append(f"{_PARTITION}\n{found}")
    if "long_run" in figures:
        rows = [
            [
                _UNITS[name],
                f"{each['first']:,.1f}",
                f"{each['last']:,.1f}",
                f"{each['per_million_steps']:,.1f} ± {each['half_interval']:,.1f}",
            ]
            for name, each in figures["long_run"]["measures"].items()
        ]
        columns = ["", "first", "last", "change in a million steps"]
        flag = " with `--compiled`" if figures["long_run"].get("compiled") else ""
        text = _LONG.format(**figures["long_run"], flag=flag)
        parts.append(f"{text}\n{markdown_table(columns, rows, text_columns=1)}")
    return parts


def _worker_table(trials: Sequence[Mapping[str, Any]]) -> str:
    rows = [
        [each["fault"], str(each["workers"]), str(each["worker"]), f"{each['seconds']:.1f}"]
        for each in trials
    ]
    columns = ["fault", "workers", "struck", "seconds until all ended"]
    return markdown_table(columns, rows, text_columns=1)
