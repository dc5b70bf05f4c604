"""Interface of a fine-tuning task: data, features, head, scores and predictions."""

import abc
import dataclasses
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

import keras
import numpy as np

from electra_tf.config.encoder import EncoderConfig
from electra_tf.text.cached_tokenizer import CachedTokenizer
from electra_tf.util.errors import UserError
from electra_tf.util.files import write_atomically
from finetune.config.finetuning import FinetuningConfig
from finetune.config.task_kinds import TaskKind
from finetune.data.features import DataReport, FeatureSpec, Row
from finetune.model import TaskHead
from finetune.results.worst_errors import PredictionError
from finetune.tasks.averages import Average, Outputs

# Split names of training data and of --predict_file.
TRAIN, PREDICT = "train", "predict"
# A confusion matrix of more labels would take tens of megabytes, and show nothing.
MAX_CONFUSION_LABELS = 2000


def missing_split_error(split: str, splits: Iterable[str], task: str = "The task") -> UserError:
    """Returns the error for a split that is none of the `splits` of a task."""
    return UserError(f"{task} has no split {split!r}, only {', '.join(splits)}")


@dataclasses.dataclass(frozen=True)
class SplitData:
    """The examples of a split and their features.

    Attributes:
        split: name of the split, such as "train", "dev", "test", "dev_mismatched".
        examples: task-specific example objects.
        rows: features; one row per example, or several (question answering).
        labeled: whether the labels are real.
    """

    split: str
    examples: Sequence[Any]
    rows: Sequence[Row]
    labeled: bool = True


@dataclasses.dataclass(frozen=True)
class Scores:
    """Metrics of one split; fractions and correlations are percentages.

    Attributes:
        metrics: metrics by name, including "loss".
        main: name of the main metric, which selects checkpoints; higher is better.
        confusion: counts [gold, predicted] over `labels`; None for other tasks, and for more
            than `MAX_CONFUSION_LABELS` labels.
        labels: names of the rows and columns of `confusion`.
    """

    metrics: dict[str, float]
    main: str
    confusion: np.ndarray | None = None
    labels: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.main not in self.metrics:
            raise ValueError(f"the main metric {self.main!r} is none of {sorted(self.metrics)}")
        # The json module cannot write NumPy's numbers.
        values = {
            name: value.item() if isinstance(value, np.generic) else value
            for name, value in self.metrics.items()
        }
        object.__setattr__(self, "metrics", values)

    @property
    def main_value(self) -> float:
        """Value of the main metric."""
        return self.metrics[self.main]


