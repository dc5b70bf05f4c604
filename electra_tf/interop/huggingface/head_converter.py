"""Base class and helpers of the converters between our fine-tuned heads and Hugging Face's."""

import abc
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from electra_tf.interop.model_checkpoint import TASK_SCOPE, TaskDescription
from electra_tf.util.errors import UserError

ENCODER_CLASS = "ElectraModel"
# Our names of the variables of a head with one layer.
KERNEL, BIAS = "dense/kernel", "dense/bias"


class HuggingFaceHead(NamedTuple):
    """Class of a head, its tensors, entries of `config.json`, and notes.

    `lost` names settings of the task that the written head does not have.
    """

    architecture: str
    tensors: dict[str, np.ndarray]
    config: dict[str, Any]
    notes: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()


class ConvertedHead(NamedTuple):
    """One of our heads: task (None without a counterpart), arrays and notes."""

    task: TaskDescription | None
    arrays: dict[str, np.ndarray]
    notes: tuple[str, ...] = ()


class HeadConverter(abc.ABC):
    """Converts the heads of one kind of task.

    Attributes:
        variables: names of all variables that our heads can have.
    """

    variables: ClassVar[frozenset[str]] = frozenset({KERNEL, BIAS})

    @abc.abstractmethod
    def to_huggingface(
        self, task: TaskDescription, arrays: Mapping[str, np.ndarray], hidden_size: int
    ) -> HuggingFaceHead:
        """See `to_huggingface_head`."""

    @abc.abstractmethod
    def from_huggingface(
        self, kind: str, tensors: Mapping[str, np.ndarray], config: Mapping[str, Any]
    ) -> ConvertedHead | None:
        """Returns our head, or None for tensors of another kind of head.

        Args:
            kind: key of this converter in `HEADS`.
            tensors, config: see `from_huggingface_head`.
        """


def labels_of(config: Mapping[str, Any]) -> tuple[str, ...]:
    """Returns the labels in `config.json` in the order of their ids; empty without labels.

    Raises:
        UserError: the ids are not the numbers from 0.
    """
    id2label = config.get("id2label") or {}
    try:
        labels = {int(key): str(label) for key, label in id2label.items()}
        return tuple(labels[i] for i in range(len(id2label)))
    except (AttributeError, TypeError, ValueError, KeyError) as error:
        raise UserError(
            f"config.json: id2label must have a label for each id from 0, not {id2label!r:.80}"
        ) from error


def labels_of_outputs(config: Mapping[str, Any], units: int) -> tuple[str, ...]:
    """Returns a label for each output; the default ones of transformers if there are none.

    transformers does not save its default labels of two outputs.

    Raises:
        UserError: the number of labels differs from that of outputs.
    """
    labels = labels_of(config) or default_labels(units)
    if len(labels) != units:
        raise UserError(
            f"config.json: id2label has {len(labels)} labels, but the head has {units} outputs"
        )
    return labels


def default_labels(units: int) -> tuple[str, ...]:
    """Returns the labels that transformers gives to outputs without names."""
    return tuple(f"LABEL_{i}" for i in range(units))


def label_config(task: TaskDescription, units: int) -> dict[str, Any]:
    """Returns `id2label` and `label2id` of `config.json` for a head with `units` outputs."""
    labels: Sequence[str] = task.labels or default_labels(units)
    return {
        "id2label": {str(i): label for i, label in enumerate(labels)},
        "label2id": {label: i for i, label in enumerate(labels)},
    }


def scoped(task: TaskDescription, arrays: Mapping[str, np.ndarray]) -> ConvertedHead:
    """Returns a head whose arrays have the names of the task's variables."""
    scope = f"{TASK_SCOPE}{task.name}/"
    return ConvertedHead(task, {scope + name: value for name, value in arrays.items()})
