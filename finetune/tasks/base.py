"""What a fine-tuning task is: data, features, a head, scores and predictions."""

import abc
import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import keras
import numpy as np
import tensorflow as tf

from electra_tf.inference.export.servable import Servable, ServedOutputs
from electra_tf.text.cached_tokenizer import CachedTokenizer
from electra_tf.text.text_inputs import EncoderInputs
from finetune.config.finetuning import FinetuningConfig
from finetune.data.features import DataReport, FeatureSpec, Row
from finetune.model import FinetuningModel, TaskHead

if TYPE_CHECKING:
    from electra_tf.config.encoder import EncoderConfig

# Name of the split that --predict_file is.
PREDICT = "predict"


# What the model puts out for one row, by name, such as {"logits": [num_labels]}. Outputs
# with an entry a token are as long as the row's batch was padded to.
Outputs = Mapping[str, np.ndarray]


@dataclasses.dataclass(frozen=True)
class SplitData:
    """The examples of a split and their features.

    Attributes:
        split: such as "train", "dev", "test", "dev_mismatched".
        examples: the task's own example objects.
        rows: features; one for each example, or several (question answering).
        labeled: whether the labels are real ones.
    """

    split: str
    examples: Sequence[Any]
    rows: Sequence[Row]
    labeled: bool = True


@dataclasses.dataclass(frozen=True)
class Scores:
    """Metrics of one split, percentages where they are shares or correlations.

    Attributes:
        metrics: by name; "loss" among them.
        main: name of the metric that selects checkpoints and stands in tables; higher is
            better.
        confusion: counts [gold, predicted] over `labels`, for tasks that have one.
        labels: names of the rows and columns of `confusion`.
    """

    metrics: dict[str, float]
    main: str
    confusion: np.ndarray | None = None
    labels: tuple[str, ...] = ()

    @property
    def main_value(self) -> float:
        """Value of the main metric."""
        return self.metrics[self.main]


class Task(abc.ABC):
    """One fine-tuning task.

    Args:
        config: hyperparameters.
        name: under which flags, features and variables know the task.
        tokenizer: of the pre-trained model.

    Attributes:
        kind: of `finetune.custom.spec.KINDS`.
    """

    kind: str

    def __init__(self, config: FinetuningConfig, name: str, tokenizer: CachedTokenizer) -> None:
        self.config = config
        self.name = name
        self.tokenizer = tokenizer

    @property
    @abc.abstractmethod
    def feature_specs(self) -> tuple[FeatureSpec, ...]:
        """Features beyond `finetune.features.SHARED_SPECS`."""

    @property
    def dev_splits(self) -> tuple[str, ...]:
        """Splits to evaluate on; the first one selects checkpoints."""
        return ("dev",)

    @property
    def test_splits(self) -> tuple[str, ...]:
        """Splits that `write_test_outputs` predicts."""
        return ("test",)

    @property
    @abc.abstractmethod
    def description(self) -> dict[str, Any]:
        """What predictions need besides weights and hyperparameters, JSON-serializable.

        It holds "kind", and stands in the `config.json` of a fine-tuned model, so that the
        model can be used without the data (`finetune.task_builder.restore_tasks`).
        """

    @abc.abstractmethod
    def split_files(self, split: str) -> list[str]:
        """Returns the paths of a split's files, whether or not they exist.

        They enter the fingerprint of cached features.
        """

    @abc.abstractmethod
    def load(self, split: str, report: DataReport) -> list[Any]:
        """Reads the examples of a split.

        The split `PREDICT` is the file `config.predict_file`, without labels and laid out
        as the task's (first) test split.

        Raises:
            UserError: a missing or empty file, a wrong number of columns, an unknown
                label: each with file, line and what was expected.
        """

    @abc.abstractmethod
    def featurize(
        self, examples: Sequence[Any], *, is_training: bool, report: DataReport
    ) -> list[Row]:
        """Returns the features of examples, at most `config.max_seq_length` tokens each."""

    @abc.abstractmethod
    def build_head(self, encoder_config: "EncoderConfig", dtype: keras.DTypePolicy) -> TaskHead:
        """Returns a new head, named `name`."""

    @abc.abstractmethod
    def score(self, data: SplitData, outputs: Sequence[Outputs]) -> Scores:
        """Returns the metrics of a labeled split; `outputs` has one entry for each row."""

    @abc.abstractmethod
    def predictions(self, data: SplitData, outputs: Sequence[Outputs]) -> list[dict]:
        """Returns one JSON-serializable prediction for each example, in their order."""

    def degenerate(self, data: SplitData, outputs: Sequence[Outputs]) -> str | None:
        """Says what is wrong with a run that learnt nothing ("predicts one label"), or None."""
        return None


TaskT = TypeVar("TaskT", bound=Task)


class TaskServable(Servable, Generic[TaskT]):
    """One task of a fine-tuned model.

    Args:
        model: has the task's head.
        task: the task.
        max_seq_length: tokens of a row at most.
    """

    def __init__(self, model: FinetuningModel, task: TaskT, max_seq_length: int) -> None:
        super().__init__(task.tokenizer.tokenizer, max_seq_length, model.electra.linears)
        self.task = task
        self._model = model

    @property
    def metadata(self) -> dict:
        return {**super().metadata, "task": self.task.name, **self.task.description}

    def _head_outputs(
        self, inputs: EncoderInputs, features: dict[str, tf.Tensor] | None = None
    ) -> ServedOutputs:
        """Returns what the head puts out.

        Args:
            inputs: a batch.
            features: the task's own that are known; the others, such as labels, are 0.
        """
        zeros = {spec.name: _zeros(spec, inputs) for spec in self.task.feature_specs}
        features = {**inputs._asdict(), **zeros, **(features or {})}
        return self._model.predict_task(features, self.task.name).outputs


def _zeros(spec: FeatureSpec, inputs: EncoderInputs) -> tf.Tensor:
    """Returns zeros [batch], [batch, seq] or [batch, size], as the feature is."""
    shape = tf.shape(inputs.input_ids)
    if spec.size is not None:
        return tf.zeros(tf.stack([shape[0], spec.size]), spec.dtype)
    return tf.zeros(shape if spec.per_token else shape[:1], spec.dtype)
