"""Classification, regression and multilabel tasks over texts and pairs of texts.

Where the examples come from is an `ExampleSource`; what they are, the constructor's
arguments say. GLUE's tasks and users' own are built of the same classes.
"""

import abc
from collections.abc import Sequence
from typing import Any, ClassVar

import keras
import numpy as np

from electra_tf.config.encoder import EncoderConfig
from electra_tf.text.cached_tokenizer import CachedTokenizer
from electra_tf.util.errors import UserError
from finetune.classification import scorers
from finetune.classification.examples import InputExample
from finetune.classification.featurize import text_rows
from finetune.classification.heads import ClassificationHead, MultilabelHead, RegressionHead
from finetune.config import FinetuningConfig
from finetune.data_report import DataReport
from finetune.features import FeatureSpec, Row
from finetune.source_task import ExampleSource, SourceTask
from finetune.task import Outputs, Scores, SplitData


class TextTask(SourceTask, abc.ABC):
    """What the three kinds share.

    Args:
        config: hyperparameters.
        name: of the task.
        tokenizer: of the pre-trained model.
        source: of the examples.
        main_metric: of `METRICS`; the kind's first one if None.
    """

    kind: ClassVar[str]
    METRICS: ClassVar[tuple[str, ...]]

    def __init__(
        self,
        config: FinetuningConfig,
        name: str,
        tokenizer: CachedTokenizer,
        source: ExampleSource,
        *,
        main_metric: str | None = None,
    ) -> None:
        super().__init__(config, name, tokenizer, source)
        self.main_metric = main_metric or self.METRICS[0]
        if self.main_metric not in self.METRICS:
            raise UserError(
                f"The metric of task {name!r} must be one of {', '.join(self.METRICS)}, not "
                f"{self.main_metric!r}"
            )

    @property
    def feature_specs(self) -> tuple[FeatureSpec, ...]:
        """`<task>_eid` and the target."""
        return (FeatureSpec(f"{self.name}_eid"), self.target_spec)

    @property
    def description(self) -> dict[str, Any]:
        """ "kind" and "has_pairs"."""
        return {"kind": self.kind, "has_pairs": self.source.has_pairs}

    @property
    @abc.abstractmethod
    def target_spec(self) -> FeatureSpec:
        """The feature that holds the label."""

    @abc.abstractmethod
    def target(self, example: InputExample) -> int | float | np.ndarray:
        """Returns the value of the target feature."""

    def featurize(
        self, examples: Sequence[InputExample], *, is_training: bool, report: DataReport
    ) -> list[Row]:
        """Returns one row for each example."""
        del is_training
        rows = text_rows(
            self.name, examples, self.tokenizer, self.config.max_seq_length, report
        )
        for row, example in zip(rows, examples, strict=True):
            row[self.target_spec.name] = self.target(example)
        return rows

    def predictions(self, data: SplitData, outputs: Sequence[Outputs]) -> list[dict]:
        """Returns, for each example, "eid", its "id" if it has one, and the prediction."""
        found = []
        for example, output in zip(data.examples, outputs, strict=True):
            name = {} if example.guid is None else {"id": example.guid}
            found.append({"eid": example.eid, **name, **self.prediction(output)})
        return found

    @abc.abstractmethod
    def prediction(self, output: Outputs) -> dict[str, Any]:
        """Returns the prediction for one example, JSON-serializable."""

    def _targets(self, data: SplitData) -> np.ndarray:
        return np.array([row[self.target_spec.name] for row in data.rows])


class ClassificationTask(TextTask):
    """One of several labels.

    Args:
        labels: in the order of their ids, at least two.
        metrics: to report, of `METRICS`; accuracy if None. `main_metric` is added, and it
            is the first of them if not given.
    """

    kind = "classification"
    METRICS = scorers.CLASSIFICATION_METRICS

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
        self.labels = _checked_labels(name, labels, 2)
        reported = metrics if metrics is not None else (self.METRICS[0],)
        self.metrics = tuple(dict.fromkeys((self.main_metric, *reported)))
        self._ids = {label: i for i, label in enumerate(self.labels)}

    @property
    def description(self) -> dict[str, Any]:
        """ "kind", "has_pairs" and "labels"."""
        return {**super().description, "labels": list(self.labels)}

    @property
    def target_spec(self) -> FeatureSpec:
        """`<task>_label_ids`, int32."""
        return FeatureSpec(f"{self.name}_label_ids")

    def target(self, example: InputExample) -> int:
        """Returns the index of the example's label in `labels`."""
        return self._ids[example.label]

    def build_head(
        self, encoder_config: EncoderConfig, dtype: keras.DTypePolicy
    ) -> ClassificationHead:
        """Returns a new head with `len(labels)` outputs."""
        return ClassificationHead(
            encoder_config.hidden_size, len(self.labels), dtype, self.name
        )

    def score(self, data: SplitData, outputs: Sequence[Outputs]) -> Scores:
        """Returns `metrics`, the loss and the confusion matrix."""
        gold, predicted = self._targets(data), _predicted(outputs)
        count = len(self.labels)
        metrics = scorers.classification_metrics(gold, predicted, count, self.metrics)
        return Scores(
            metrics={**metrics, "loss": _mean_loss(outputs)},
            main=self.main_metric,
            confusion=scorers.confusion(gold, predicted, count),
            labels=self.labels,
        )

    def prediction(self, output: Outputs) -> dict[str, Any]:
        """Returns "prediction" (the label) and "probabilities" by label."""
        probabilities = _softmax(output["logits"])
        return {
            "prediction": self.labels[int(output["predictions"])],
            "probabilities": dict(zip(self.labels, probabilities.tolist(), strict=True)),
        }

    def degenerate(self, data: SplitData, outputs: Sequence[Outputs]) -> str | None:
        """Tells of one label for everything, where there are several."""
        predicted = np.unique(_predicted(outputs))
        if len(predicted) > 1 or len(np.unique(self._targets(data))) < 2:
            return None
        return f"predicts one label only ({self.labels[int(predicted[0])]})"


