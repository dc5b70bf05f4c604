"""Result files of fine-tuning: text, JSON, Markdown and the authors' pickle.

No TensorFlow is imported here. File names contain the task names, so runs of one model on
different tasks can share a folder.
"""

import dataclasses
import json
import math
import os
import pathlib
import pickle
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from electra_tf.util.console import format_seconds, markdown_table
from electra_tf.util.errors import UserError
from electra_tf.util.files import write_atomically
from electra_tf.util.seals import sealed, without_seal
from finetune.results.provenance import Provenance
from finetune.results.summary import (
    CALIBRATION_METRICS,
    OK,
    SplitSummary,
    Statistics,
    Summary,
    TrialResult,
    summarize,
    task_splits,
)

JSON_SUFFIX = "_results.json"
# Where the models of the trials are, from the folder of the results; in the JSON.
MODEL_DIR = "model_dir"
UNDEFINED = "-"


class ResultFiles(NamedTuple):
    """Paths of the files written by `write_results`."""

    txt: str
    json: str
    pkl: str
    md: str


class RunResults(NamedTuple):
    """Contents of a `*_results.json` file."""

    model_name: str
    tasks: str
    trials: list[TrialResult]


def write_results(
    trials: Sequence[TrialResult],
    *,
    model_name: str,
    tasks_label: str,
    results_dir: str,
    results_txt: str | None = None,
    results_pkl: str | None = None,
    provenance: Provenance | None = None,
    model_dir: str | None = None,
) -> ResultFiles:
    """Writes the results of all trials so far, each file atomically.

    Args:
        trials: finished and unfinished trials, in order.
        model_name: name of the model, used in the title and in comparisons.
        tasks_label: comma-separated task names, used in file names.
        results_dir: folder of `<tasks>_results.{txt,json,pkl,md}`.
        results_txt: alternative path of the text file.
        results_pkl: alternative path of the pickle.
        provenance: what the scores are of; in the text, the tables and the JSON.
        model_dir: folder of the trials' models, without the number of the trial; in the JSON.
    """
    stem = os.path.join(results_dir, f"{tasks_label}_results")
    files = ResultFiles(
        txt=results_txt or f"{stem}.txt",
        json=f"{stem}.json",
        pkl=results_pkl or f"{stem}.pkl",
        md=f"{stem}.md",
    )
    source = f"\n{provenance.describe()}\n" if provenance else ""
    write_atomically(files.txt, format_text(trials) + source)
    relative = model_dir and os.path.relpath(model_dir, results_dir)
    content = _format_json(trials, model_name, tasks_label, provenance, relative)
    write_atomically(files.json, content)
    write_atomically(files.pkl, pickle.dumps(_authors_results(trials)))
    tables = format_markdown(trials, f"{model_name}: {tasks_label}")
    write_atomically(files.md, tables + source)
    return files


def read_results(path: str | os.PathLike) -> RunResults:
    """Reads a `*_results.json`.

    Raises:
        UserError: the file is missing, or was not written by `write_results`.
    """
    try:
        content = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
        content = without_seal(content, path)
        trials = [
            TrialResult(
                **{
                    **trial,
                    "metrics": {
                        key: {n: math.nan if v is None else v for n, v in values.items()}
                        for key, values in trial["metrics"].items()
                    },
                }
            )
            for trial in content["trials"]
        ]
        return RunResults(content["model_name"], content["tasks"], trials)
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}") from error
    except UserError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError(
            f"{path} is not a {JSON_SUFFIX} file of run_finetuning.py: {error!r}"
        ) from error


def format_text(trials: Sequence[TrialResult]) -> str:
    """Returns the results as text.

    Each trial has a line with its status, followed by one line per task in the authors' format,
    "task: metric: value - metric: value". The summary follows.
    """
    names = _authors_names(trials)
    lines = []
    for trial in trials:
        lines.append(_describe_trial(trial))
        if trial.finished:
            lines.extend(
                f"{names[key]}: "
                + " - ".join(f"{n}: {format_metric(n, v)}" for n, v in metrics.items())
                for key, metrics in _authors_metrics(trial)
            )
    return "\n".join([*lines, "", *format_summary(trials)]) + "\n"


def format_summary(trials: Sequence[TrialResult]) -> list[str]:
    """Returns the lines of the summary of all trials."""
    summary = summarize(trials)
    unit, center = ("folds", "mean") if summary.by_fold else ("trials", "median")
    finished = summary.num_trials - len(summary.unfinished)
    lines = [f"Summary: {finished} of {summary.num_trials} {unit} finished"]
    lines += [f"  {_describe_trial(t)}" for t in (*summary.degenerate, *summary.unfinished)]
    for key, split in summary.splits.items():
        lines.append(
            f"{key}: {split.main} {center} {main_metric_text(split, by_fold=summary.by_fold)} "
            f"(n {split.metrics[split.main].n})"
        )
        lines += [_describe_statistics(name, s) for name, s in split.metrics.items()]
    for key, split in (summary.ok_splits or {}).items():
        lines.append(f"{key} without degenerate {unit}:")
        lines += [_describe_statistics(name, s) for name, s in split.metrics.items()]
    return lines


