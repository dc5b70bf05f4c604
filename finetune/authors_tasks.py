"""Describes the tasks of the authors' fine-tuned checkpoints, which record only task names."""

from collections.abc import Mapping, Sequence
from typing import Any

from electra_tf.interop.model_checkpoint import TaskDescription
from finetune.config.task_kinds import CLASSIFICATION, QA, REGRESSION, built_in_kinds
from finetune.tasks.qa.task import SQUAD_V2
from finetune.tasks.text.glue import GLUE_TASKS
from finetune.tasks.text.submissions import STS_RANGE

# The only layer of every head except those of question answering.
_LAYER = "dense"
_BIAS = f"{_LAYER}/bias"


def describe_task(
    name: str, shapes: Mapping[str, Sequence[int]]
) -> tuple[TaskDescription, list[str]]:
    """Returns the description of a task, and messages about what it assumes.

    Args:
        name: name of the task. If it is not one of the authors' tasks, the head determines its
            kind: a single output is regression, as classification has at least two labels.
        shapes: shapes of the head's variables, by names such as "dense/kernel".
    """
    kind = built_in_kinds().get(name)
    has_one_output = list(shapes.get(_BIAS, ())) == [1]
    if kind is not None and not (kind is CLASSIFICATION and has_one_output):
        return TaskDescription(name, kind.name, *_labels_and_settings(name)), []
    layers = {variable.partition("/")[0] for variable in shapes}
    if layers != {_LAYER}:
        kind, more = QA, ""
    elif has_one_output:
        kind, more = REGRESSION, " with labels in [0, 1], since it has a single output"
    else:
        kind, more = CLASSIFICATION, ""
    return TaskDescription(name, kind.name), [
        f"its kind is not recorded: {kind.name} is assumed{more}"
    ]


def _labels_and_settings(name: str) -> tuple[tuple[str, ...], dict[str, Any]]:
    if name in GLUE_TASKS:
        task = GLUE_TASKS[name]
        settings: dict[str, Any] = {"has_pairs": task.has_pairs}
        if not task.labels:
            settings |= dict(zip(("min_label", "max_label"), STS_RANGE, strict=True))
        return task.labels, settings
    if built_in_kinds()[name] is QA:
        return (), {"v2": name == SQUAD_V2}
    return (), {}
