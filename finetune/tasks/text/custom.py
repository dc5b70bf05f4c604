"""Custom text tasks: texts and pairs with a label, several labels or a number."""

import abc
import functools
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from electra_tf.text.cached_tokenizer import CachedTokenizer
from electra_tf.util.errors import UserError
from finetune.config.finetuning import FinetuningConfig
from finetune.config.task_spec import TaskSpec
from finetune.data.features import DataReport
from finetune.data.raw_examples import RawExample
from finetune.data.suspicious import (
    warn_of_indicators,
    warn_of_unseparated_labels,
    warn_of_written_lists,
)
from finetune.tasks.custom_files import GROUP, TRAIN, CustomSource, Labels, refuse_single_label
from finetune.tasks.text.classification import ClassificationTask
from finetune.tasks.text.examples import InputExample, Label
from finetune.tasks.text.multilabel import MultilabelTask
from finetune.tasks.text.regression import RegressionTask


class LabelColumn(abc.ABC):
    """Interpretation of the label column.

    Args:
        spec: description of the task.
        train_path: returns the path of the train file.
        read_train: returns its records; called only if labels must be collected from them.
    """

    def __init__(
        self,
        spec: TaskSpec,
        train_path: Callable[[], str],
        read_train: Callable[[], Sequence[RawExample]],
    ) -> None:
        self._spec = spec
        self._train_path = train_path
        self._read_train = read_train

    @property
    @abc.abstractmethod
    def placeholder(self) -> Label:
        """The label of an unlabeled example."""

    @abc.abstractmethod
    def read(self, record: RawExample) -> Label:
        """Returns the label of a record.

        Raises:
            UserError: the label is invalid; the message names file and line.
        """

    @abc.abstractmethod
    def check_train(self, labels: Sequence[Label], path: str) -> None:
        """Raises UserError if there is nothing to learn from the labels; warns of odd ones."""

    def strata(self, labels: Sequence[Label]) -> list[str | None]:
        """Returns the strata of train and a held-out dev; None for no stratification."""
        return [None] * len(labels)


class ClassLabels(LabelColumn):
    """One of several labels."""

    @property
    def names(self) -> tuple[str, ...]:
        """Labels in the order of their ids; see `TaskSpec.labels`.

        Raises:
            UserError: they must be read from train, which is missing or malformed.
        """
        return self._known.names

    @property
    def placeholder(self) -> str:
        """The first label."""
        return self.names[0]

    def read(self, record: RawExample) -> str:
        """Returns the label."""
        return self._known.check(record.label("label"), record.where)

    def check_train(self, labels: Sequence[Label], path: str) -> None:
        """Rejects a single label."""
        refuse_single_label(labels, path)
        self._known.warn_of_untrained(labels, path)

    def strata(self, labels: Sequence[Label]) -> list[str | None]:
        """Returns the labels."""
        return list(labels)

    @functools.cached_property
    def _known(self) -> Labels:
        if self._spec.labels:
            return Labels(self._spec, self._spec.labels)
        found = [record.label("label") for record in self._read_train()]
        refuse_single_label(found, self._train_path())
        return Labels(self._spec, found, self._train_path())


class LabelSets(LabelColumn):
    """Any number of labels, including none."""

    @property
    def names(self) -> tuple[str, ...]:
        """Labels in the order of their ids; see `ClassLabels.names`."""
        return self._known.names

    @property
    def placeholder(self) -> tuple[str, ...]:
        """No label."""
        return ()

    def read(self, record: RawExample) -> tuple[str, ...]:
        """Returns the distinct labels."""
        return tuple(self._known.check(x, record.where) for x in self._given(record))

    def check_train(self, labels: Sequence[Label], path: str) -> None:
        """Rejects a file without any label."""
        if not any(labels):
            raise UserError(f"{path}: no example has a label, so there is nothing to learn")
        self._known.warn_of_untrained((x for each in labels for x in each), path)

    @functools.cached_property
    def _known(self) -> Labels:
        if self._spec.labels:
            return Labels(self._spec, self._spec.labels)
        given = [self._given(record) for record in self._read_train()]
        found = [label for labels in given for label in labels]
        path = self._train_path()
        separator = self._spec.label_separator
        warn_of_unseparated_labels(given, separator, path)
        warn_of_written_lists(given, "labels", repr(separator), path)
        warn_of_indicators(found, path)
        if not found:
            raise UserError(f"{path}: no example has a label, so there is nothing to learn")
        return Labels(self._spec, found, path)

    def _given(self, record: RawExample) -> list[str]:
        return record.labels("label", self._spec.label_separator)


