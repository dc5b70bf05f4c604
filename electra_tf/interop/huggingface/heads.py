"""Conversion of fine-tuned heads from and to Hugging Face's ELECTRA.

Their sequence head has two layers, `out_proj(gelu(dense(x)))`; ours has one. Since
gelu(x) - gelu(-x) = x, one layer of L outputs equals their two if the first contains it and its
negative, in 2 L rows, and the second subtracts them. Only two-layer heads with such weights can
be converted back.
"""

import abc
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from electra_tf.interop.huggingface.tensor_names import transposed
from electra_tf.interop.model_checkpoint import TASK_SCOPE, TaskDescription
from electra_tf.util.errors import UserError

ENCODER_CLASS = "ElectraModel"
SEQUENCE_CLASS = "ElectraForSequenceClassification"
TOKEN_CLASS = "ElectraForTokenClassification"
ANSWER_CLASS = "ElectraForQuestionAnswering"
_KERNEL, _BIAS = "dense/kernel", "dense/bias"
_TWO_LAYERS = {
    "classifier.dense.weight",
    "classifier.dense.bias",
    "classifier.out_proj.weight",
    "classifier.out_proj.bias",
}


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


class SequenceHead(HeadConverter):
    """One layer on [CLS]: `ElectraForSequenceClassification`.

    Args:
        problem_type: Hugging Face's name of the loss.
    """

    def __init__(self, problem_type: str) -> None:
        self.problem_type = problem_type

    def to_huggingface(
        self, task: TaskDescription, arrays: Mapping[str, np.ndarray], hidden_size: int
    ) -> HuggingFaceHead:
        """Returns two layers, or the bare encoder if they are too narrow for the outputs."""
        units = arrays[_BIAS].shape[0]
        config = self._config(task, units)
        if 2 * units > hidden_size:
            note = (
                f"{TASK_SCOPE}{task.name}: {units} outputs are more than half of the hidden "
                f"size {hidden_size}, so {SEQUENCE_CLASS} cannot compute the same"
            )
            return HuggingFaceHead(ENCODER_CLASS, {}, config, (note,))
        config["problem_type"] = self.problem_type
        tensors = _two_layers(arrays[_KERNEL], arrays[_BIAS], hidden_size)
        return HuggingFaceHead(SEQUENCE_CLASS, tensors, config)

    def from_huggingface(
        self, kind: str, tensors: Mapping[str, np.ndarray], config: Mapping[str, Any]
    ) -> ConvertedHead | None:
        """Returns one layer if their two are equivalent to one."""
        if set(tensors) != _TWO_LAYERS or kind != _sequence_kind(tensors, config):
            return None
        dense, dense_bias = tensors["classifier.dense.weight"], tensors["classifier.dense.bias"]
        units, hidden = tensors["classifier.out_proj.weight"].shape
        kernel, bias = transposed(dense[:units]), dense_bias[:units]
        if 2 * units <= hidden:
            embedded = _two_layers(kernel, bias, hidden)
            if all(np.array_equal(tensors[name], value) for name, value in embedded.items()):
                name = config.get("finetuning_task") or kind
                task = TaskDescription(name, kind, self._labels(config))
                return _scoped(task, {_KERNEL: kernel, _BIAS: bias})
        note = (
            "classifier.dense and classifier.out_proj: a two-layer head, but classification "
            "here has one layer on [CLS]; the encoder is converted, fine-tune a new head"
        )
        return ConvertedHead(None, {}, (note,))

    def _config(self, task: TaskDescription, units: int) -> dict[str, Any]:
        return {"finetuning_task": task.name, **_label_config(task, units)}

    def _labels(self, config: Mapping[str, Any]) -> tuple[str, ...]:
        return _labels(config)


