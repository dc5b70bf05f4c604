"""The splits of a user's own task, whatever its examples are."""

import abc
import dataclasses
from collections.abc import Sequence
from typing import Any

from finetune.config import FinetuningConfig
from finetune.custom.files import DEV, HELD_OUT, TRAIN, TaskFiles
from finetune.custom.spec import TaskSpec
from finetune.data_report import DataReport


class OwnSource(abc.ABC):
    """Reads the splits of a task from its files.

    Args:
        spec: of the task.
        config: hyperparameters.

    Attributes:
        dev_splits: splits to evaluate on, the one that selects checkpoints first.
        test_splits: splits to predict.
        has_pairs: whether an example has two texts.
    """

    def __init__(self, spec: TaskSpec, config: FinetuningConfig) -> None:
        self._spec = spec
        self._files = TaskFiles(spec, config)
        self.dev_splits = self._files.dev_splits
        self.test_splits = self._files.test_splits
        self.has_pairs = "text_b" in spec.columns

    def split_files(self, split: str) -> list[str]:
        """Returns the paths that a split's examples follow from."""
        return self._files.fingerprint_files(split)

    def load(self, split: str, report: DataReport) -> list[Any]:
        """Reads a split; labels of what is only to be predicted are not looked at.

        Raises:
            UserError: for bad input, naming file and line.
        """
        path = self._files.path(split)
        labeled = self._files.is_labeled(split)
        examples = self.load_file(path, labeled=labeled, report=report)
        if self._files.source_split(split) != TRAIN:
            return examples
        self._check_train(examples, path)
        kept = self._files.divide(self._strata(examples), split)
        if split == DEV:
            report.add(HELD_OUT, examples=len(kept), of=len(examples))
        return [dataclasses.replace(examples[i], eid=eid) for eid, i in enumerate(kept)]

    @abc.abstractmethod
    def load_file(self, path: str, *, labeled: bool, report: DataReport) -> list[Any]:
        """Reads any file that is laid out as the task's.

        Args:
            path: of the file.
            labeled: whether it has labels; without, a dummy stands in their place.
            report: gets nothing: what cannot be used is an error.

        Raises:
            UserError: for bad input, naming file and line.
        """

    @abc.abstractmethod
    def _check_train(self, examples: Sequence[Any], path: str) -> None:
        """Raises UserError if there is nothing to learn from the train file."""

    @abc.abstractmethod
    def _strata(self, examples: Sequence[Any]) -> list[str | None]:
        """Returns what train and a held-out dev have equal shares of, or None."""
