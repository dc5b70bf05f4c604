"""Fine-tuned models rebuilt from their `config.json`, without the data of their tasks."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import keras
import numpy as np

from electra_tf.config.encoder import EncoderConfig
from electra_tf.config.saved_config import SavedConfig
from electra_tf.interop.model_checkpoint import (
    LABELS,
    TASKS,
    ModelCheckpoint,
    ModelDescription,
    TaskDescription,
    saved_task,
    task_settings,
)
from electra_tf.interop.native_family import NativeFamily, RebuiltModel
from electra_tf.interop.native_models import saved_encoder
from electra_tf.interop.variable_names import NamedVariable, encoder_variables
from electra_tf.util.errors import UserError
from finetune.config.defaults import task_defaults
from finetune.config.finetuning import FinetuningConfig
from finetune.config.task_kinds import kind_of_task
from finetune.model import TASK_SCOPE, FinetuningModel, TaskHead
from finetune.tasks.registry import task_class


class SavedTask:
    """Builds the head of a task without its data.

    Args:
        name: name of the task.
        kind: name of one of `finetune.config.task_kinds.KINDS`.
        shapes: shapes of the head's variables, by names such as "dense/kernel".
    """

    def __init__(self, name: str, kind: str, shapes: Mapping[str, Sequence[int]]) -> None:
        self.name = name
        self.kind = kind
        self._shapes = shapes

    def build_head(self, encoder_config: EncoderConfig, dtype: keras.DTypePolicy) -> TaskHead:
        """Returns a new head, named `name`, with variables of the given shapes."""
        return task_class(self.kind).saved_head(
            self.name, encoder_config.hidden_size, self._shapes, dtype
        )


def saved_tasks(description: SavedConfig) -> list[SavedTask]:
    """Returns the tasks of a fine-tuned model, in the order of their ids."""
    values = description.hyperparameters
    shapes: dict[str, dict[str, Sequence[int]]] = {name: {} for name in values["task_names"]}
    for path, shape in description.variables.items():
        scope, _, rest = path.partition("/")
        if scope == TASK_SCOPE:
            name, _, variable = rest.partition("/")
            shapes[name][variable] = shape
    described = values.get(TASKS, {})

    def kind(name: str) -> str:
        return (
            described.get(name, {}).get("kind")
            or values.get("own_task_kind")
            or kind_of_task(name)
        )

    return [SavedTask(name, kind(name), shapes[name]) for name in shapes]


def finetuned_variables(model: FinetuningModel) -> list[NamedVariable]:
    """Returns the mapping of a model's variables to the authors' names."""
    mapping = encoder_variables(model.electra)
    for name in model.head_names:
        mapping += model.head(name).named_variables()
    return mapping


class FinetuningFamily(NativeFamily):
    """Models of `run_finetuning.py`, and encoders without heads (no tasks)."""

    def describes(self, hyperparameters: Mapping[str, Any]) -> bool:
        """Returns whether there are tasks."""
        return "task_names" in hyperparameters

    def hyperparameters(self, checkpoint: ModelCheckpoint) -> dict[str, Any] | None:
        """Returns the hyperparameters derived from the heads."""
        tasks = checkpoint.description.tasks
        if not tasks and (checkpoint.has_discriminator or checkpoint.has_masked_lm):
            return None
        described, settings = {}, {}
        for task in tasks:
            kind, arrays = task_class(task.kind), _head_arrays(checkpoint, task.name)
            described[task.name] = _with_settings(
                kind.describe_arrays(arrays, task.labels), task
            )
            # All heads of a run share these, so the first one is used.
            settings = {**kind.head_hyperparameters(arrays), **settings}
        return {
            **checkpoint.description.model_settings(),
            "task_names": [task.name for task in tasks],
            TASKS: described,
            **_serving_length(checkpoint),
            LABELS: {task.name: list(task.labels) for task in tasks if task.labels},
            **settings,
        }

    def build(self, saved: SavedConfig) -> RebuiltModel:
        """Returns the encoder and the heads, built from the shapes of their variables."""
        values = saved.hyperparameters
        encoder = saved_encoder(values)
        tasks = saved_tasks(saved)
        model = FinetuningModel(encoder, tasks)
        description = ModelDescription(
            encoder=encoder,
            do_lower_case=values["do_lower_case"],
            strip_accents=values["strip_accents"],
            tasks=tuple(
                dataclasses.replace(saved_task(task.name, values), kind=task.kind)
                for task in tasks
            ),
            hyperparameters=values,
        )
        return RebuiltModel(model, finetuned_variables(model), description)


def _serving_length(checkpoint: ModelCheckpoint) -> dict[str, int]:
    """Returns the sequence length of such a run by default, as far as positions go."""
    tasks = checkpoint.description.tasks
    if not tasks:
        return {}
    kinds = {task.name: task.kind for task in tasks}
    defaults = task_defaults(tuple(kinds), kinds)
    length = defaults.get("max_seq_length", FinetuningConfig.max_seq_length)
    positions = checkpoint.description.encoder.max_position_embeddings
    return {"max_seq_length": min(length, positions)}


def _with_settings(description: Mapping[str, Any], task: TaskDescription) -> dict[str, Any]:
    """Returns a task's description, with the settings that are known instead of assumed.

    Raises:
        UserError: a setting is not one of this kind of task, or has another type.
    """
    assumed = task_settings(description)
    for name, value in task.settings.items():
        expected = type(assumed.get(name))
        is_number = expected is float and type(value) is int
        if name not in assumed or not (type(value) is expected or is_number):
            example = ", ".join(f"{key}={known!r}" for key, known in assumed.items())
            raise UserError(
                f"config.json: the settings of task {task.name!r} must be like {example}; "
                f"it has {name}={value!r:.80}"
            )
    return {**description, **task.settings}


def _head_arrays(checkpoint: ModelCheckpoint, task_name: str) -> dict[str, np.ndarray]:
    """Returns the weights of a head by names such as "dense/kernel"."""
    scope = f"{TASK_SCOPE}/{task_name}/"
    return {name.removeprefix(scope): v for name, v in checkpoint.part(scope).items()}


FINETUNING = FinetuningFamily()
