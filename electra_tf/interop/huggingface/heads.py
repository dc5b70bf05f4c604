"""Fine-tuned heads of Hugging Face's ELECTRA, and ours.

Theirs for sequences is two layers, `out_proj(gelu(dense(x)))`, ours is one. Since
gelu(x) - gelu(-x) = x, one layer of L outputs is exactly their two when the first holds it
and its negative, in 2 L rows, and the second subtracts. The reverse exists only for such
weights: other two-layer heads have no counterpart here.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from electra_tf.interop.huggingface.tensor_names import transposed
from electra_tf.interop.model_checkpoint import TASK_SCOPE, TaskDescription

ENCODER_CLASS = "ElectraModel"
SEQUENCE_CLASS = "ElectraForSequenceClassification"
TOKEN_CLASS = "ElectraForTokenClassification"
ANSWER_CLASS = "ElectraForQuestionAnswering"
PROBLEM_TYPES = {
    "classification": "single_label_classification",
    "multilabel": "multi_label_classification",
    "regression": "regression",
}
_KERNEL, _BIAS = "dense/kernel", "dense/bias"
_TWO_LAYERS = {
    "classifier.dense.weight",
    "classifier.dense.bias",
    "classifier.out_proj.weight",
    "classifier.out_proj.bias",
}


class HuggingFaceHead(NamedTuple):
    """Class that a head belongs to, its tensors, entries of `config.json`, and notes."""

    architecture: str
    tensors: dict[str, np.ndarray]
    config: dict[str, Any]
    notes: tuple[str, ...] = ()


class ConvertedHead(NamedTuple):
    """A head of ours: the task (None without a counterpart), arrays and notes."""

    task: TaskDescription | None
    arrays: dict[str, np.ndarray]
    notes: tuple[str, ...] = ()


def to_huggingface_head(
    task: TaskDescription, arrays: Mapping[str, np.ndarray], hidden_size: int
) -> HuggingFaceHead:
    """Returns what Hugging Face computes the same with; the bare encoder where nothing does.

    Args:
        task: whose head it is.
        arrays: of the head, by names without `task_specific/<task>/`.
        hidden_size: of the encoder.
    """
    if task.kind == "qa":
        return _to_answers(task, arrays)
    units = arrays[_BIAS].shape[0]
    labels = list(task.labels) or [f"LABEL_{i}" for i in range(units)]
    config: dict[str, Any] = {"finetuning_task": task.name}
    if task.kind != "regression":
        config["id2label"] = {str(i): label for i, label in enumerate(labels)}
        config["label2id"] = {label: i for i, label in enumerate(labels)}
    if task.kind == "tagging":
        tensors = {
            "classifier.weight": transposed(arrays[_KERNEL]),
            "classifier.bias": arrays[_BIAS],
        }
        return HuggingFaceHead(TOKEN_CLASS, tensors, config)
    if 2 * units > hidden_size:
        return HuggingFaceHead(
            ENCODER_CLASS,
            {},
            config,
            (
                f"{TASK_SCOPE}{task.name}: {units} outputs are more than half of the hidden "
                f"size {hidden_size}, so {SEQUENCE_CLASS} cannot compute the same",
            ),
        )
    config["problem_type"] = PROBLEM_TYPES[task.kind]
    notes = ()
    if task.kind == "regression":
        config |= {"id2label": {"0": task.name}, "label2id": {task.name: 0}}
        notes = (
            f"{TASK_SCOPE}{task.name}: predictions are scaled to [0, 1], as in training here; "
            "the range of the labels has no place in Hugging Face's configuration",
        )
    tensors = _two_layers(arrays[_KERNEL], arrays[_BIAS], hidden_size)
    return HuggingFaceHead(SEQUENCE_CLASS, tensors, config, notes)


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


def _to_answers(task: TaskDescription, arrays: Mapping[str, np.ndarray]) -> HuggingFaceHead:
    scope, config = f"{TASK_SCOPE}{task.name}", {"finetuning_task": task.name}
    unused = sorted({name.split("/")[0] for name in arrays} - {"dense", "dense_1"})
    notes = []
    if "qa_hidden" in unused:
        notes.append(
            f"{scope}: the end of an answer is predicted given its start, which "
            f"{ANSWER_CLASS} cannot; train with --joint_prediction=false for it. Only the "
            "encoder is written"
        )
        return HuggingFaceHead(ENCODER_CLASS, {}, config, tuple(notes))
    if unused:
        notes.append(f"{scope}: {', '.join(unused)} (whether there is an answer)")
    tensors = {
        "qa_outputs.weight": np.concatenate(
            [arrays["dense/kernel"].T, arrays["dense_1/kernel"].T]
        ),
        "qa_outputs.bias": np.concatenate([arrays["dense/bias"], arrays["dense_1/bias"]]),
    }
    return HuggingFaceHead(ANSWER_CLASS, tensors, config, tuple(notes))


def from_huggingface_head(
    tensors: Mapping[str, np.ndarray], config: Mapping[str, Any]
) -> ConvertedHead:
    """Returns our head of the tensors that belong to no encoder or head of pre-training."""
    if not tensors:
        return ConvertedHead(None, {})
    id2label = config.get("id2label") or {}
    labels = tuple(str(id2label[key]) for key in sorted(id2label, key=int))
    names = set(tensors)
    if names == {"qa_outputs.weight", "qa_outputs.bias"}:
        task = TaskDescription(config.get("finetuning_task") or "qa", "qa")
        weight, bias = tensors["qa_outputs.weight"], tensors["qa_outputs.bias"]
        layers = {"dense": 0, "dense_1": 1}
        arrays = {}
        for layer, row in layers.items():
            arrays[f"{layer}/kernel"] = transposed(weight[row : row + 1])
            arrays[f"{layer}/bias"] = bias[row : row + 1]
        return _scoped(task, arrays)
    if names == {"classifier.weight", "classifier.bias"}:
        task = TaskDescription(config.get("finetuning_task") or "tagging", "tagging", labels)
        bias = tensors["classifier.bias"]
        kernel = transposed(tensors["classifier.weight"])
        return _scoped(task, {_KERNEL: kernel, _BIAS: bias})
    if names == _TWO_LAYERS:
        return _from_two_layers(tensors, config, labels)
    return ConvertedHead(None, {}, (f"no counterpart here: {', '.join(sorted(names))}",))


def _from_two_layers(
    tensors: Mapping[str, np.ndarray], config: Mapping[str, Any], labels: tuple[str, ...]
) -> ConvertedHead:
    dense, dense_bias = tensors["classifier.dense.weight"], tensors["classifier.dense.bias"]
    units, hidden = tensors["classifier.out_proj.weight"].shape
    kernel, bias = transposed(dense[:units]), dense_bias[:units]
    if 2 * units <= hidden:
        embedded = _two_layers(kernel, bias, hidden)
        if all(np.array_equal(tensors[name], value) for name, value in embedded.items()):
            kinds = {theirs: ours for ours, theirs in PROBLEM_TYPES.items()}
            kind = kinds.get(config.get("problem_type"))
            kind = kind or ("regression" if units == 1 else "classification")
            name = config.get("finetuning_task") or kind
            labels = () if kind == "regression" else labels
            return _scoped(TaskDescription(name, kind, labels), {_KERNEL: kernel, _BIAS: bias})
    return ConvertedHead(
        None,
        {},
        (
            "classifier.dense and classifier.out_proj: a two-layer head, where classification "
            "here is one layer on [CLS]; the encoder is taken over, fine-tune a new head",
        ),
    )


def _scoped(task: TaskDescription, arrays: Mapping[str, np.ndarray]) -> ConvertedHead:
    scope = f"{TASK_SCOPE}{task.name}/"
    return ConvertedHead(task, {scope + name: value for name, value in arrays.items()})