class RegressionHead(SequenceHead):
    """One layer with one output, whose label is the task."""

    def to_huggingface(
        self, task: TaskDescription, arrays: Mapping[str, np.ndarray], hidden_size: int
    ) -> HuggingFaceHead:
        """Returns two layers; the range of the labels has no counterpart."""
        head = super().to_huggingface(task, arrays, hidden_size)
        note = (
            f"{TASK_SCOPE}{task.name}: predictions are scaled to [0, 1], as in training here; "
            "Hugging Face's configuration cannot represent the range of the labels"
        )
        labels = {"id2label": {"0": task.name}, "label2id": {task.name: 0}}
        return head._replace(config=head.config | labels, notes=(*head.notes, note))

    def _config(self, task: TaskDescription, units: int) -> dict[str, Any]:
        return {"finetuning_task": task.name}

    def _labels(self, config: Mapping[str, Any]) -> tuple[str, ...]:
        return ()


class TokenHead(HeadConverter):
    """One layer on every token: `ElectraForTokenClassification`."""

    def to_huggingface(
        self, task: TaskDescription, arrays: Mapping[str, np.ndarray], hidden_size: int
    ) -> HuggingFaceHead:
        """Returns the same layer."""
        tensors = {
            "classifier.weight": transposed(arrays[_KERNEL]),
            "classifier.bias": arrays[_BIAS],
        }
        labels = _label_config(task, arrays[_BIAS].shape[0])
        return HuggingFaceHead(TOKEN_CLASS, tensors, {"finetuning_task": task.name, **labels})

    def from_huggingface(
        self, kind: str, tensors: Mapping[str, np.ndarray], config: Mapping[str, Any]
    ) -> ConvertedHead | None:
        """Returns the same layer."""
        if set(tensors) != {"classifier.weight", "classifier.bias"}:
            return None
        task = TaskDescription(config.get("finetuning_task") or kind, kind, _labels(config))
        kernel = transposed(tensors["classifier.weight"])
        return _scoped(task, {_KERNEL: kernel, _BIAS: tensors["classifier.bias"]})


class AnswerHead(HeadConverter):
    """Start and end of an answer: `ElectraForQuestionAnswering`."""

    def to_huggingface(
        self, task: TaskDescription, arrays: Mapping[str, np.ndarray], hidden_size: int
    ) -> HuggingFaceHead:
        """Returns the layers of start and end, or the bare encoder for joint prediction."""
        scope, config = f"{TASK_SCOPE}{task.name}", {"finetuning_task": task.name}
        unused = sorted({name.split("/")[0] for name in arrays} - {"dense", "dense_1"})
        if "qa_hidden" in unused:
            note = (
                f"{scope}: the end of an answer is predicted given its start, which "
                f"{ANSWER_CLASS} does not support; train with --joint_prediction=false for it. "
                "Only the encoder is written"
            )
            return HuggingFaceHead(ENCODER_CLASS, {}, config, (note,))
        notes = ()
        if unused:
            notes = (f"{scope}: {', '.join(unused)} (whether there is an answer)",)
        tensors = {
            "qa_outputs.weight": np.concatenate(
                [arrays["dense/kernel"].T, arrays["dense_1/kernel"].T]
            ),
            "qa_outputs.bias": np.concatenate([arrays["dense/bias"], arrays["dense_1/bias"]]),
        }
        return HuggingFaceHead(ANSWER_CLASS, tensors, config, notes)

    def from_huggingface(
        self, kind: str, tensors: Mapping[str, np.ndarray], config: Mapping[str, Any]
    ) -> ConvertedHead | None:
        """Returns one layer each for start and end."""
        if set(tensors) != {"qa_outputs.weight", "qa_outputs.bias"}:
            return None
        task = TaskDescription(config.get("finetuning_task") or kind, kind)
        weight, bias = tensors["qa_outputs.weight"], tensors["qa_outputs.bias"]
        arrays = {}
        for row, layer in enumerate(("dense", "dense_1")):
            arrays[f"{layer}/kernel"] = transposed(weight[row : row + 1])
            arrays[f"{layer}/bias"] = bias[row : row + 1]
        return _scoped(task, arrays)


