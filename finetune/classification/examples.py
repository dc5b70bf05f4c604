"""One text or pair with its label, and where a task's examples come from."""

import dataclasses
from typing import Protocol

from finetune.data_report import DataReport

# A class, several classes, or a number.
Label = str | tuple[str, ...] | float


@dataclasses.dataclass(frozen=True)
class InputExample:
    """One text or pair of texts.

    Attributes:
        eid: number within its split, from 0.
        text_a: the text.
        text_b: the second text; None or empty for none.
        label: a class (classification), classes (multilabel) or a number (regression). An
            unlabeled example carries a dummy.
        guid: the example's name in its file, if it has one.
    """

    eid: int
    text_a: str
    text_b: str | None
    label: Label
    guid: str | None = None


class ExampleSource(Protocol):
    """The files behind a task, by split.

    Attributes:
        dev_splits: splits to evaluate on, the one that selects checkpoints first.
        test_splits: splits to predict.
    """

    dev_splits: tuple[str, ...]
    test_splits: tuple[str, ...]

    def split_files(self, split: str) -> list[str]:
        """Returns the paths of a split's files, whether or not they exist."""

    def load(self, split: str, report: DataReport) -> list[InputExample]:
        """Reads a split; raises UserError for bad input, naming file and line."""

    def load_file(self, path: str, *, labeled: bool, report: DataReport) -> list[InputExample]:
        """Reads any file that is laid out as the task's; raises as `load`."""