class Task(abc.ABC):
    """One fine-tuning task.

    Args:
        config: hyperparameters.
        name: name of the task in flags, features and variables.
        tokenizer: tokenizer of the pre-trained model.

    Attributes:
        kind: one of `finetune.config.task_kinds.KINDS`.
        average: averages the outputs of an ensemble's models for a row; None if they cannot be
            averaged.
    """

    kind: ClassVar[TaskKind]
    average: ClassVar[Average | None] = None

    def __init__(self, config: FinetuningConfig, name: str, tokenizer: CachedTokenizer) -> None:
        self.config = config
        self.name = name
        self.tokenizer = tokenizer

    @classmethod
    @abc.abstractmethod
    def restore(
        cls,
        config: FinetuningConfig,
        name: str,
        tokenizer: CachedTokenizer,
        description: Mapping[str, Any],
    ) -> "Task":
        """Returns the task of a fine-tuned model for prediction, without data.

        Args:
            config: hyperparameters of the model's run.
            name: name of the task.
            tokenizer: tokenizer of the model.
            description: saved value of `Task.description`.
        """

    @classmethod
    @abc.abstractmethod
    def saved_head(
        cls,
        name: str,
        hidden_size: int,
        shapes: Mapping[str, Sequence[int]],
        dtype: keras.DTypePolicy,
    ) -> TaskHead:
        """Returns a new head for saved variables.

        Args:
            name: name of the task.
            hidden_size: hidden size of the encoder.
            shapes: shapes of the head's variables, by names such as "dense/kernel".
            dtype: dtype policy of the model.
        """

    @classmethod
    @abc.abstractmethod
    def describe_arrays(
        cls, arrays: Mapping[str, np.ndarray], labels: Sequence[str]
    ) -> dict[str, Any]:
        """Returns `description`, as far as it can be derived from converted weights.

        Args:
            arrays: weights of the head, by names such as "dense/kernel".
            labels: labels of the task; empty if unknown.
        """

    @classmethod
    def head_hyperparameters(cls, arrays: Mapping[str, np.ndarray]) -> dict[str, Any]:
        """Returns the hyperparameters of a head with these weights."""
        del arrays
        return {}

    @property
    @abc.abstractmethod
    def feature_specs(self) -> tuple[FeatureSpec, ...]:
        """Features in addition to `finetune.data.features.SHARED_SPECS`."""

    @property
    def dev_splits(self) -> tuple[str, ...]:
        """Splits to evaluate on; the first one selects checkpoints."""
        return ("dev",)

    @property
    def test_splits(self) -> tuple[str, ...]:
        """Splits to predict."""
        return ("test",)

    @property
    @abc.abstractmethod
    def description(self) -> dict[str, Any]:
        """What predictions need besides weights and hyperparameters; JSON-serializable.

        It includes "kind", and is saved in the `config.json` of a fine-tuned model, so the
        model can be used without data (`restore`).
        """

    @abc.abstractmethod
    def split_files(self, split: str) -> list[str]:
        """Returns the paths of a split's files, existing or not.

        They are part of the fingerprint of cached features.
        """

    @abc.abstractmethod
    def load(self, split: str, report: DataReport) -> list[Any]:
        """Reads the examples of a split.

        The split `PREDICT` is `config.predict_file`, without labels and in the format of the
        first test split.

        Raises:
            UserError: a file is missing or malformed, or a label is unknown; the message
                names file and line.
        """

    def load_train_to_evaluate(self, report: DataReport) -> list[Any]:
        """Reads the train split for cross-validation, with examples that only evaluation uses.

        Raises:
            UserError: as `load`.
        """
        return self.load(TRAIN, report)

    def is_trainable(self, example: Any) -> bool:
        """Whether an example of `load_train_to_evaluate` is also used for training."""
        del example
        return True

    @abc.abstractmethod
    def featurize(
        self, examples: Sequence[Any], *, is_training: bool, report: DataReport
    ) -> list[Row]:
        """Returns the features of examples, at most `config.max_seq_length` tokens each."""

    @abc.abstractmethod
    def build_head(self, encoder_config: EncoderConfig, dtype: keras.DTypePolicy) -> TaskHead:
        """Returns a new head, named `name`."""

    @abc.abstractmethod
    def score(self, data: SplitData, outputs: Sequence[Outputs]) -> Scores:
        """Returns the metrics of a labeled split; `outputs` has one entry per row."""

    def pooled(self, data: SplitData, outputs: Sequence[Outputs]) -> Sequence[Outputs]:
        """Returns one output per row; all rows of an example have the output of the example."""
        del data
        return outputs

    @abc.abstractmethod
    def predictions(self, data: SplitData, outputs: Sequence[Outputs]) -> list[dict]:
        """Returns one JSON-serializable prediction per example, in order."""

    def write_test_outputs(
        self, folder: str, data: SplitData, outputs: Sequence[Outputs], trial: int | str
    ) -> list[str]:
        """Writes the predictions of a test split as JSON lines; returns the paths.

        Tasks with an official submission format write that, too.

        Args:
            folder: folder of `<task>_<split>_<trial>_predictions.jsonl`.
            data: the split.
            outputs: one entry per row.
            trial: index of the trial, from 1; or "ensemble".
        """
        path = os.path.join(folder, f"{self.name}_{data.split}_{trial}_predictions.jsonl")
        write_atomically(path, json_lines(self.predictions(data, outputs)))
        return [path]

    def write_dev_answers(
        self, folder: str, data: SplitData, outputs: Sequence[Outputs], run_name: str
    ) -> list[str]:
        """Writes dev predictions in the format of official scripts; returns the paths.

        Args:
            folder: folder of the results.
            data: the split.
            outputs: one entry per row.
            run_name: suffix of file names, such as "1" or "1_fold2".
        """
        del folder, data, outputs, run_name
        return []

    def errors(self, data: SplitData, outputs: Sequence[Outputs]) -> list[PredictionError]:
        """Returns the wrong predictions of a labeled split, for reports."""
        del data, outputs
        return []

    def class_logits(
        self, data: SplitData, outputs: Sequence[Outputs]
    ) -> tuple[np.ndarray, np.ndarray] | None:
        """Returns logits [n, classes] and gold labels int [n], if examples have one label.

        None for other tasks, which have no calibration in the results.
        """
        del data, outputs
        return None

    def single_label(self, data: SplitData) -> str | None:
        """Returns the label of all examples of a split; None if there are several."""
        del data
        return None

    def degenerate(self, data: SplitData, outputs: Sequence[Outputs]) -> str | None:
        """Returns why a run counts as degenerate ("predicts one label"), or None."""
        return None


def json_lines(predictions: Iterable[Mapping[str, Any]]) -> str:
    """Formats predictions as JSON lines."""
    return "".join(json.dumps(p, ensure_ascii=False) + "\n" for p in predictions)
