"""Multilabel classification: the task, its head and its servable."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from electra_tf.inference.export.servable import ServedOutputs
from electra_tf.text.cached_tokenizer import CachedTokenizer
from electra_tf.text.text_inputs import EncoderInputs
from finetune.config.finetuning import FinetuningConfig
from finetune.config.task_kinds import MULTILABEL
from finetune.data.features import FeatureSpec
from finetune.model import HeadOutput
from finetune.tasks.averages import mean_of_sigmoid
from finetune.tasks.base import Outputs, Scores, SplitData
from finetune.tasks.sources import ExampleSource
from finetune.tasks.text.base import (
    LabelServable,
    TextHead,
    TextTask,
    checked_labels,
    mean_loss,
    predicted_values,
)
from finetune.tasks.text.examples import InputExample
from finetune.tasks.text.metrics import multilabel_metrics


class MultilabelHead(TextHead):
    """One sigmoid per label; the loss is the sum of their cross-entropies."""

    def call(
        self,
        sequence_output: tf.Tensor,
        features: Mapping[str, tf.Tensor],
        *,
        dropout_key: tf.Tensor | None = None,
        is_training: bool = False,
    ) -> HeadOutput:
        """Returns "logits" and "predictions" (0 or 1) [batch, labels]."""
        del is_training
        logits = self._dense_of_cls(sequence_output, dropout_key)
        losses = tf.reduce_sum(
            tf.nn.sigmoid_cross_entropy_with_logits(features[f"{self.name}_targets"], logits),
            axis=-1,
        )
        # The sigmoid of a positive logit is above 0.5.
        predictions = tf.cast(logits > 0, tf.int32)
        return HeadOutput(losses, {"logits": logits, "predictions": predictions})


class MultilabelTask(TextTask):
    """Any number of independent labels.

    Args:
        labels: labels in the order of their ids.
    """

    kind = MULTILABEL
    average = staticmethod(mean_of_sigmoid)
    head_class = MultilabelHead

    def __init__(
        self,
        config: FinetuningConfig,
        name: str,
        tokenizer: CachedTokenizer,
        source: ExampleSource,
        *,
        labels: Sequence[str],
        main_metric: str | None = None,
    ) -> None:
        super().__init__(config, name, tokenizer, source, main_metric=main_metric)
        self.labels = checked_labels(name, labels, 1)
        self._ids = {label: i for i, label in enumerate(self.labels)}

    @property
    def description(self) -> dict[str, Any]:
        """ "kind", "has_pairs" and "labels"."""
        return {**super().description, "labels": list(self.labels)}

    @property
    def num_outputs(self) -> int:
        """One per label."""
        return len(self.labels)

    @property
    def target_spec(self) -> FeatureSpec:
        """`<task>_targets`, float32 [labels], 1 for the example's labels."""
        return FeatureSpec(f"{self.name}_targets", "float32", size=len(self.labels))

    def target(self, example: InputExample) -> np.ndarray:
        """Returns float32 [labels], 1 for the labels of the example."""
        target = np.zeros(len(self.labels), np.float32)
        target[[self._ids[label] for label in example.label]] = 1
        return target

    def score(self, data: SplitData, outputs: Sequence[Outputs]) -> Scores:
        """Returns micro and macro F1, subset accuracy and the loss."""
        metrics = multilabel_metrics(self._targets(data), predicted_values(outputs))
        return Scores(metrics={**metrics, "loss": mean_loss(outputs)}, main=self.main_metric)

    def prediction(self, output: Outputs) -> dict[str, Any]:
        """Returns "prediction" (a list of labels) and "probabilities" by label."""
        logits = np.asarray(output["logits"], np.float64)
        probabilities = np.exp(-np.logaddexp(0, -logits))
        return {
            "prediction": [
                label
                for label, chosen in zip(self.labels, output["predictions"], strict=True)
                if chosen
            ],
            "probabilities": dict(zip(self.labels, probabilities.tolist(), strict=True)),
        }

    def degenerate(self, data: SplitData, outputs: Sequence[Outputs]) -> str | None:
        """Returns a message if there are several label sets, but only one is predicted."""
        predicted, gold = predicted_values(outputs), self._targets(data)
        if len(np.unique(predicted, axis=0)) > 1 or len(np.unique(gold, axis=0)) < 2:
            return None
        chosen = [label for label, one in zip(self.labels, predicted[0], strict=True) if one]
        return f"predicts one set of labels only ({', '.join(chosen) or 'none'})"


class MultilabelServable(LabelServable):
    """Returns `labels` and `scores` (sigmoid) [batch, classes], and the predicted labels.

    `predicted_labels` string [batch, classes] are the labels with a score above 0.5, padded
    with ""; `num_predicted` int32 [batch] is their number.
    """

    def predict(self, inputs: EncoderInputs) -> ServedOutputs:
        return {"scores": tf.sigmoid(self._head_outputs(inputs)["logits"])}

    def answer_tokens(self, inputs: EncoderInputs) -> ServedOutputs:
        outputs = self.with_labels(self.predict(inputs))
        chosen = tf.ragged.boolean_mask(outputs["labels"], outputs["scores"] > 0.5)
        return {
            "predicted_labels": chosen.to_tensor("", shape=[None, len(self.task.labels)]),
            "num_predicted": tf.cast(chosen.row_lengths(), tf.int32),
            **outputs,
        }
