"""Classification and regression of texts from and to Hugging Face's ELECTRA.

Their sequence head has two layers, `out_proj(gelu(dense(x)))`; ours has one. Since
gelu(x) - gelu(-x) = x, a layer with L outputs equals two layers: the first has its weights and
their negatives, in 2 L rows, and the second subtracts the results. Only two-layer heads with
such weights can be converted back.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from electra_tf.interop.huggingface.head_converter import (
    BIAS,
    ENCODER_CLASS,
    KERNEL,
    ConvertedHead,
    HeadConverter,
    HuggingFaceHead,
    label_config,
    labels_of_outputs,
    scoped,
)
from electra_tf.interop.huggingface.tensor_names import transposed
from electra_tf.interop.model_checkpoint import TASK_SCOPE, TaskDescription

SEQUENCE_CLASS = "ElectraForSequenceClassification"
# Values of `problem_type` in transformers, each with its own loss.
ONE_LABEL = "single_label_classification"
SEVERAL_LABELS = "multi_label_classification"
NUMBER = "regression"
# Setting of tasks that divide long texts; see `finetune.config.classification_fields`.
_LONG_TEXT, _WINDOWS = "long_text", "windows"
_TWO_LAYERS = {
    "classifier.dense.weight",
    "classifier.dense.bias",
    "classifier.out_proj.weight",
    "classifier.out_proj.bias",
}


class SequenceHeadConverter(HeadConverter):
    """One layer on [CLS]: `ElectraForSequenceClassification`.

    Args:
        problem_type: `ONE_LABEL`, `SEVERAL_LABELS` or `NUMBER`.
    """

    def __init__(self, problem_type: str) -> None:
        self.problem_type = problem_type

    def to_huggingface(
        self, task: TaskDescription, arrays: Mapping[str, np.ndarray], hidden_size: int
    ) -> HuggingFaceHead:
        """Returns two layers, or the bare encoder if they are too narrow for the outputs."""
        units = arrays[BIAS].shape[0]
        config = self._config(task, units)
        if 2 * units > hidden_size:
            note = (
                f"{TASK_SCOPE}{task.name}: {units} outputs exceed half of the hidden size "
                f"{hidden_size}, so {SEQUENCE_CLASS} cannot represent this head"
            )
            return HuggingFaceHead(ENCODER_CLASS, {}, config, (note,))
        config["problem_type"] = self.problem_type
        tensors = _two_layers(arrays[KERNEL], arrays[BIAS], hidden_size)
        return HuggingFaceHead(SEQUENCE_CLASS, tensors, config, _window_notes(task))

    def from_huggingface(
        self, kind: str, tensors: Mapping[str, np.ndarray], config: Mapping[str, Any]
    ) -> ConvertedHead | None:
        """Returns one layer if the two layers are equivalent to one."""
        if set(tensors) != _TWO_LAYERS or self.problem_type != _problem_type(tensors, config):
            return None
        dense, dense_bias = tensors["classifier.dense.weight"], tensors["classifier.dense.bias"]
        units, hidden = tensors["classifier.out_proj.weight"].shape
        kernel, bias = transposed(dense[:units]), dense_bias[:units]
        if 2 * units <= hidden:
            embedded = _two_layers(kernel, bias, hidden)
            if all(np.array_equal(tensors[name], value) for name, value in embedded.items()):
                name = config.get("finetuning_task") or kind
                task = TaskDescription(name, kind, self._labels(config, units))
                return scoped(task, {KERNEL: kernel, BIAS: bias})
        note = (
            "classifier.dense and classifier.out_proj: a two-layer head, but classification "
            "here has a single layer on [CLS]: only the encoder is converted, so fine-tune a "
            "new head"
        )
        return ConvertedHead(None, {}, (note,))

    def _config(self, task: TaskDescription, units: int) -> dict[str, Any]:
        return {"finetuning_task": task.name, **label_config(task, units)}

    def _labels(self, config: Mapping[str, Any], units: int) -> tuple[str, ...]:
        return labels_of_outputs(config, units)


class RegressionHeadConverter(SequenceHeadConverter):
    """One layer with one output, labeled with the name of the task."""

    def to_huggingface(
        self, task: TaskDescription, arrays: Mapping[str, np.ndarray], hidden_size: int
    ) -> HuggingFaceHead:
        """Returns two layers; their outputs are not scaled to the range of the labels."""
        head = super().to_huggingface(task, arrays, hidden_size)
        note = (
            f"{TASK_SCOPE}{task.name}: predictions are scaled to [0, 1], as in training here; "
            "transformers does not scale them to the range of the labels"
        )
        labels = {"id2label": {"0": task.name}, "label2id": {task.name: 0}}
        return head._replace(config=head.config | labels, notes=(*head.notes, note))

    def _config(self, task: TaskDescription, units: int) -> dict[str, Any]:
        return {"finetuning_task": task.name}

    def _labels(self, config: Mapping[str, Any], units: int) -> tuple[str, ...]:
        return ()


def _window_notes(task: TaskDescription) -> tuple[str, ...]:
    """Returns a note if long texts are divided, which transformers would truncate."""
    settings = task.settings
    if settings.get(_LONG_TEXT) != _WINDOWS:
        return ()
    length = settings.get("max_seq_length")
    stride = settings.get("window_stride") or (length and length // 2)
    return (
        f"{TASK_SCOPE}{task.name}: texts longer than {length or 'max_seq_length'} tokens are "
        f"divided into windows ({_LONG_TEXT}={_WINDOWS}), {stride} tokens apart, with the "
        f"{settings.get('window_pooling', 'mean')} of their logits; transformers truncates "
        "them, or takes them as a whole",
    )


def _problem_type(tensors: Mapping[str, np.ndarray], config: Mapping[str, Any]) -> str:
    """Returns `problem_type`; if it is missing, the one that the number of outputs implies."""
    given = config.get("problem_type")
    if given in (ONE_LABEL, SEVERAL_LABELS, NUMBER):
        return given
    units = tensors["classifier.out_proj.weight"].shape[0]
    return NUMBER if units == 1 else ONE_LABEL


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
