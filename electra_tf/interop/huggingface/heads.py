"""Conversion of fine-tuned heads from and to Hugging Face's ELECTRA, by kind of task."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from electra_tf.interop.huggingface.choice_head import ChoiceHead
from electra_tf.interop.huggingface.head_converter import (
    ENCODER_CLASS,
    ConvertedHead,
    HeadConverter,
    HuggingFaceHead,
)
from electra_tf.interop.huggingface.sequence_heads import (
    NUMBER,
    ONE_LABEL,
    SEVERAL_LABELS,
    RegressionHead,
    SequenceHead,
)
from electra_tf.interop.huggingface.token_heads import AnswerHead, TokenHead
from electra_tf.interop.model_checkpoint import TASK_SCOPE, TaskDescription

# By kind of task. A head is of the first that takes its tensors: those of multiple choice can
# have the names of tagging's.
HEADS: dict[str, HeadConverter] = {
    "classification": SequenceHead(ONE_LABEL),
    "multilabel": SequenceHead(SEVERAL_LABELS),
    "regression": RegressionHead(NUMBER),
    "multiple_choice": ChoiceHead(),
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
