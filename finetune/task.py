"""What a fine-tuning task is: data, features, a head, scores and predictions."""

import abc
import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from electra_tf.text.cached_tokenizer import CachedTokenizer
from finetune.config import FinetuningConfig
from finetune.data_report import DataReport
from finetune.features import FeatureSpec, Row

if TYPE_CHECKING:
    from electra_tf.config.encoder import EncoderConfig

# Name of the split that --predict_file is.
PREDICT = "predict"

# What the model puts out for one row, by name, such as {"logits": [num_labels]}. Outputs
# with an entry a token are as long as the row's batch was padded to.
Outputs = Mapping[str, np.ndarray]


class HeadOutput(NamedTuple):
    """`losses` float32 [batch], and `outputs` with a leading axis [batch]."""

    losses: tf.Tensor
    outputs: dict[str, tf.Tensor]


class TaskHead(keras.layers.Layer, abc.ABC):
    """The layers of one task on top of the encoder, under `task_specific/<task>/`."""

    @abc.abstractmethod
    def call(
        self,
        sequence_output: tf.Tensor,
        features: Mapping[str, tf.Tensor],
        *,
        dropout_key: tf.Tensor | None = None,
        is_training: bool = False,
    ) -> HeadOutput:
        """Returns losses and outputs for all rows of a batch, of whatever task they are.

        Args:
            sequence_output: [batch, seq, hidden] in the encoder's compute dtype.
            features: `input_ids`, `input_mask`, `segment_ids` int32 [batch, seq] and the
                task's own; those of rows of other tasks are 0.
            dropout_key: uint32 [2]; None leaves dropout out.
            is_training: whether gold labels may be looked at.
        """


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
