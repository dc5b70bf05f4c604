"""Reads fine-tuning runs for reports: scores, logs and confusion matrices of all trials."""

import os
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from electra_tf.report.runs import (
    Confusion,
    ReportRun,
    Table,
    environment_of,
    facts_of_run,
    has_log,
    health_of,
    settings_of,
)
from electra_tf.training.monitoring.health import is_judged
from electra_tf.training.monitoring.run_info import LOG_FILE, read_log
from electra_tf.util.files import read_json, read_object
from finetune.results.confusion_counts import CONFUSION_SUFFIX, read_confusion
from finetune.results.ensemble_scores import EnsembleScores, ensemble_file, read_ensemble
from finetune.results.provenance import PRETRAINED, scored_settings_digest
from finetune.results.result_files import (
    JSON_SUFFIX,
    RunResults,
    file_label,
    file_stem,
    read_results,
)
from finetune.results.result_text import format_metric
from finetune.results.summary import TrialResult
from finetune.results.worst_errors import ERRORS_SUFFIX, MAX_ERRORS, read_errors


def read_finetuning_run(path: str | os.PathLike) -> ReportRun:
    """Reads a `*_results.json` of fine-tuning, and the logs of its trials.

    Raises:
        UserError: the file, or one that belongs to it, is damaged.
    """
    results = read_results(path)
    folder = pathlib.Path(path).parent
    logs: dict[str, list[dict[str, Any]]] = {}
    settings: dict[str, Any] = {}
    environment: dict[str, Any] = {}
    health: list[str] = []
    unjudged: list[str] = []
    notes: list[str] = []
    model_dir = _model_dir(path, results)
    ensemble = read_ensemble(ensemble_file(folder, results.tasks))
    provenance = read_object(os.fspath(path), "provenance")
    for trial in results.trials:
        title = f"trial {trial.label}"
        trial_dir = f"{model_dir}_{file_label(trial.trial, trial.fold)}"
        if not has_log(trial_dir):
            notes.append(f"No log of trial {trial.label}.")
            continue
        logs[title] = read_log(os.path.join(trial_dir, LOG_FILE))
        own = settings_of(trial_dir)
        settings = settings or own
        environment = environment or environment_of(trial_dir)
        if not _may_be_of_model(trial, provenance, own):
            notes.append(
                f"The log and the settings of trial {trial.label} may be of another run than "
                f"its scores: {trial_dir} has a model of other settings, or the scores are "
                "those of an evaluation with other settings."
            )
        found = health_of(trial_dir, logs[title], own)
        health += [f"{title}: {line}" for line in found]
        if not is_judged(logs[title], facts_of_run(trial_dir, logs[title], own)):
            unjudged.append(title)
        if trial.reason:
            health.append(f"{title}: {trial.status}: {trial.reason}")
    return ReportRun(
        name=f"{results.model_name} on {results.tasks}",
        logs=logs,
        settings=settings,
        environment=environment,
        health=health,
        unjudged=unjudged,
        tables=[_scores(key, results.trials, ensemble) for key in _splits(results.trials)],
        errors=_errors(folder, results.tasks, results.trials),
        confusions=_confusions(folder, results.tasks, results.trials),
        notes=notes,
    )


def _may_be_of_model(
    trial: TrialResult, provenance: Mapping[str, Any], settings: Mapping[str, Any]
) -> bool:
    """Whether scores may belong to a model, as far as both record their provenance.

    Args:
        trial: the trial with the scores.
        provenance: recorded provenance of its results; empty in older versions.
        settings: contents of the model's `config.json`; empty if there is none.
    """
    if not provenance or not settings:
        return True
    pretrained = {settings.get(PRETRAINED), provenance.get("pretrained_checkpoint")} - {None}
    return (
        settings.get("trial_seed", trial.seed) == trial.seed
        and len(pretrained) < 2
        and scored_settings_digest(settings, None) == provenance.get("settings")
    )


def _model_dir(path: str | os.PathLike, results: RunResults) -> str:
    """Returns the folder of the trials' models, without the number of the trial."""
    folder = os.path.dirname(os.fspath(path))
    relative = results.model_dir
    if relative is None:  # of an older version: the default
        relative = os.path.join("..", "finetuning_models", f"{results.tasks}_model")
    return os.path.normpath(os.path.join(folder, relative))


