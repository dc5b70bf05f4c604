"""Tasks of fine-tuned checkpoints of the authors' code, which record names of tasks only."""

from collections.abc import Collection
from typing import Any

from electra_tf.interop.model_checkpoint import TaskDescription
from finetune.config.task_kinds import CLASSIFICATION, QA, built_in_kinds
from finetune.tasks.qa.task import SQUAD_V2
from finetune.tasks.text.glue import GLUE_TASKS
from finetune.tasks.text.submissions import STS_RANGE

# The only layer of heads but those of question answering.
_LAYER = "dense"


def describe_task(name: str, variables: Collection[str]) -> tuple[TaskDescription, list[str]]:
    """Returns what is known of a task, and messages on what is assumed.

    Args:
        name: its name; of a task that is not the authors', only the head tells the kind.
        variables: names of the variables of its head, such as "dense/kernel".
    """
    kind = built_in_kinds().get(name)
    if kind is not None:
        return TaskDescription(name, kind.name, *_labels_and_settings(name)), []
    layers = {variable.partition("/")[0] for variable in variables}
    kind = CLASSIFICATION if layers == {_LAYER} else QA
    return TaskDescription(name, kind.name), [
        f"its kind is not recorded: {kind.name} is assumed"
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