class RegressionTask(TextTask):
    """A number.

    The head learns `(label - min_label) / (max_label - min_label)`.

    Args:
        min_label, max_label: the range of the labels.
    """

    kind = "regression"
    METRICS = scorers.REGRESSION_METRICS[:2]

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
                f"The labels of task {name!r} must span a range, not from {min_label} to "
                f"{max_label}"
            )
        self.min_label = min_label
        self.max_label = max_label

    @property
    def description(self) -> dict[str, Any]:
        """ "kind", "has_pairs" and the range of the labels."""
        return {
            **super().description,
            "min_label": self.min_label,
            "max_label": self.max_label,
        }

    @property
    def target_spec(self) -> FeatureSpec:
        """`<task>_targets`, float32 in [0, 1]."""
        return FeatureSpec(f"{self.name}_targets", "float32")

    def target(self, example: InputExample) -> float:
        """Returns the label, scaled to [0, 1]."""
        return (float(example.label) - self.min_label) / (self.max_label - self.min_label)

    def build_head(
        self, encoder_config: EncoderConfig, dtype: keras.DTypePolicy
    ) -> RegressionHead:
        """Returns a new head with one output."""
        return RegressionHead(encoder_config.hidden_size, 1, dtype, self.name)

    def score(self, data: SplitData, outputs: Sequence[Outputs]) -> Scores:
        """Returns correlations, and, of scaled labels, "mse" and "loss"."""
        metrics = scorers.regression_metrics(self._targets(data), _predicted(outputs))
        return Scores(metrics={**metrics, "loss": _mean_loss(outputs)}, main=self.main_metric)

    def prediction(self, output: Outputs) -> dict[str, Any]:
        """Returns "prediction", a number on the scale of the labels, not clipped to it."""
        scaled = float(output["predictions"])
        return {"prediction": self.min_label + scaled * (self.max_label - self.min_label)}

    def degenerate(self, data: SplitData, outputs: Sequence[Outputs]) -> str | None:
        """Tells of one number for everything, where there are several."""
        if np.ptp(_predicted(outputs)) > 0 or np.ptp(self._targets(data)) == 0:
            return None
        return "predicts one number only"


class MultilabelTask(TextTask):
    """Any number of labels, each of its own.

    Args:
        labels: in the order of their ids.
    """

    kind = "multilabel"
    METRICS = scorers.MULTILABEL_METRICS

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
        self.labels = _checked_labels(name, labels, 1)
        self._ids = {label: i for i, label in enumerate(self.labels)}

    @property
    def description(self) -> dict[str, Any]:
        """ "kind", "has_pairs" and "labels"."""
        return {**super().description, "labels": list(self.labels)}

    @property
    def target_spec(self) -> FeatureSpec:
        """`<task>_targets`, float32 [labels], 1 for the example's labels."""
        return FeatureSpec(f"{self.name}_targets", "float32", size=len(self.labels))

    def target(self, example: InputExample) -> np.ndarray:
        """Returns 1 for each of the example's labels, else 0, float32 [labels]."""
        target = np.zeros(len(self.labels), np.float32)
        target[[self._ids[label] for label in example.label]] = 1
        return target

    def build_head(
        self, encoder_config: EncoderConfig, dtype: keras.DTypePolicy
    ) -> MultilabelHead:
        """Returns a new head with `len(labels)` outputs."""
        return MultilabelHead(encoder_config.hidden_size, len(self.labels), dtype, self.name)

    def score(self, data: SplitData, outputs: Sequence[Outputs]) -> Scores:
        """Returns micro and macro F1, subset accuracy and the loss."""
        metrics = scorers.multilabel_metrics(self._targets(data), _predicted(outputs))
        return Scores(metrics={**metrics, "loss": _mean_loss(outputs)}, main=self.main_metric)

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
        """Tells of the same labels for everything, where there are several sets."""
        predicted, gold = _predicted(outputs), self._targets(data)
        if len(np.unique(predicted, axis=0)) > 1 or len(np.unique(gold, axis=0)) < 2:
            return None
        chosen = [label for label, one in zip(self.labels, predicted[0], strict=True) if one]
        return f"predicts one set of labels only ({', '.join(chosen) or 'none'})"


def _checked_labels(name: str, labels: Sequence[str], least: int) -> tuple[str, ...]:
    if len(labels) < least or len(set(labels)) < len(labels):
        raise UserError(
            f"Task {name!r} needs at least {least} labels, each once; it has: "
            f"{', '.join(labels) or 'none'}"
        )
    return tuple(labels)


def _predicted(outputs: Sequence[Outputs]) -> np.ndarray:
    return np.array([output["predictions"] for output in outputs])


def _mean_loss(outputs: Sequence[Outputs]) -> float:
    return float(np.mean([output["loss"] for output in outputs], dtype=np.float64))


def _softmax(logits: np.ndarray) -> np.ndarray:
    shifted = np.exp(np.asarray(logits, np.float64) - np.max(logits))
    return shifted / shifted.sum()
