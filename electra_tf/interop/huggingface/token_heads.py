"""Heads on every token, tagging and answer spans, from and to Hugging Face's ELECTRA."""

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
from electra_tf.util.errors import UserError

TOKEN_CLASS = "ElectraForTokenClassification"
ANSWER_CLASS = "ElectraForQuestionAnswering"


class TokenHeadConverter(HeadConverter):
    """One layer on every token: `ElectraForTokenClassification`.

    The weights are the same, but tagging here, as in the authors' code, gives tokens segment 1.
    """

    def to_huggingface(
        self, task: TaskDescription, arrays: Mapping[str, np.ndarray], hidden_size: int
    ) -> HuggingFaceHead:
        """Returns the same layer."""
        tensors = {
            "classifier.weight": transposed(arrays[KERNEL]),
            "classifier.bias": arrays[BIAS],
        }
        config = {"finetuning_task": task.name, **label_config(task, arrays[BIAS].shape[0])}
        note = (
            f"{TASK_SCOPE}{task.name}: tokens have segment 1, as in training here, but 0 from "
            "Hugging Face's tokenizer: pass token_type_ids of 1"
        )
        return HuggingFaceHead(TOKEN_CLASS, tensors, config, (note,))

    def from_huggingface(
        self, kind: str, tensors: Mapping[str, np.ndarray], config: Mapping[str, Any]
    ) -> ConvertedHead | None:
        """Returns the same layer."""
        if set(tensors) != {"classifier.weight", "classifier.bias"}:
            return None
        labels = labels_of_outputs(config, tensors["classifier.bias"].shape[0])
        task = TaskDescription(config.get("finetuning_task") or kind, kind, labels)
        kernel = transposed(tensors["classifier.weight"])
        note = (
            f"{TASK_SCOPE}{task.name}: tagging here gives tokens segment 1; with a model "
            "trained on segment 0, Hugging Face's default, predictions differ"
        )
        head = scoped(task, {KERNEL: kernel, BIAS: tensors["classifier.bias"]})
        return head._replace(notes=(note,))


class AnswerHeadConverter(HeadConverter):
    """Start and end of an answer: `ElectraForQuestionAnswering`."""

    variables = frozenset(
        f"{layer}/{name}"
        for layer in ("dense", "dense_1", "dense_2", "dense_3", "qa_hidden")
        for name in ("kernel", "bias")
    )

    def to_huggingface(
        self, task: TaskDescription, arrays: Mapping[str, np.ndarray], hidden_size: int
    ) -> HuggingFaceHead:
        """Returns the layers of start and end, or the bare encoder for joint prediction."""
        scope, config = f"{TASK_SCOPE}{task.name}", {"finetuning_task": task.name}
        unused = sorted({name.split("/")[0] for name in arrays} - {"dense", "dense_1"})
        if "qa_hidden" in unused:
            note = (
                f"{scope}: the end of an answer is predicted given its start, which "
                f"{ANSWER_CLASS} does not support. Only the encoder is written; train with "
                "--joint_prediction=false to convert the head"
            )
            return HuggingFaceHead(ENCODER_CLASS, {}, config, (note,))
        notes, lost = (), ()
        if unused:
            # The scores of [CLS] decide instead, on another scale.
            lost = ("qa_na_threshold",)
            notes = (
                f"{scope}: {', '.join(unused)} (whether there is an answer), and their "
                "threshold: the scores of [CLS] decide instead, so choose --qa_na_threshold "
                "again",
            )
        tensors = {
            "qa_outputs.weight": np.concatenate(
                [arrays["dense/kernel"].T, arrays["dense_1/kernel"].T]
            ),
            "qa_outputs.bias": np.concatenate([arrays["dense/bias"], arrays["dense_1/bias"]]),
        }
        return HuggingFaceHead(ANSWER_CLASS, tensors, config, notes, lost)

    def from_huggingface(
        self, kind: str, tensors: Mapping[str, np.ndarray], config: Mapping[str, Any]
    ) -> ConvertedHead | None:
        """Returns one layer each for start and end."""
        if set(tensors) != {"qa_outputs.weight", "qa_outputs.bias"}:
            return None
        task = TaskDescription(config.get("finetuning_task") or kind, kind)
        weight, bias = tensors["qa_outputs.weight"], tensors["qa_outputs.bias"]
        if len(weight) != 2 or bias.shape != (2,):  # start and end
            raise UserError(
                f"qa_outputs must have two outputs, but its weights are {weight.shape} and its "
                f"biases {bias.shape}"
            )
        arrays = {}
        for row, layer in enumerate(("dense", "dense_1")):
            arrays[f"{layer}/kernel"] = transposed(weight[row : row + 1])
            arrays[f"{layer}/bias"] = bias[row : row + 1]
        return scoped(task, arrays)