def format_markdown(trials: Sequence[TrialResult], title: str) -> str:
    """Returns tables of the main metrics by trial and of the statistics of all metrics."""
    summary = summarize(trials)
    keys = list(summary.splits)
    columns = [f"{key} ({summary.splits[key].main})" for key in keys]
    rows = [
        [
            trial.label if trial.status == OK else f"{trial.label} ({trial.status})",
            str(trial.seed),
            *(_main_cell(trial, key, summary) for key in keys),
        ]
        for trial in trials
    ]
    for name in ("mean" if summary.by_fold else "median", "std"):
        rows.append([name, "", *(_statistic_cell(summary.splits[key], name) for key in keys)])
    first = "trial, fold" if summary.by_fold else "trial"
    parts = [f"# {title}", markdown_table([first, "seed", *columns], rows, text_columns=1)]
    odd = (*summary.degenerate, *summary.unfinished)
    if odd:
        parts.append("\n".join(f"- {_describe_trial(trial)}" for trial in odd))
    parts += ["## All metrics", _statistics_table(summary.splits)]
    if summary.ok_splits is not None:
        parts += ["## Without degenerate trials", _statistics_table(summary.ok_splits)]
    return "\n\n".join(parts) + "\n"


def main_metric_text(split: SplitSummary, *, by_fold: bool) -> str:
    """Returns "median ± std" of the main metric, or "mean ± std" over folds."""
    values = split.metrics[split.main]
    center = format_metric(split.main, values.mean if by_fold else values.median)
    if values.std is None:
        return center
    return f"{center} ± {format_metric(split.main, values.std)}"


def format_metric(name: str, value: float | None) -> str:
    """Returns a loss with four decimals, other metrics with two; "-" if undefined."""
    if value is None or not math.isfinite(value):
        return UNDEFINED
    return f"{value:.4f}" if name.endswith("loss") else f"{value:.2f}"


def _describe_trial(trial: TrialResult) -> str:
    status = f"{trial.status} ({trial.reason})" if trial.reason else trial.status
    best = "" if trial.best_step is None else f", best at step {trial.best_step:,}"
    if best and trial.chosen_on:
        best += f" (chosen on {', '.join(trial.chosen_on)})"
    counts = ", ".join(f"{count:,} {name}" for name, count in trial.examples.items())
    return (
        f"trial {trial.label}, seed {trial.seed}: {status}, {trial.steps:,} steps{best}, "
        f"{format_seconds(trial.seconds)}{counts and f'; examples: {counts}'}"
    )


def _describe_statistics(name: str, values: Statistics) -> str:
    numbers = ", ".join(
        f"{statistic} {format_metric(name, getattr(values, statistic))}"
        for statistic in ("median", "mean", "std", "min", "max")
    )
    undefined = f", undefined in {values.undefined}" if values.undefined else ""
    return f"  {name}: {numbers}, n {values.n}{undefined}"


def _main_cell(trial: TrialResult, key: str, summary: Summary) -> str:
    if not trial.finished:
        return UNDEFINED
    main = summary.splits[key].main
    return format_metric(main, trial.metrics.get(key, {}).get(main))


def _statistic_cell(split: SplitSummary, statistic: str) -> str:
    return format_metric(split.main, getattr(split.metrics[split.main], statistic))


def _statistics_table(splits: Mapping[str, SplitSummary]) -> str:
    statistics = ("median", "mean", "std", "min", "max")
    rows = [
        [
            key,
            name,
            *(format_metric(name, getattr(values, statistic)) for statistic in statistics),
            str(values.n),
        ]
        for key, split in splits.items()
        for name, values in split.metrics.items()
    ]
    return markdown_table(["task", "metric", *statistics, "n"], rows, text_columns=2)


def _authors_names(trials: Sequence[TrialResult]) -> dict[str, str]:
    """Maps "task/split" to the task for its first split, and to task_split for others."""
    names: dict[str, str] = {}
    for key in task_splits(trials):
        task, _, split = key.rpartition("/")
        names[key] = f"{task}_{split}" if task in names.values() else task
    return names


def _authors_metrics(trial: TrialResult) -> Iterator[tuple[str, dict[str, float]]]:
    """Yields the metrics of each task and split that the authors' scorers have."""
    for key, metrics in trial.metrics.items():
        yield key, {n: v for n, v in metrics.items() if n not in CALIBRATION_METRICS}


def _authors_results(trials: Sequence[TrialResult]) -> list[dict[str, dict[str, float]]]:
    """Returns a list over trials of {task: {metric: value}}, as the authors pickle it.

    It has plain Python objects only; an unfinished trial is an empty dict.
    """
    names = _authors_names(trials)
    return [
        {
            names[key]: {name: float(value) for name, value in metrics.items()}
            for key, metrics in _authors_metrics(trial)
            if trial.finished
        }
        for trial in trials
    ]


def _format_json(
    trials: Sequence[TrialResult],
    model_name: str,
    tasks_label: str,
    provenance: Provenance | None,
    model_dir: str | None,
) -> str:
    summary = summarize(trials)

    def splits(summaries: Mapping[str, SplitSummary] | None) -> dict[str, Any] | None:
        if summaries is None:
            return None
        return {key: dataclasses.asdict(split) for key, split in summaries.items()}

    content = {
        "model_name": model_name,
        "tasks": tasks_label,
        MODEL_DIR: model_dir,
        "provenance": provenance.to_json() if provenance else None,
        "summary": splits(summary.splits),
        "summary_without_degenerate": splits(summary.ok_splits),
        "trials": [_trial_to_json(trial) for trial in trials],
    }
    return json.dumps(sealed(content), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _trial_to_json(trial: TrialResult) -> dict[str, Any]:
    # JSON has no NaN, so an undefined metric is null. float() also converts NumPy numbers.
    metrics = {
        key: {n: float(v) if math.isfinite(v) else None for n, v in values.items()}
        for key, values in trial.metrics.items()
    }
    return {**dataclasses.asdict(trial), "metrics": metrics}
