"""Tables of a report: runs in numbers, their settings, and scores of each class."""

import json
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from electra_tf.report.figures import label_of
from electra_tf.report.runs import Confusion, ReportRun, Table
from electra_tf.training.monitoring.run_info import training_seconds
from electra_tf.util.console import format_seconds

_MISSING = "–"
# Columns of the comparison: metric, and how it is printed.
_COMPARED = (
    ("loss", ".4g"),
    ("masked_lm_accuracy", ".3f"),
    ("disc_loss", ".4f"),
    ("disc_auc", ".3f"),
    ("disc_auc_within_token", ".3f"),
    ("disc_precision", ".3f"),
    ("disc_recall", ".3f"),
    ("replaced_share", ".3f"),
)


def comparison_table(runs: Sequence[ReportRun]) -> Table:
    """Returns a row for each log: its last values, held out if there are any, and its speed."""
    rows = []
    for run in runs:
        for label, records in run.logs.items():
            training = [r for r in records if r["kind"] == "train"]
            evaluated = [r for r in records if r["kind"] == "eval"]
            source, last = _last_values(training, evaluated)
            rates = [v for r in training if (v := r.get("sequences_per_second")) is not None]
            mfu = [v for r in training if (v := r.get("mfu")) is not None]
            rows.append(
                [
                    label_of(runs, run, label),
                    f"{max((r['step'] for r in records), default=0):,}",
                    source,
                    *(_number(last.get(name), spec) for name, spec in _COMPARED),
                    _number(statistics.median(rates) if rates else None, ",.1f"),
                    _number(statistics.median(mfu) if mfu else None, ".1%"),
                    _training_time(training),
                ]
            )
    names = [name.replace("_", " ") for name, _ in _COMPARED]
    header = ["run", "steps", "measured on", *names, "sequences/s", "MFU", "training time"]
    kept = [i for i in range(len(header)) if i < 2 or any(row[i] != _MISSING for row in rows)]
    return Table("", [header[i] for i in kept], [[row[i] for i in kept] for row in rows])


def _last_values(
    training: Sequence[Mapping[str, Any]], evaluated: Sequence[Mapping[str, Any]]
) -> tuple[str, Mapping[str, Any]]:
    """Returns the last record with values to compare, and the text that it is of."""
    for source, records in (("held-out text", evaluated), ("training text", training)):
        last = records[-1] if records else {}
        if any(name in last for name, _ in _COMPARED):
            return source, last
    return _MISSING, {}


def settings_tables(runs: Sequence[ReportRun]) -> tuple[list[Table], list[Table]]:
    """Returns tables of the settings and environments that differ, and of all others."""
    different, equal = [], []
    for title, maps in (
        ("Settings", [run.settings for run in runs]),
        ("Environment", [run.environment for run in runs]),
    ):
        names = sorted({name for values in maps for name in values}, key=str.lower)
        rows: dict[bool, list[list[str]]] = {True: [], False: []}
        for name in names:
            cells = [_value(values[name]) if name in values else _MISSING for values in maps]
            same = len(set(cells)) == 1
            rows[same].append([name, *(cells[:1] if same else cells)])
        if rows[False]:
            header = ["", *(run.name for run in runs)]
            different.append(Table(f"{title} that differ", header, rows[False]))
        if rows[True]:
            equal.append(Table(title, ["", "value"], rows[True]))
    return different, equal


def class_scores_table(confusion: Confusion) -> Table:
    """Returns precision, recall, F1 and number of examples of each class."""
    rows = []
    for i, label in enumerate(confusion.labels):
        correct = confusion.counts[i][i]
        gold = sum(confusion.counts[i])
        predicted = sum(row[i] for row in confusion.counts)
        precision = correct / predicted if predicted else None
        recall = correct / gold if gold else None
        f1 = 2 * correct / (gold + predicted) if gold + predicted else None
        rows.append(
            [str(label), *(_number(x, ".3f") for x in (precision, recall, f1)), f"{gold:,}"]
        )
    return Table(
        f"{confusion.title}, by class",
        ["class", "precision", "recall", "F1", "examples"],
        rows,
    )


def _training_time(training: Sequence[Mapping[str, Any]]) -> str:
    seconds = training_seconds(training)
    return format_seconds(seconds) if seconds else _MISSING


def _number(value: Any, spec: str) -> str:
    return f"{value:{spec}}" if isinstance(value, int | float) else _MISSING


def _value(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
