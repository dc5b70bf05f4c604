"""Regression: the task, its head and its servable."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from electra_tf.inference.export.servable import ServedOutputs
from electra_tf.text.cached_tokenizer import CachedTokenizer
from electra_tf.text.text_inputs import EncoderInputs
from electra_tf.util.console import warn_once
from electra_tf.util.errors import UserError
from finetune.config.finetuning import FinetuningConfig
from finetune.config.task_kinds import REGRESSION
from finetune.data.features import FeatureSpec
from finetune.model import FinetuningModel, HeadOutput
from finetune.tasks.averages import mean_of_numbers
from finetune.tasks.base import Outputs, Scores, SplitData
from finetune.tasks.sources import ExampleSource
from finetune.tasks.text.base import (
    TextHead,
    TextServable,
    TextTask,
    mean_loss,
    predicted_values,
)
from finetune.tasks.text.examples import InputExample
from finetune.tasks.text.metrics import regression_metrics

# Minimum number of float32 values in the range of labels, so that exports can tell them apart.
_MIN_FLOAT32_STEPS = 1000


class RegressionHead(TextHead):
    """Squared error against a target in [0, 1]."""

    def call(
        self,
        sequence_output: tf.Tensor,
        features: Mapping[str, tf.Tensor],
        *,
        dropout_key: tf.Tensor | None = None,
        is_training: bool = False,
    ) -> HeadOutput:
        """Returns "predictions" on the scale of the target, float32 [batch]."""
        del is_training
        predictions = tf.squeeze(self._dense_of_cls(sequence_output, dropout_key), axis=-1)
        losses = tf.square(predictions - features[f"{self.name}_targets"])
        return HeadOutput(losses, {"predictions": predictions})


class RegressionTask(TextTask):
    """Prediction of a number.

    The head learns `(label - min_label) / (max_label - min_label)`.

    Args:
        min_label, max_label: range of the labels.
    """

    kind = REGRESSION
    average = staticmethod(mean_of_numbers)
    head_class = RegressionHead

    def __init__(
        self,
        config: FinetuningConfig,
        name: str,
        tokenizer: CachedTokenizer,
        source: ExampleSource,
        *,
        min_label: float,
        max_label: float,
        main_metric: str | None = None,
    ) -> None:
        super().__init__(config, name, tokenizer, source, main_metric=main_metric)
        if not min_label < max_label:
            raise UserError(
                f"The label range of task {name!r} is empty: from {min_label} to {max_label}"
            )
        self.min_label = min_label
        self.max_label = max_label

    @classmethod
    def describe_arrays(
        cls, arrays: Mapping[str, np.ndarray], labels: Sequence[str]
    ) -> dict[str, Any]:
        """Returns a description of single texts, with labels in [0, 1] as the head learns."""
        return {"kind": cls.kind.name, "has_pairs": False, "min_label": 0.0, "max_label": 1.0}

    @property
    def description(self) -> dict[str, Any]:
        """ "kind", "has_pairs" and the range of the labels."""
        return {
            **super().description,
            "min_label": self.min_label,
            "max_label": self.max_label,
        }

    @property
    def num_outputs(self) -> int:
        """One, the number."""
        return 1

    @property
    def target_spec(self) -> FeatureSpec:
        """`<task>_targets`, float32 in [0, 1]."""
        return FeatureSpec(f"{self.name}_targets", "float32")

    def label_text(self, label: Any) -> str:
        """Returns a number, rounded to between 1/100 and 1/1000 of the label range."""
        digits = 2 - math.floor(math.log10(self.max_label - self.min_label))
        return f"{round(float(label), digits):.15g}"

    def target(self, example: InputExample) -> float:
        """Returns the label scaled to [0, 1], in float32 like cached features."""
        scaled = (float(example.label) - self.min_label) / (self.max_label - self.min_label)
        return float(np.float32(scaled))

    def score(self, data: SplitData, outputs: Sequence[Outputs]) -> Scores:
        """Returns correlations, and "mse" and "loss" of scaled labels."""
        metrics = regression_metrics(self._targets(data), predicted_values(outputs))
        return Scores(metrics={**metrics, "loss": mean_loss(outputs)}, main=self.main_metric)

    def prediction(self, output: Outputs) -> dict[str, Any]:
        """Returns "prediction", a number on the scale of the labels, unclipped."""
        scaled = float(output["predictions"])
        return {"prediction": self.min_label + scaled * (self.max_label - self.min_label)}

    def degenerate(self, data: SplitData, outputs: Sequence[Outputs]) -> str | None:
        """Returns a message if labels differ, but only one number is predicted."""
        if np.ptp(predicted_values(outputs)) > 0 or np.ptp(self._targets(data)) == 0:
            return None
        return "predicts one number only"


class RegressionServable(TextServable):
    """Returns `score` float32 [batch], on the scale of the labels, unclipped."""

    task: RegressionTask

    def __init__(
        self, model: FinetuningModel, task: RegressionTask, max_seq_length: int
    ) -> None:
        super().__init__(model, task, max_seq_length)
        low, high = task.min_label, task.max_label
        step = float(np.spacing(np.float32(max(abs(low), abs(high)))))
        if high - low < _MIN_FLOAT32_STEPS * step:
            warn_once(
                f"{task.name}: the labels are from {low:.15g} to {high:.15g}, but exports "
                f"answer in float32, which rounds such numbers to multiples of {step:.3g}: for "
                "exact answers, subtract a constant from the labels, so that they are near 0, "
                "and train again"
            )

    def predict(self, inputs: EncoderInputs) -> ServedOutputs:
        scaled = self._head_outputs(inputs)["predictions"]
        low, high = self.task.min_label, self.task.max_label
        return {"score": low + scaled * (high - low)}
