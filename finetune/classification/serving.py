"""Texts or pairs of texts to a label, several labels or a number, in the graph."""

from collections.abc import Mapping

import tensorflow as tf

from electra_tf.inference.export.servable import ServedOutputs
from electra_tf.text.text_inputs import EncoderInputs, pair_inputs, single_text_inputs
from finetune.classification.task import (
    ClassificationTask,
    MultilabelTask,
    RegressionTask,
    TextTask,
)
from finetune.serving import TaskServable


class _TextServable(TaskServable[TextTask]):
    """Takes `text`, or `text_a` and `text_b` where the task is one of pairs."""

    @property
    def text_names(self) -> tuple[str, ...]:
        return ("text_a", "text_b") if self.task.source.has_pairs else ("text",)

    def answer_texts(self, texts: Mapping[str, tf.Tensor]) -> ServedOutputs:
        tokens = [self.tokenizer.tokenize(texts[name]) for name in self.text_names]
        to_inputs = pair_inputs if len(tokens) == 2 else single_text_inputs
        return self.answer_tokens(to_inputs(self.vocabulary, *tokens, self.max_seq_length))

    def answer_tokens(self, inputs: EncoderInputs) -> ServedOutputs:
        return self.predict(inputs)


class _LabelServable(_TextServable):
    """Answers `labels` string [batch, classes] beside their scores: names for the columns."""

    task: ClassificationTask | MultilabelTask

    def _with_labels(self, outputs: ServedOutputs) -> ServedOutputs:
        scores = outputs["scores"]
        labels = tf.broadcast_to(tf.constant(self.task.labels), tf.shape(scores))
        return {"labels": labels, **outputs}


class ClassificationServable(_LabelServable):
    """Answers `label` string [batch], and `labels` and `scores` (softmax) [batch, classes]."""

    def predict(self, inputs: EncoderInputs) -> ServedOutputs:
        return {"scores": tf.nn.softmax(self._head_outputs(inputs)["logits"])}

    def answer_tokens(self, inputs: EncoderInputs) -> ServedOutputs:
        outputs = self.predict(inputs)
        best = tf.argmax(outputs["scores"], axis=-1)
        return {
            "label": tf.gather(tf.constant(self.task.labels), best),
            **self._with_labels(outputs),
        }


class MultilabelServable(_LabelServable):
    """Answers `labels` and `scores` (sigmoid) [batch, classes], and the chosen ones.

    `predicted_labels` string [batch, classes] holds the labels whose score is above 0.5,
    padded with "", and `num_predicted` int32 [batch] counts them.
    """

    def predict(self, inputs: EncoderInputs) -> ServedOutputs:
        return {"scores": tf.sigmoid(self._head_outputs(inputs)["logits"])}

    def answer_tokens(self, inputs: EncoderInputs) -> ServedOutputs:
        outputs = self._with_labels(self.predict(inputs))
        chosen = tf.ragged.boolean_mask(outputs["labels"], outputs["scores"] > 0.5)
        return {
            "predicted_labels": chosen.to_tensor("", shape=[None, len(self.task.labels)]),
            "num_predicted": tf.cast(chosen.row_lengths(), tf.int32),
            **outputs,
        }


class RegressionServable(_TextServable):
    """Answers `score` float32 [batch], on the scale of the labels, not clipped to it."""

    task: RegressionTask

    def predict(self, inputs: EncoderInputs) -> ServedOutputs:
        scaled = self._head_outputs(inputs)["predictions"]
        low, high = self.task.min_label, self.task.max_label
        return {"score": low + scaled * (high - low)}
