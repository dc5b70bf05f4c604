"""What the converters of fine-tuned heads from and to Hugging Face's ELECTRA share."""

import abc
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from electra_tf.interop.model_checkpoint import TASK_SCOPE, TaskDescription
from electra_tf.util.errors import UserError

ENCODER_CLASS = "ElectraModel"
# Our names of the variables of a head with one layer.
KERNEL, BIAS = "dense/kernel", "dense/bias"


class HuggingFaceHead(NamedTuple):
    """Class of a head, its tensors, entries of `config.json`, and notes."""

    architecture: str
    tensors: dict[str, np.ndarray]
    config: dict[str, Any]
    notes: tuple[str, ...] = ()


class ConvertedHead(NamedTuple):
    """One of our heads: task (None without a counterpart), arrays and notes."""

    task: TaskDescription | None
    arrays: dict[str, np.ndarray]
    notes: tuple[str, ...] = ()


class HeadConverter(abc.ABC):
    """Converts the heads of one kind of task."""

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
    id2label = config.get("id2label") or {}
    try:
        return tuple(str(id2label[key]) for key in sorted(id2label, key=int))
    except (TypeError, ValueError) as error:
        raise UserError(
            f"config.json: id2label must have a label for each id, not {id2label!r:.80}"
        ) from error


def label_config(task: TaskDescription, units: int) -> dict[str, Any]:
    labels: Sequence[str] = task.labels or [f"LABEL_{i}" for i in range(units)]
    return {
        "id2label": {str(i): label for i, label in enumerate(labels)},
        "label2id": {label: i for i, label in enumerate(labels)},
    }


def scoped(task: TaskDescription, arrays: Mapping[str, np.ndarray]) -> ConvertedHead:
    scope = f"{TASK_SCOPE}{task.name}/"
    return ConvertedHead(task, {scope + name: value for name, value in arrays.items()})
