"""Text and Markdown tables of the results of fine-tuning."""

import math
from collections.abc import Iterator, Mapping, Sequence

from electra_tf.util.console import format_seconds, markdown_table
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

UNDEFINED = "-"


def format_text(trials: Sequence[TrialResult]) -> str:
    """Returns the results as text.

    Each trial has a line with its status, followed by one line per task in the authors' format,
    "task: metric: value - metric: value". The summary follows.
    """
    names = authors_names(trials)
    lines = []
    for trial in trials:
        lines.append(_describe_trial(trial))
        if trial.finished:
            lines.extend(
                f"{names[key]}: "
                + " - ".join(f"{n}: {format_metric(n, v)}" for n, v in metrics.items())
                for key, metrics in authors_metrics(trial)
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
    if summary.ok_splits:
        unit = "folds" if summary.by_fold else "trials"
        parts += [f"## Without degenerate {unit}", _statistics_table(summary.ok_splits)]
    return "\n\n".join(parts) + "\n"


def main_metric_text(split: SplitSummary, *, by_fold: bool) -> str:
    """Returns "median ± std" of the main metric, or "mean ± std" over folds."""
    values = split.metrics[split.main]
    center = format_metric(split.main, values.mean if by_fold else values.median)
    if values.std is None:
        return center
    return f"{center} ± {format_metric(split.main, values.std)}"


def format_metric(name: str, value: float | None) -> str:
    """Returns a loss or error with four decimals, others with two; "-" if undefined."""
    if value is None or not math.isfinite(value):
        return UNDEFINED
    return f"{value:.4f}" if name.endswith(("loss", "mse")) else f"{value:.2f}"


def authors_names(trials: Sequence[TrialResult]) -> dict[str, str]:
    """Maps "task/split" to the task for its first split, and to task_split for others."""
    names: dict[str, str] = {}
    for key in task_splits(trials):
        task, _, split = key.rpartition("/")
        names[key] = f"{task}_{split}" if task in names.values() else task
    return names


def authors_metrics(trial: TrialResult) -> Iterator[tuple[str, dict[str, float]]]:
    """Yields the metrics of each task and split without those of calibration."""
    for key, metrics in trial.metrics.items():
        yield key, {n: v for n, v in metrics.items() if n not in CALIBRATION_METRICS}


def _describe_trial(trial: TrialResult) -> str:
    status = f"{trial.status} ({trial.reason})" if trial.reason else trial.status
    best = "" if trial.best_step is None else f", best at step {trial.best_step:,}"
    if trial.chosen_on:
        chosen = f"chosen on {', '.join(trial.chosen_on)}"
        best += f" ({chosen})" if best else f", weights {chosen}"
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
