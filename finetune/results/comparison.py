"""Comparison table of several runs: models in rows, tasks in columns."""

import os
from collections.abc import Sequence

from electra_tf.util.console import markdown_table
from electra_tf.util.errors import UserError
from finetune.results.result_files import read_results
from finetune.results.result_text import UNDEFINED, main_metric_text
from finetune.results.summary import Summary, summarize


def merge_tables(
    json_paths: Sequence[str | os.PathLike], names: Sequence[str] | None = None
) -> str:
    """Returns a Markdown table of the main metrics of several `*_results.json` files.

    A cell is "median ± standard deviation (number of trials)", or the mean over folds. Notes
    below the table list runs with degenerate or unfinished trials or undefined metrics, and
    columns whose runs were trained or scored on different files.

    Args:
        json_paths: one path per run of a model on one or more tasks.
        names: row names, one per path; None uses the model names. Runs of the same name share
            a row.

    Raises:
        UserError: a file cannot be read, the number of names is wrong, or two runs have the
            same cell.
    """
    if names is not None and len(names) != len(json_paths):
        raise UserError(
            f"--names has {len(names)} names for the {len(json_paths)} files of --results: "
            "pass one for each of them, or for each folder"
        )
    cells: dict[tuple[str, str], str] = {}
    origins: dict[tuple[str, str], str | os.PathLike] = {}
    notes = []
    rows_of_files: dict[tuple[str, str], dict[str, list[str]]] = {}
    for i, path in enumerate(json_paths):
        run = read_results(path)
        name = names[i] if names is not None else run.model_name
        summary = summarize(run.trials)
        notes += _notes(f"{name}, {run.tasks}", summary)
        for task_split, split in summary.splits.items():
            cell = (name, f"{task_split} ({split.main})")
            if cell in cells:
                raise UserError(
                    f"{origins[cell]} and {path} both have {cell[1]} of {name!r}: distinguish "
                    "them with --names, one name per file"
                )
            origins[cell] = path
            cells[cell] = _cell(summary, task_split)
            if run.task_files:
                column_rows = rows_of_files.setdefault((run.tasks, cell[1]), {})
                column_rows.setdefault(run.task_files, []).append(name)
        if not summary.splits:
            cells.setdefault((name, ""), "")
    for (_, column), names_of in rows_of_files.items():
        if len(names_of) > 1:
            groups = " | ".join(", ".join(group) for group in names_of.values())
            notes.append(f"{column}: the files of the task differ between {groups}")
    rows = list(dict.fromkeys(row for row, _ in cells))
    columns = list(dict.fromkeys(column for _, column in cells if column))
    table = markdown_table(
        ["model", *columns],
        [[row, *(cells.get((row, column), UNDEFINED) for column in columns)] for row in rows],
        text_columns=1,
    )
    legend = (
        "Cells: median ± standard deviation (trials), or mean ± standard deviation (folds)."
    )
    return "\n\n".join([table, "\n".join([legend, *(f"- {note}" for note in notes)])]) + "\n"


def _cell(summary: Summary, task_split: str) -> str:
    split = summary.splits[task_split]
    n = split.metrics[split.main].n
    if not n:
        return UNDEFINED
    unit = " folds" if summary.by_fold else ""
    return f"{main_metric_text(split, by_fold=summary.by_fold)} ({n}{unit})"


def _notes(run: str, summary: Summary) -> list[str]:
    unit = "folds" if summary.by_fold else "trials"
    finished = summary.num_trials - len(summary.unfinished)
    undefined = [
        f"{run}: {key} ({split.main}) is undefined in {count} of {finished} {unit} "
        "(not counted)"
        for key, split in summary.splits.items()
        if (count := split.metrics[split.main].undefined)
    ]
    notes = []
    if summary.degenerate:
        reasons = dict.fromkeys(t.reason for t in summary.degenerate if t.reason)
        counted = "counted where the metric is defined" if undefined else "counted"
        notes.append(
            f"{run}: {len(summary.degenerate)} of {summary.num_trials} {unit} learned nothing "
            f"({counted}){': ' if reasons else ''}{'; '.join(reasons)}"
        )
    notes += undefined
    if summary.unfinished:
        which = "; ".join(
            f"trial {t.label}, seed {t.seed}, {t.status}" for t in summary.unfinished
        )
        notes.append(
            f"{run}: {len(summary.unfinished)} of {summary.num_trials} {unit} did not finish "
            f"(not counted): {which}"
        )
    return notes
