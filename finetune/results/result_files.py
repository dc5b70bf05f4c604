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
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from electra_tf.util.console import warn_once
from electra_tf.util.errors import UserError
from electra_tf.util.files import read_object, write_atomically
from electra_tf.util.seals import sealed, without_seal
from finetune.results.provenance import Provenance
from finetune.results.result_text import (
    authors_metrics,
    authors_names,
    format_markdown,
    format_text,
)
from finetune.results.summary import SplitSummary, TrialResult, summarize

JSON_SUFFIX = "_results.json"
# Key in the JSON: folder of the trials' models, relative to that of the results.
MODEL_DIR = "model_dir"
# Types of a trial's entries in the JSON, which may be edited by hand.
_TYPES: Mapping[str, type | tuple[type, ...]] = {
    "trial": int,
    "seed": int,
    "fold": (int, type(None)),
    "steps": int,
    "seconds": (int, float),
    "main": dict,
    "examples": dict,
}


class ResultFiles(NamedTuple):
    """Paths of the files written by `write_results`."""

    txt: str
    json: str
    pkl: str
    md: str


class RunResults(NamedTuple):
    """Contents of a `*_results.json` file.

    `task_files` is the SHA-256 of the files of the tasks. `model_dir` is the folder of the
    trials' models, without the number of the trial, relative to the folder of the results. Both
    are None in results of older versions.
    """

    model_name: str
    tasks: str
    trials: list[TrialResult]
    task_files: str | None = None
    model_dir: str | None = None


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
        provenance: provenance of the scores, for the text, the tables and the JSON.
        model_dir: folder of the trials' models, without the number of the trial, for the JSON.
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
        trials = [_trial_from_json(trial) for trial in content["trials"]]
        task_files = (content.get("provenance") or {}).get("task_files")
        relative = content.get(MODEL_DIR)
        model_dir = relative if isinstance(relative, str) else None
        return RunResults(
            content["model_name"], content["tasks"], trials, task_files, model_dir
        )
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}") from error
    except UserError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise UserError(
            f"{path} is not a {JSON_SUFFIX} file of run_finetuning.py: {error!r}"
        ) from error


def json_path(results_dir: str, tasks_label: str) -> str:
    """Returns the path of the JSON that `write_results` writes."""
    return os.path.join(results_dir, f"{tasks_label}{JSON_SUFFIX}")


def file_label(trial: int, fold: int | None) -> str:
    """Returns the name of a trial, or of a fold of it, in file names, such as "1_fold2"."""
    return f"{trial}" + (f"_fold{fold}" if fold else "")


def file_stem(tasks: str, key: str, label: str) -> str:
    """Returns the start of the names of the files of a task, a split and a trial.

    In joint training, it has the names of all tasks, because the folder may also have the
    results of a task trained alone.

    Args:
        tasks: comma-separated names of the tasks that were trained.
        key: the task and the split, such as "cola/dev".
        label: the trial, as returned by `file_label`.
    """
    task, split = key.split("/", 1)
    return "_".join([*([tasks] if tasks != task else []), task, split, label])


def has_provenance(path: str | os.PathLike, provenance: Provenance) -> bool:
    """Returns whether a `*_results.json` records exactly this provenance.

    Raises:
        UserError: the file is damaged.
    """
    return read_object(os.fspath(path), "provenance") == provenance.to_dict()


def finished_trials(
    path: str | os.PathLike, provenance: Provenance
) -> dict[tuple[int, int | None], TrialResult]:
    """Returns the finished trials of a `*_results.json`, by trial and fold.

    Empty if there is no such file, it is damaged (with a warning), or its provenance is unknown
    or differs: in checkpoint, vocabulary, task files or settings.

    Args:
        path: the file.
        provenance: required provenance of the scores.
    """
    if not os.path.exists(path):
        return {}
    try:
        is_same = has_provenance(path, provenance)
        trials = read_results(path).trials
    except UserError as error:
        warn_once(f"{error}. Its results are not reused")
        return {}
    if not is_same:
        return {}
    return {(trial.trial, trial.fold): trial for trial in trials if trial.finished}


def _trial_from_json(trial: Mapping[str, Any]) -> TrialResult:
    for name, types in _TYPES.items():
        if name in trial and not isinstance(trial[name], types):
            raise TypeError(f"{name} is {trial[name]!r:.80}")
    metrics = {
        key: {n: math.nan if v is None else float(v) for n, v in values.items()}
        for key, values in trial["metrics"].items()
    }
    return TrialResult(**{**trial, "metrics": metrics})


def _authors_results(trials: Sequence[TrialResult]) -> list[dict[str, dict[str, float]]]:
    """Returns a list over trials of {task: {metric: value}}, as the authors pickle it.

    It has plain Python objects only; an unfinished trial is an empty dict.
    """
    names = authors_names(trials)
    return [
        {
            names[key]: {name: float(value) for name, value in metrics.items()}
            for key, metrics in authors_metrics(trial)
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
        "provenance": provenance.to_dict() if provenance else None,
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
