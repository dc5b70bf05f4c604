"""Classification: the task, its head and its servable."""

from collections.abc import Mapping, Sequence
from typing import Any

import keras
import numpy as np
import scipy.special
import tensorflow as tf

from electra_tf.config.encoder import EncoderConfig
from electra_tf.inference.export.servable import ServedOutputs
from electra_tf.text.cached_tokenizer import CachedTokenizer
from electra_tf.text.text_inputs import EncoderInputs
from finetune.config.class_weights import (
    NO_WEIGHTS,
    balanced_class_weights,
    named_class_weights,
)
from finetune.config.classification_fields import WINDOWS
from finetune.config.finetuning import FinetuningConfig
from finetune.config.task_kinds import CLASSIFICATION
from finetune.data.features import DataReport, FeatureSpec, Row
from finetune.model import HeadOutput
from finetune.tasks.averages import mean_of_softmax
from finetune.tasks.base import MAX_CONFUSION_LABELS, Outputs, Scores, SplitData
from finetune.tasks.sources import ExampleSource
from finetune.tasks.text.base import (
    LabelServable,
    TextHead,
    TextTask,
    checked_labels,
    mean_loss,
    predicted_values,
)
from finetune.tasks.text.class_loss import CROSS_ENTROPY, ClassLoss
from finetune.tasks.text.examples import InputExample
from finetune.tasks.text.metrics import classification_metrics, confusion
from finetune.tasks.text.windows import (
    pool_by_owner,
    pool_logits,
    window_rows,
    windowed_inputs,
)

# Suffix of the feature with the weight of a row in the training loss.
_WEIGHTS = "weights"


class ClassificationHead(TextHead):
    """Softmax cross-entropy over classes.

    Args:
        loss: training loss; evaluation reports the cross-entropy.
        has_weights: whether rows have a weight in the training loss.
    """

    def __init__(
        self,
        hidden_size: int,
        units: int,
        dtype: keras.DTypePolicy,
        name: str,
        loss: ClassLoss = CROSS_ENTROPY,
        *,
        has_weights: bool = False,
    ) -> None:
        super().__init__(hidden_size, units, dtype, name)
        self._training_loss = loss
        self._has_weights = has_weights

    def call(
        self,
        sequence_output: tf.Tensor,
        features: Mapping[str, tf.Tensor],
        *,
        dropout_key: tf.Tensor | None = None,
        is_training: bool = False,
    ) -> HeadOutput:
        """Returns "logits" [batch, classes], "predictions" int32 [batch]."""
        logits = self._dense_of_cls(sequence_output, dropout_key)
        loss = self._training_loss if is_training else CROSS_ENTROPY
        weights = None
        if is_training and self._has_weights:
            weights = features[f"{self.name}_{_WEIGHTS}"]
        losses = loss.losses(logits, features[f"{self.name}_label_ids"], weights)
        predictions = tf.argmax(logits, axis=-1, output_type=tf.int32)
        return HeadOutput(losses, {"logits": logits, "predictions": predictions})