def _stem(tasks: str, key: str, trial: TrialResult) -> str:
    return file_stem(tasks, key, file_label(trial.trial, trial.fold))


def _splits(trials: Sequence[TrialResult]) -> list[str]:
    return list(dict.fromkeys(key for trial in trials for key in trial.metrics))


def _scores(key: str, trials: Sequence[TrialResult], ensemble: EnsembleScores | None) -> Table:
    metrics = list(dict.fromkeys(n for trial in trials for n in trial.metrics.get(key, {})))
    rows = [
        [
            f"trial {trial.label}",
            str(trial.seed),
            trial.status,
            f"{trial.steps:,}",
            *(format_metric(name, trial.metrics.get(key, {}).get(name)) for name in metrics),
        ]
        for trial in trials
    ]
    scored = [trial.metrics[key] for trial in trials if key in trial.metrics]
    if len(scored) > 1:
        means = [_mean([values.get(name) for values in scored]) for name in metrics]
        texts = [format_metric(n, mean) for n, mean in zip(metrics, means, strict=True)]
        rows.append(["mean", "", "", "", *texts])
    if ensemble is not None and key in ensemble.metrics:
        values = ensemble.metrics[key]
        texts = [format_metric(n, values[n]) if n in values else "" for n in metrics]
        numbers = ", ".join(map(str, ensemble.trials))
        rows.append([f"ensemble of trials {numbers}", "", "", "", *texts])
    names = [name.replace("_", " ") for name in metrics]
    return Table(key, ["", "seed", "status", "steps", *names], rows)


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None and value == value]
    return sum(known) / len(known) if known else None


def _confusions(
    folder: pathlib.Path, tasks: str, trials: Sequence[TrialResult]
) -> list[Confusion]:
    """Returns the matrix of each task and split, added up over the trials."""
    found = []
    for key in _splits(trials):
        # A trial without scores may have files of an earlier run.
        scored = [trial for trial in trials if key in trial.metrics]
        stems = [_stem(tasks, key, trial) for trial in scored]
        paths = [folder / f"{stem}{CONFUSION_SUFFIX}" for stem in stems]
        matrices = [read_confusion(each) for each in paths if each.exists()]
        if not matrices or any(m["labels"] != matrices[0]["labels"] for m in matrices):
            continue
        added = [
            [sum(cells) for cells in zip(*rows, strict=True)]
            for rows in zip(*(matrix["counts"] for matrix in matrices), strict=True)
        ]
        unit = "folds" if any(trial.fold for trial in trials) else "trials"
        title = f"{key}, {len(matrices)} {unit}" if len(matrices) > 1 else key
        found.append(Confusion(title, matrices[0]["labels"], added))
    return found


def _errors(folder: pathlib.Path, tasks: str, trials: Sequence[TrialResult]) -> list[Table]:
    """Returns the worst errors of each task and split among all trials."""
    tables = []
    for key in _splits(trials):
        total, rows = 0, []
        for trial in (each for each in trials if key in each.metrics):
            path = folder / f"{_stem(tasks, key, trial)}{ERRORS_SUFFIX}"
            if path.exists():
                count, errors = read_errors(path)
                total += count
                rows += [(trial.label, error) for error in errors]
        rows.sort(key=lambda row: -row[1].loss)
        worst = [
            [error.text, error.gold, error.predicted, f"{error.loss:.3f}", f"trial {label}"]
            for label, error in rows[:MAX_ERRORS]
        ]
        if worst:
            title = f"{key}: worst {len(worst)} of {total:,} errors"
            tables.append(Table(title, ["text", "gold", "predicted", "loss", ""], worst))
    return tables


def results_files(folder: str | os.PathLike) -> list[str]:
    """Returns the results of fine-tuning in a folder.

    Raises:
        UserError: a file is no JSON.
    """
    paths = sorted(pathlib.Path(folder).glob(f"*{JSON_SUFFIX}"))
    return [str(path) for path in paths if "trials" in read_json(str(path))]