class NumberLabels(LabelColumn):
    """A number, within the range in the description, if any."""

    @functools.cached_property
    def range(self) -> tuple[float, float]:
        """Labels that the head learns as 0 and 1.

        Raises:
            UserError: all labels of train are equal.
        """
        spec = self._spec
        if spec.min_label is not None and spec.max_label is not None:
            return float(spec.min_label), float(spec.max_label)
        found = [self.read(record) for record in self._read_train()]
        low = min(found) if spec.min_label is None else float(spec.min_label)
        high = max(found) if spec.max_label is None else float(spec.max_label)
        if not low < high:
            raise _single_number(found, self._train_path())
        return low, high

    @property
    def placeholder(self) -> float:
        """The lower end of the range."""
        return self.range[0]

    def read(self, record: RawExample) -> float:
        """Returns the number."""
        number = record.number("label")
        low, high = self._spec.min_label, self._spec.max_label
        if (low is not None and number < low) or (high is not None and number > high):
            raise UserError(
                f"{record.where}: label {number} is not between min_label ({low}) and "
                f"max_label ({high}) of task {self._spec.name!r}"
            )
        return number

    def check_train(self, labels: Sequence[Label], path: str) -> None:
        """Rejects a single number."""
        if min(labels) == max(labels):
            raise _single_number(labels, path)


def _single_number(numbers: Sequence[float], path: str) -> UserError:
    return UserError(
        f"{path}: labels are from {min(numbers)} to {max(numbers)}, so there is nothing to "
        'learn; is the right column named in "columns"?'
    )


LabelColumnT = TypeVar("LabelColumnT", bound=LabelColumn)


class TextSource(CustomSource, Generic[LabelColumnT]):
    """Reads texts or pairs with their labels.

    Args:
        spec: description of the task.
        config: hyperparameters.
        label_column: interpretation of the label column.

    Attributes:
        labels: the label column.
    """

    def __init__(
        self, spec: TaskSpec, config: FinetuningConfig, label_column: type[LabelColumnT]
    ) -> None:
        super().__init__(spec, config)
        self.labels = label_column(spec, self._train_path, self._read_train)

    def load_file(self, path: str, *, labeled: bool, report: DataReport) -> list[InputExample]:
        """Reads any file in the format of the task; see `CustomSource`."""
        del report
        return [
            InputExample(
                eid=eid,
                text_a=record.text("text_a"),
                text_b=record.text("text_b") if self.has_pairs else None,
                label=self.labels.read(record) if labeled else self.labels.placeholder,
                guid=record.name("id"),
                group=record.group(GROUP),
            )
            for eid, record in enumerate(self._records(path, labeled=labeled))
        ]

    def _check_train(self, examples: Sequence[InputExample], path: str) -> None:
        self.labels.check_train([example.label for example in examples], path)

    def _strata(self, examples: Sequence[InputExample]) -> list[str | None]:
        return self.labels.strata([example.label for example in examples])

    def _records(self, path: str, *, labeled: bool) -> list[RawExample]:
        roles = ["text_a", "label"] if labeled else ["text_a"]
        if self.has_pairs:
            roles.append("text_b")
        return self._files.records(path, roles, optional=("id",))

    def _train_path(self) -> str:
        return self._files.path(TRAIN)

    def _read_train(self) -> list[RawExample]:
        return self._records(self._train_path(), labeled=True)


def make_custom_classification_task(
    config: FinetuningConfig, spec: TaskSpec, tokenizer: CachedTokenizer
) -> ClassificationTask:
    """Returns a task that reports all metrics of its kind."""
    source = TextSource(spec, config, ClassLabels)
    return ClassificationTask(
        config,
        spec.name,
        tokenizer,
        source,
        labels=source.labels.names,
        metrics=spec.kind.main_metrics(),
        main_metric=spec.metric,
    )


def make_custom_multilabel_task(
    config: FinetuningConfig, spec: TaskSpec, tokenizer: CachedTokenizer
) -> MultilabelTask:
    """Returns a task with the labels in the description, or those of the train file."""
    source = TextSource(spec, config, LabelSets)
    return MultilabelTask(
        config,
        spec.name,
        tokenizer,
        source,
        labels=source.labels.names,
        main_metric=spec.metric,
    )


def make_custom_regression_task(
    config: FinetuningConfig, spec: TaskSpec, tokenizer: CachedTokenizer
) -> RegressionTask:
    """Returns a task with the label range in the description, or that of the train file."""
    source = TextSource(spec, config, NumberLabels)
    low, high = source.labels.range
    return RegressionTask(
        config,
        spec.name,
        tokenizer,
        source,
        min_label=low,
        max_label=high,
        main_metric=spec.metric,
    )