class ClassificationTask(TextTask):
    """Classification into one of several labels.

    Args:
        labels: labels in the order of their ids, at least two.
        metrics: metrics to report, of `kind.main_metrics()`; None is accuracy. `main_metric`
            is added; by default it is the first of them.
    """

    kind = CLASSIFICATION
    average = staticmethod(mean_of_softmax)
    head_class = ClassificationHead

    def __init__(
        self,
        config: FinetuningConfig,
        name: str,
        tokenizer: CachedTokenizer,
        source: ExampleSource,
        *,
        labels: Sequence[str],
        metrics: Sequence[str] | None = None,
        main_metric: str | None = None,
    ) -> None:
        main_metric = main_metric or (metrics[0] if metrics else None)
        super().__init__(config, name, tokenizer, source, main_metric=main_metric)
        self.labels = checked_labels(name, labels, 2)
        reported = metrics if metrics is not None else (self.kind.main_metrics()[0],)
        self.metrics = tuple(dict.fromkeys((self.main_metric, *reported)))
        self._ids = {label: i for i, label in enumerate(self.labels)}
        self._named_weights = named_class_weights(config.class_weights, self.labels, name)
        self._has_weights = config.class_weights != NO_WEIGHTS

    @property
    def description(self) -> dict[str, Any]:
        """ "kind", "has_pairs" and "labels"."""
        return {**super().description, "labels": list(self.labels)}

    @property
    def num_outputs(self) -> int:
        """One per label."""
        return len(self.labels)

    def build_head(
        self, encoder_config: EncoderConfig, dtype: keras.DTypePolicy
    ) -> ClassificationHead:
        """Returns a new head with an output per label and the training loss of the run."""
        return self.head_class(
            encoder_config.hidden_size,
            self.num_outputs,
            dtype,
            self.name,
            ClassLoss(self.config.label_smoothing, self.config.focal_gamma),
            has_weights=self._has_weights,
        )

    @property
    def feature_specs(self) -> tuple[FeatureSpec, ...]:
        """`<task>_eid`, the label and, with class weights, `<task>_weights`."""
        weights = FeatureSpec(f"{self.name}_{_WEIGHTS}", "float32")
        return (*super().feature_specs, *((weights,) if self._has_weights else ()))

    def featurize(
        self, examples: Sequence[InputExample], *, is_training: bool, report: DataReport
    ) -> list[Row]:
        """Returns the rows of all examples, one each or one per window.

        Balanced class weights are computed from these rows, so a fold has weights of its own.
        """
        rows = super().featurize(examples, is_training=is_training, report=report)
        if not self._has_weights:
            return rows
        ids = np.array([row[self.target_spec.name] for row in rows])
        weights = np.ones(len(self.labels))
        if is_training:
            weights = self._named_weights
            if weights is None:
                weights = balanced_class_weights(ids, len(self.labels))
        for row, label_id in zip(rows, ids, strict=True):
            row[f"{self.name}_{_WEIGHTS}"] = float(weights[label_id])
        return rows

    def example_rows(
        self, examples: Sequence[InputExample], report: DataReport
    ) -> list[list[Row]]:
        """Returns the rows of each example: one, or one per window of a long text."""
        if self.window_stride is None:
            return super().example_rows(examples, report)
        length = self.config.max_seq_length
        return window_rows(
            self.name, examples, self.tokenizer, length, self.window_stride, report
        )

    @property
    def window_stride(self) -> int | None:
        """Tokens between the starts of two windows; None if long texts are truncated."""
        if self.config.long_text != WINDOWS:
            return None
        return self.config.window_stride or self.config.max_seq_length // 2

    def by_example(self, data: SplitData, outputs: Sequence[Outputs]) -> Sequence[Outputs]:
        """Returns the outputs of each example, with the logits of its windows pooled."""
        if self.window_stride is None:
            return outputs
        logits: dict[int, list[np.ndarray]] = {example.eid: [] for example in data.examples}
        for row, output in zip(data.rows, outputs, strict=True):
            logits[int(row[f"{self.name}_eid"])].append(output["logits"])
        pooled = pool_logits(list(logits.values()), self.config.window_pooling)
        losses = scipy.special.logsumexp(pooled, axis=1)
        losses -= pooled[np.arange(len(pooled)), self._targets(data)]
        return [
            {"logits": logits, "predictions": np.argmax(logits), "loss": loss}
            for logits, loss in zip(pooled, losses, strict=True)
        ]

    def pooled(self, data: SplitData, outputs: Sequence[Outputs]) -> Sequence[Outputs]:
        """Returns the output of its example for each window."""
        if self.window_stride is None:
            return outputs
        eids = (example.eid for example in data.examples)
        by_eid = dict(zip(eids, self.by_example(data, outputs), strict=True))
        return [by_eid[int(row[f"{self.name}_eid"])] for row in data.rows]

    def _targets(self, data: SplitData) -> np.ndarray:
        """Returns the gold label of each example, which may have several rows."""
        if self.window_stride is None:
            return super()._targets(data)
        return np.array([self.target(example) for example in data.examples])

    @property
    def target_spec(self) -> FeatureSpec:
        """`<task>_label_ids`, int32."""
        return FeatureSpec(f"{self.name}_label_ids")

    def target(self, example: InputExample) -> int:
        """Returns the index of the example's label in `labels`."""
        return self._ids[example.label]

    def score(self, data: SplitData, outputs: Sequence[Outputs]) -> Scores:
        """Returns `metrics`, the loss and the confusion matrix, unless it is too large."""
        outputs = self.by_example(data, outputs)
        gold, predicted = self._targets(data), predicted_values(outputs)
        count = len(self.labels)
        metrics = classification_metrics(gold, predicted, count, self.metrics)
        return Scores(
            metrics={**metrics, "loss": mean_loss(outputs)},
            main=self.main_metric,
            confusion=(
                confusion(gold, predicted, count) if count <= MAX_CONFUSION_LABELS else None
            ),
            labels=self.labels,
        )

    def prediction(self, output: Outputs) -> dict[str, Any]:
        """Returns "prediction" (the label) and "probabilities" by label."""
        probabilities = scipy.special.softmax(np.asarray(output["logits"], np.float64))
        return {
            "prediction": self.labels[int(output["predictions"])],
            "probabilities": dict(zip(self.labels, probabilities.tolist(), strict=True)),
        }

    def class_logits(
        self, data: SplitData, outputs: Sequence[Outputs]
    ) -> tuple[np.ndarray, np.ndarray]:
        """Returns logits float64 [n, classes] and gold labels int [n]."""
        outputs = self.by_example(data, outputs)
        logits = np.array([output["logits"] for output in outputs], np.float64)
        return logits, self._targets(data)

    def degenerate(self, data: SplitData, outputs: Sequence[Outputs]) -> str | None:
        """Returns a message if there are several labels, but only one is predicted."""
        predicted = np.unique(predicted_values(self.by_example(data, outputs)))
        if len(predicted) > 1 or len(np.unique(self._targets(data))) < 2:
            return None
        return f"predicts one label only ({self.labels[int(predicted[0])]})"