# By kind of task.
HEADS: dict[str, HeadConverter] = {
    "classification": SequenceHead("single_label_classification"),
    "multilabel": SequenceHead("multi_label_classification"),
    "regression": RegressionHead("regression"),
    "tagging": TokenHead(),
    "qa": AnswerHead(),
}


def to_huggingface_head(
    task: TaskDescription, arrays: Mapping[str, np.ndarray], hidden_size: int
) -> HuggingFaceHead:
    """Returns the equivalent head of Hugging Face, or the bare encoder if there is none.

    Args:
        task: task of the head.
        arrays: arrays of the head, by names without `task_specific/<task>/`.
        hidden_size: hidden size of the encoder.
    """
    if task.kind in HEADS:
        return HEADS[task.kind].to_huggingface(task, arrays, hidden_size)
    note = (
        f"{TASK_SCOPE}{task.name}: heads of the kind {task.kind} are not converted; only the "
        "encoder is written"
    )
    return HuggingFaceHead(ENCODER_CLASS, {}, {"finetuning_task": task.name}, (note,))


def from_huggingface_head(
    tensors: Mapping[str, np.ndarray], config: Mapping[str, Any]
) -> ConvertedHead:
    """Returns our head of the tensors that are not of an encoder or pre-training head.

    Args:
        tensors: tensors by Hugging Face's names.
        config: contents of `config.json`.
    """
    if not tensors:
        return ConvertedHead(None, {})
    for kind, head in HEADS.items():
        converted = head.from_huggingface(kind, tensors, config)
        if converted is not None:
            return converted
    return ConvertedHead(None, {}, (f"no counterpart here: {', '.join(sorted(tensors))}",))


def _sequence_kind(tensors: Mapping[str, np.ndarray], config: Mapping[str, Any]) -> str:
    """Returns the kind given by `problem_type`, else by the number of outputs."""
    for kind, head in HEADS.items():
        if isinstance(head, SequenceHead) and head.problem_type == config.get("problem_type"):
            return kind
    units = tensors["classifier.out_proj.weight"].shape[0]
    return "regression" if units == 1 else "classification"


def _labels(config: Mapping[str, Any]) -> tuple[str, ...]:
    id2label = config.get("id2label") or {}
    try:
        return tuple(str(id2label[key]) for key in sorted(id2label, key=int))
    except (TypeError, ValueError) as error:
        raise UserError(
            f"config.json: id2label must have a label for each id, not {id2label!r:.80}"
        ) from error


def _label_config(task: TaskDescription, units: int) -> dict[str, Any]:
    labels: Sequence[str] = task.labels or [f"LABEL_{i}" for i in range(units)]
    return {
        "id2label": {str(i): label for i, label in enumerate(labels)},
        "label2id": {label: i for i, label in enumerate(labels)},
    }


def _two_layers(kernel: np.ndarray, bias: np.ndarray, hidden: int) -> dict[str, np.ndarray]:
    units = bias.shape[0]
    dense = np.zeros((hidden, hidden), np.float32)
    dense_bias = np.zeros(hidden, np.float32)
    output = np.zeros((units, hidden), np.float32)
    for sign, rows in ((1, slice(0, units)), (-1, slice(units, 2 * units))):
        dense[rows] = sign * kernel.T
        dense_bias[rows] = sign * bias
        output[:, rows] = sign * np.eye(units, dtype=np.float32)
    return {
        "classifier.dense.weight": dense,
        "classifier.dense.bias": dense_bias,
        "classifier.out_proj.weight": output,
        "classifier.out_proj.bias": np.zeros(units, np.float32),
    }


def _scoped(task: TaskDescription, arrays: Mapping[str, np.ndarray]) -> ConvertedHead:
    scope = f"{TASK_SCOPE}{task.name}/"
    return ConvertedHead(task, {scope + name: value for name, value in arrays.items()})
