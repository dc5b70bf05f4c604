"""Tasks whose examples are read by a source: files of GLUE, CoNLL or a user."""

import abc
from collections.abc import Mapping
from typing import Any, Protocol, Self

from electra_tf.text.cached_tokenizer import CachedTokenizer
from electra_tf.util.errors import UserError
from finetune.config.finetuning import FinetuningConfig
from finetune.data.features import DataReport
from finetune.tasks.base import PREDICT, Task


class ExampleSource(Protocol):
    """The files behind a task, by split.

    Attributes:
        dev_splits: splits to evaluate on, the one that selects checkpoints first.
        test_splits: splits to predict.
        has_pairs: whether an example has two texts.
    """

    dev_splits: tuple[str, ...]
    test_splits: tuple[str, ...]
    has_pairs: bool

    def split_files(self, split: str) -> list[str]:
        """Returns the paths of a split's files, existing or not."""

    def load(self, split: str, report: DataReport) -> list[Any]:
        """Reads a split; raises UserError for malformed input, naming file and line."""

    def load_file(self, path: str, *, labeled: bool, report: DataReport) -> list[Any]:
        """Reads any file in the format of the task; raises as `load`."""


class SourceTask(Task, abc.ABC):
    """A task whose examples are read by a source.

    Args:
        config: hyperparameters.
        name: name of the task.
        tokenizer: tokenizer of the pre-trained model.
        source: source of the examples.
    """

    def __init__(
        self,
        config: FinetuningConfig,
        name: str,
        tokenizer: CachedTokenizer,
        source: ExampleSource,
    ) -> None:
        super().__init__(config, name, tokenizer)
        self.source = source

    @classmethod
    def restore(
        cls,
        config: FinetuningConfig,
        name: str,
        tokenizer: CachedTokenizer,
        description: Mapping[str, Any],
    ) -> Self:
        """See `Task.restore`; the description has the class's arguments, except the source."""
        settings = {k: v for k, v in description.items() if k != "kind"}
        return cls(config, name, tokenizer, NoSource(), **settings)

    @property
    def dev_splits(self) -> tuple[str, ...]:
        """Splits to evaluate on; the first one selects checkpoints."""
        return self.source.dev_splits

    @property
    def test_splits(self) -> tuple[str, ...]:
        """Splits to predict."""
        return self.source.test_splits

    def split_files(self, split: str) -> list[str]:
        """Returns the paths of a split's files."""
        if split == PREDICT:
            return [self.config.predict_file]
        return self.source.split_files(split)

    def load(self, split: str, report: DataReport) -> list[Any]:
        """Reads a split; see `Task.load`."""
        if split == PREDICT:
            return self.source.load_file(self.config.predict_file, labeled=False, report=report)
        return self.source.load(split, report)


class NoSource:
    """The source of a task restored for prediction, without splits.

    Args:
        has_pairs: as in `ExampleSource`.
    """

    dev_splits: tuple[str, ...] = ()
    test_splits: tuple[str, ...] = ()

    def __init__(self, has_pairs: bool = False) -> None:
        self.has_pairs = has_pairs

    def split_files(self, split: str) -> list[str]:
        """Returns no paths."""
        return []

    def load(self, split: str, report: DataReport) -> list[Any]:
        """Raises UserError: there are no examples."""
        raise UserError(f"A task restored for prediction has no split {split!r}")

    def load_file(self, path: str, *, labeled: bool, report: DataReport) -> list[Any]:
        """Raises UserError: the file format is unknown."""
        raise UserError(f"A task restored for prediction cannot read {path}")