class ClassificationServable(LabelServable):
    """Returns `label` string [batch], and `labels` and `scores` (softmax) [batch, classes].

    A task with windows divides long texts as in training, and pools the logits. Rows of token
    ids have at most the maximum length, and each gets its own answer.
    """

    @property
    def metadata(self) -> dict:
        config, stride = self.task.config, self.task.window_stride
        windows = {"window_stride": stride, "window_pooling": config.window_pooling}
        long_text = {"long_text": config.long_text, **(windows if stride else {})}
        return {**super().metadata, **long_text}

    def answer_texts(self, texts: Mapping[str, tf.Tensor]) -> ServedOutputs:
        if self.task.window_stride is None:
            return super().answer_texts(texts)
        tokens = [self.tokenizer.tokenize(texts[name]) for name in self.text_names]
        windows = windowed_inputs(
            self.vocabulary,
            tokens[0],
            tokens[1] if len(tokens) == 2 else None,
            self.max_seq_length,
            self.task.window_stride,
        )
        logits = self._head_outputs(windows.inputs)["logits"]
        pooled = pool_by_owner(logits, windows.owners, self.task.config.window_pooling)
        return self._with_label({"scores": tf.nn.softmax(pooled)})

    def predict(self, inputs: EncoderInputs) -> ServedOutputs:
        return {"scores": tf.nn.softmax(self._head_outputs(inputs)["logits"])}

    def answer_tokens(self, inputs: EncoderInputs) -> ServedOutputs:
        return self._with_label(self.predict(inputs))

    def _with_label(self, outputs: ServedOutputs) -> ServedOutputs:
        best = tf.argmax(outputs["scores"], axis=-1)
        return {
            "label": tf.gather(tf.constant(self.task.labels), best),
            **self.with_labels(outputs),
        }
