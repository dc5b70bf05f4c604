"""Conversion of fine-tuned heads from and to Hugging Face's ELECTRA, by kind of task."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from electra_tf.interop.huggingface.choice_head import ChoiceHeadConverter
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
    RegressionHeadConverter,
    SequenceHeadConverter,
)
from electra_tf.interop.huggingface.token_heads import AnswerHeadConverter, TokenHeadConverter
from electra_tf.interop.model_checkpoint import TASK_SCOPE, TaskDescription
from electra_tf.util.errors import UserError

# Converters by kind of task, in the order in which they are tried: tensors of multiple choice
# can have the names of tagging's.
HEADS: dict[str, HeadConverter] = {
    "classification": SequenceHeadConverter(ONE_LABEL),
    "multilabel": SequenceHeadConverter(SEVERAL_LABELS),
    "regression": RegressionHeadConverter(NUMBER),
    "multiple_choice": ChoiceHeadConverter(),
    "tagging": TokenHeadConverter(),
    "qa": AnswerHeadConverter(),
}
# Entry of `config.json` for settings of a task that have no counterpart there.
SETTINGS = "electra_tf"
# What a model without this entry leaves unknown, by kind of task.
_UNKNOWN = {
    "classification": "whether texts are pairs is unknown: single texts are assumed",
    "multilabel": "whether texts are pairs is unknown: single texts are assumed",
    "regression": (
        "whether texts are pairs, and the range of the labels, are unknown: single texts and "
        "[0, 1] are assumed"
    ),
    "multiple_choice": "whether choices follow a question is unknown: no question is assumed",
    "qa": "whether questions may be unanswerable is unknown: all are assumed to have an answer",
}
_UNKNOWN_LENGTH = (
    "its sequence length in training is unknown: exports use the default of its kind unless "
    "you pass --max_seq_length"
)


def to_huggingface_head(
    task: TaskDescription, arrays: Mapping[str, np.ndarray], hidden_size: int
) -> HuggingFaceHead:
    """Returns the equivalent head of Hugging Face, or the bare encoder if there is none.

    Args:
        task: task of the head.
        arrays: arrays of the head, by names without `task_specific/<task>/`.
        hidden_size: hidden size of the encoder.

    Raises:
        UserError: the arrays are not those of such a head.
    """
    if task.kind in HEADS:
        converter = HEADS[task.kind]
        if others := sorted(arrays.keys() - converter.variables):
            raise UserError(
                f"{TASK_SCOPE}{task.name} has {', '.join(others)}, for which Hugging Face's "
                f"heads of {task.kind} tasks have no counterpart"
            )
        try:
            head = converter.to_huggingface(task, arrays, hidden_size)
        except KeyError as error:
            raise UserError(
                f"{TASK_SCOPE}{task.name} has {', '.join(sorted(arrays))}, but heads of "
                f"the kind {task.kind} have {error.args[0]}"
            ) from error
        kept = {k: v for k, v in task.settings.items() if k not in head.lost}
        settings = {SETTINGS: kept} if kept else {}
        return head._replace(config=head.config | settings)
    note = (
        f"{TASK_SCOPE}{task.name}: {task.kind} heads are not converted; only the encoder is "
        "written"
    )
    return HuggingFaceHead(ENCODER_CLASS, {}, {"finetuning_task": task.name}, (note,))


def from_huggingface_head(
    tensors: Mapping[str, np.ndarray], config: Mapping[str, Any]
) -> ConvertedHead:
    """Returns our head for the tensors of a fine-tuned head.

    Args:
        tensors: tensors by Hugging Face's names, without encoder and pre-training heads.
        config: contents of `config.json`.
    """
    if not tensors:
        return ConvertedHead(None, {})
    for kind, head in HEADS.items():
        converted = head.from_huggingface(kind, tensors, config)
        if converted is not None:
            return _with_settings(converted, config)
    return ConvertedHead(None, {}, (f"no counterpart here: {', '.join(sorted(tensors))}",))


def _with_settings(head: ConvertedHead, config: Mapping[str, Any]) -> ConvertedHead:
    """Returns the head with the settings of its task, or with a note on what is unknown."""
    if head.task is None:
        return head
    settings = config.get(SETTINGS)
    if settings is None:
        unknown = filter(None, (_UNKNOWN.get(head.task.kind), _UNKNOWN_LENGTH))
        notes = (f"{TASK_SCOPE}{head.task.name}: {each}" for each in unknown)
        return head._replace(notes=(*head.notes, *notes))
    if not isinstance(settings, dict):
        raise UserError(
            f"config.json: {SETTINGS} must be an object of settings, not {settings!r:.80}"
        )
    return head._replace(task=dataclasses.replace(head.task, settings=settings))
