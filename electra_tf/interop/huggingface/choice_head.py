"""Multiple choice from and to Hugging Face's ELECTRA.

There, the classifier follows a summary of the encoder's output: by default the first token, a
projection and an activation. Here, it is one layer on [CLS], which equals theirs without
projection and activation.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from electra_tf.interop.huggingface.head_converter import (
    BIAS,
    KERNEL,
    ConvertedHead,
    HeadConverter,
    HuggingFaceHead,
    label_config,
    labels_of,
    scoped,
)
from electra_tf.interop.huggingface.tensor_names import transposed
from electra_tf.interop.model_checkpoint import TASK_SCOPE, TaskDescription
from electra_tf.util.errors import UserError

CHOICE_CLASS = "ElectraForMultipleChoice"
_WEIGHT, _OUTPUT_BIAS = "classifier.weight", "classifier.bias"
_SUMMARY = "sequence_summary."
# The configuration equivalent to our head; transformers takes "" as no activation.
_ONE_LAYER = {"summary_type": "first", "summary_use_proj": False, "summary_activation": ""}
# The defaults of transformers.
_DEFAULTS = {"summary_type": "first", "summary_use_proj": True, "summary_activation": "gelu"}


class ChoiceHeadConverter(HeadConverter):
    """One score for each choice: `ElectraForMultipleChoice` without projection."""

    def to_huggingface(
        self, task: TaskDescription, arrays: Mapping[str, np.ndarray], hidden_size: int
    ) -> HuggingFaceHead:
        """Returns the same layer; how texts make up a row has no counterpart."""
        tensors = {_WEIGHT: transposed(arrays[KERNEL]), _OUTPUT_BIAS: arrays[BIAS]}
        labels = label_config(task, len(task.labels)) if task.labels else {}
        note = (
            f"{TASK_SCOPE}{task.name}: whether choices follow a question; the row of a choice "
            "is [CLS] text [SEP] choice [SEP], or [CLS] text [SEP] question choice [SEP]"
        )
        config = {"finetuning_task": task.name, **labels, **_ONE_LAYER}
        return HuggingFaceHead(CHOICE_CLASS, tensors, config, (note,))

    def from_huggingface(
        self, kind: str, tensors: Mapping[str, np.ndarray], config: Mapping[str, Any]
    ) -> ConvertedHead | None:
        """Returns the same layer, if the head has no others."""
        has_summary = any(name.startswith(_SUMMARY) for name in tensors)
        if not has_summary and config.get("architectures") != [CHOICE_CLASS]:
            return None
        settings = {name: config.get(name, value) for name, value in _DEFAULTS.items()}
        if has_summary or not _is_one_layer(settings):
            return ConvertedHead(None, {}, (_note(tensors, settings),))
        _check_shapes(tensors)
        task = TaskDescription(config.get("finetuning_task") or kind, kind, labels_of(config))
        kernel = transposed(tensors[_WEIGHT])
        return scoped(task, {KERNEL: kernel, BIAS: tensors[_OUTPUT_BIAS]})


def _is_one_layer(settings: Mapping[str, Any]) -> bool:
    given = {**settings, "summary_activation": settings["summary_activation"] or ""}
    return given == _ONE_LAYER


def _note(tensors: Mapping[str, np.ndarray], settings: Mapping[str, Any]) -> str:
    given = ", ".join(f"{name} {value!r:.40}" for name, value in settings.items())
    return (
        f"{', '.join(sorted(tensors))}: a multiple-choice head with {given}, but the head here "
        "is a single layer on [CLS], without projection or activation: only the encoder is "
        "converted, so fine-tune a new head"
    )


def _check_shapes(tensors: Mapping[str, np.ndarray]) -> None:
    """Raises UserError unless the tensors are those of one layer with one output."""
    outputs = {name: value.shape[:1] for name, value in tensors.items()}
    if outputs != {_WEIGHT: (1,), _OUTPUT_BIAS: (1,)}:
        shapes = ", ".join(f"{name} {value.shape}" for name, value in sorted(tensors.items()))
        raise UserError(
            f"config.json: the head of {CHOICE_CLASS} without projection is {_WEIGHT} (1, "
            f"hidden_size) and {_OUTPUT_BIAS} (1,), but the weights have {shapes}"
        )
