"""Hyperparameters that describe a user's own tasks.

No TensorFlow is imported here.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

from electra_tf.config.hyperparameters import hyperparameter
from finetune.config.task_kinds import FILE_FORMATS, KINDS, LEVELS

# Prefix of the hyperparameters that describe a task.
OWN_TASK_PREFIX = "own_task_"
OWN_TASK_FILES, OWN_TASK_COLUMNS = "own_task_files", "own_task_columns"
# These determine how predictions are scored, but not how files are read.
_SCORING_ONLY = ("own_task_metric",)


@dataclasses.dataclass(frozen=True, kw_only=True)
class CustomTaskFields:
    """The description of one or several custom tasks; see `finetune.config.task_spec`."""

    task_spec: str | None = hyperparameter(
        None, "Description of custom tasks: a JSON file, or inline JSON; see docs/own_task.md."
    )
    own_task_kind: str | None = hyperparameter(
        None,
        "Custom task, without --task_spec: kind of the task.",
        tuple(kind.name for kind in KINDS),
    )
    own_task_files: str | None = hyperparameter(
        None, "Custom task: files by split, such as train=a.tsv,dev=b.tsv."
    )
    own_task_columns: str | None = hyperparameter(
        None,
        "Custom task: columns by name or index, such as text=review,label=1; "
        "choices=a+b+c if every choice has its own column.",
    )
    own_task_group_column: str | None = hyperparameter(
        None,
        "Custom task: column that groups examples, by name or index; folds and held-out "
        "examples never split a group.",
    )
    own_task_labels: str | None = hyperparameter(
        None,
        "Custom task: labels, such as a,b; for multiple choice, the names of the choices in "
        "order. The labels of the train split if unset.",
    )
    own_task_label_separator: str | None = hyperparameter(
        None, "Custom multilabel task: separator of the labels in a cell; a comma if unset."
    )
    own_task_metric: str | None = hyperparameter(
        None, "Custom task: main metric; the default of its kind if unset."
    )
    own_task_format: str | None = hyperparameter(
        None,
        "Custom task: file format; chosen by extension if unset.",
        FILE_FORMATS,
    )
    own_task_header: bool | None = hyperparameter(
        None, "Custom task: whether tsv and csv files have a header line; true if unset."
    )
    own_task_min_label: float | None = hyperparameter(
        None, "Custom regression task: smallest label; the train split's minimum if unset."
    )
    own_task_max_label: float | None = hyperparameter(
        None, "Custom regression task: largest label; the train split's maximum if unset."
    )
    own_task_dev_fraction: float | None = hyperparameter(
        None, "Custom task without a dev file: fraction of train to hold out; 0.1 if unset."
    )
    own_task_level: str | None = hyperparameter(
        None, "Custom tagging task: unit of the metrics; span if unset.", LEVELS
    )
    own_task_unanswerable: bool | None = hyperparameter(
        None,
        "Custom QA task: whether questions may be unanswerable; detected in the train split if "
        "unset.",
    )


def is_location(name: str, value: Any) -> bool:
    """Whether a hyperparameter only locates files; digests include their contents instead."""
    is_file = name == "task_spec" and not str(value).lstrip().startswith(("{", "["))
    return is_file or name == OWN_TASK_FILES


def names_dev(own_task_files: str | None) -> bool:
    """Whether `--own_task_files` lists a dev file; otherwise part of train is held out."""
    pairs = (own_task_files or "").split(",")
    return any(pair.partition("=")[0].strip() == "dev" for pair in pairs)


def reading_settings(hyperparameters: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the given hyperparameters that determine how a user's files are read and divided.

    Excludes the locations of files, and the column of ids, which are only copied into
    predictions.
    """
    return {
        name: without_ids(value) if name == OWN_TASK_COLUMNS else value
        for name, value in hyperparameters.items()
        if name.startswith((OWN_TASK_PREFIX, "task_spec"))
        and value is not None
        and not is_location(name, value)
        and name not in _SCORING_ONLY
    }


def without_ids(own_task_columns: str) -> list[str]:
    """Returns the pairs of `--own_task_columns`, sorted, without the column of ids."""
    pairs = sorted(pair.strip() for pair in own_task_columns.split(","))
    return [pair for pair in pairs if pair.partition("=")[0].strip() != "id"]
