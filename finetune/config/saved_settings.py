"""Settings of tasks in model folders of other formats: those of the task and of its run.

The settings of the run are the hyperparameters that predictions depend on, such as the sequence
length.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

from electra_tf.text.framing import MIN_INPUT_LENGTH
from electra_tf.util.console import warn_once
from electra_tf.util.errors import UserError
from finetune.config.classification_fields import ClassificationFields
from finetune.config.finetuning_fields import FinetuningFields
from finetune.config.task_kinds import TaskKind

# Key of `config.json`: number of training steps of the whole run.
NUM_TRAIN_STEPS = "num_train_steps"
_LENGTH = "max_seq_length"
# Hyperparameters that may be 0 or negative.
_ANY_NUMBER = ("window_stride", "qa_na_threshold")


def serving_settings(kind: TaskKind, hyperparameters: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the hyperparameters of a run that the predictions of a task depend on."""
    return {name: hyperparameters[name] for name in kind.serving if name in hyperparameters}


def warn_of_unfinished(saved: Mapping[str, Any], step: int, path: str) -> None:
    """Warns of a fine-tuned model whose training was interrupted.

    Args:
        saved: its `config.json`; older versions do not record the number of steps.
        step: step of its checkpoint.
        path: the checkpoint.
    """
    total = saved.get(NUM_TRAIN_STEPS)
    if total is not None and step < total:
        warn_once(
            f"{path} is from step {step:,} of {total:,}: this fine-tuning has not finished. "
            "Run the same run_finetuning.py command again to finish it"
        )


def split_settings(
    kind: TaskKind,
    task_name: str,
    settings: Mapping[str, Any],
    assumed: Mapping[str, Any],
    positions: int,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Divides settings into those of the task and those of its run.

    Args:
        kind: kind of the task.
        task_name: its name, for messages.
        settings: settings as read.
        assumed: settings of the task that are used unless `settings` has them.
        positions: number of position embeddings.

    Raises:
        UserError: a setting is not one of this kind of task, or has another type or an
            impossible value.
    """
    fields = {field.name: field for field in dataclasses.fields(FinetuningFields)}
    expected = {**assumed, **{name: fields[name].default for name in kind.serving}}
    for name, value in settings.items():
        known = type(expected.get(name))
        is_number = known is float and type(value) is int
        if name not in expected or not (type(value) is known or is_number):
            example = ", ".join(f"{key}={value!r}" for key, value in expected.items())
            raise UserError(
                f"config.json: the settings of task {task_name!r} must be like {example}; "
                f"it has {name}={value!r:.80}"
            )
    run_settings = {name: settings[name] for name in kind.serving if name in settings}
    try:
        _check_run(run_settings, positions)
    except UserError as error:
        raise UserError(f"config.json: the settings of task {task_name!r}: {error}") from error
    task_settings = {
        name: value for name, value in settings.items() if name not in run_settings
    }
    return task_settings, run_settings


def _check_run(settings: Mapping[str, Any], positions: int) -> None:
    length = settings.get(_LENGTH, positions)
    if not MIN_INPUT_LENGTH <= length <= positions:
        raise UserError(
            f"{_LENGTH} must be from {MIN_INPUT_LENGTH} to {positions}, not {length}"
        )
    for name, value in settings.items():
        is_count = type(value) is int and name not in _ANY_NUMBER
        if is_count and value < 1:
            raise UserError(f"{name} must be positive, not {value}")
    windows = {field.name for field in dataclasses.fields(ClassificationFields)}
    given = {name: value for name, value in settings.items() if name in windows}
    ClassificationFields(**given).check_windows(length)
