"""Fine-tuned models rebuilt from their `config.json`, without the data of their tasks."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import keras
import numpy as np

from electra_tf.config.encoder import EncoderConfig
from electra_tf.config.saved_config import SavedConfig, is_finetuned
from electra_tf.interop.model_checkpoint import (
    LABELS,
    TASK_SCOPE,
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
from finetune.config.saved_settings import (
    serving_settings,
    split_settings,
    warn_of_unfinished,
)
from finetune.config.task_kinds import kind_of_task, kinds_by_name
from finetune.model import FinetuningModel, TaskHead
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
        """Returns a new head, named `name`, with variables of the given shapes.

        Raises:
            UserError: the variable that determines the number of outputs is missing.
        """
        try:
            return task_class(self.kind).saved_head(
                self.name, encoder_config.hidden_size, self._shapes, dtype
            )
        except KeyError as error:
            raise UserError(
                f"{TASK_SCOPE}{self.name} has {', '.join(sorted(self._shapes))}, but heads of "
                f"the kind {self.kind} have {error.args[0]}"
            ) from error


def saved_tasks(description: SavedConfig) -> list[SavedTask]:
    """Returns the tasks of a fine-tuned model, in the order of their ids."""
    values = description.hyperparameters
    shapes: dict[str, dict[str, Sequence[int]]] = {name: {} for name in values["task_names"]}
    for path, shape in description.variables.items():
        if path.startswith(TASK_SCOPE):
            name, _, variable = path.removeprefix(TASK_SCOPE).partition("/")
            shapes[name][variable] = shape
    return [SavedTask(name, _saved_kind(name, values), shapes[name]) for name in shapes]


def _saved_kind(name: str, hyperparameters: Mapping[str, Any]) -> str:
    """Returns the name of the kind of a task of a fine-tuned model."""
    described = (hyperparameters.get(TASKS) or {}).get(name, {})
    own_kind = hyperparameters.get("own_task_kind")
    return described.get("kind") or own_kind or kind_of_task(name)


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
        return is_finetuned(hyperparameters)

    def read(self, path: str, saved: SavedConfig) -> ModelCheckpoint:
        """Returns a checkpoint; warns if the run that trained it has not finished."""
        checkpoint = super().read(path, saved)
        warn_of_unfinished(saved.hyperparameters, checkpoint.step, checkpoint.path)
        return checkpoint

    def describe_task(self, name: str, hyperparameters: Mapping[str, Any]) -> TaskDescription:
        """Returns a task with its own settings and those of its run."""
        task = saved_task(name, hyperparameters)
        saved = _saved_kind(name, hyperparameters)
        kinds = kinds_by_name()
        if not isinstance(saved, str) or saved not in kinds:
            raise UserError(
                f"The kind of the task {name!r} of the model is {saved!r:.40}, none of "
                f"{', '.join(kinds)}"
            )
        settings = {**task.settings, **serving_settings(kinds[saved], hyperparameters)}
        return dataclasses.replace(task, settings=settings)

    def hyperparameters(self, checkpoint: ModelCheckpoint) -> dict[str, Any] | None:
        """Returns the hyperparameters derived from the heads."""
        tasks = checkpoint.description.tasks
        if not tasks and (checkpoint.has_discriminator or checkpoint.has_masked_lm):
            return None
        positions = checkpoint.description.encoder.max_position_embeddings
        described, settings = {}, {}
        for task in tasks:
            saved_class, arrays = task_class(task.kind), _head_arrays(checkpoint, task.name)
            assumed = saved_class.describe_arrays(arrays, task.labels)
            known, run_settings = split_settings(
                saved_class.kind, task.name, task.settings, task_settings(assumed), positions
            )
            described[task.name] = {**assumed, **known}
            # All heads of a run share these, so the first one is used.
            settings = {**run_settings, **saved_class.head_hyperparameters(arrays), **settings}
        return {
            **checkpoint.description.model_settings(),
            **checkpoint.description.training_settings(),
            "task_names": [task.name for task in tasks],
            TASKS: described,
            **_serving_length(checkpoint),
            LABELS: {task.name: list(task.labels) for task in tasks if task.labels},
            **settings,
        }

    def build(self, saved: SavedConfig, vocabulary: bytes | None = None) -> RebuiltModel:
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
                dataclasses.replace(self.describe_task(task.name, values), kind=task.kind)
                for task in tasks
            ),
            hyperparameters=values,
        )
        return RebuiltModel(model, finetuned_variables(model), description)


def _serving_length(checkpoint: ModelCheckpoint) -> dict[str, int]:
    """Returns the default sequence length of the tasks, at most the trained positions.

    For an encoder without tasks, it is the number of trained positions, if known.
    """
    description = checkpoint.description
    kinds = {task.name: task.kind for task in description.tasks}
    defaults = task_defaults(tuple(kinds), kinds)
    length = defaults.get("max_seq_length", FinetuningConfig.max_seq_length)
    trained = description.trained_positions
    if trained is not None:
        length = min(length, trained) if kinds else trained
    return {"max_seq_length": min(length, description.encoder.max_position_embeddings)}


def _head_arrays(checkpoint: ModelCheckpoint, task_name: str) -> dict[str, np.ndarray]:
    """Returns the weights of a head by names such as "dense/kernel"."""
    scope = f"{TASK_SCOPE}{task_name}/"
    return {name.removeprefix(scope): v for name, v in checkpoint.part(scope).items()}


FINETUNING = FinetuningFamily()
