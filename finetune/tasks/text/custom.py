"""Texts and pairs with a label, several labels or a number, from a user's files."""

import functools
from collections.abc import Iterable, Sequence

from electra_tf.util.errors import UserError
from finetune.data.features import DataReport
from finetune.data.raw_examples import RawExample
from finetune.tasks.custom_files import TRAIN, CustomSource, Labels, refuse_single_label
from finetune.tasks.text.examples import InputExample, Label


class TextSource(CustomSource):
    """Reads the examples of a classification, multilabel or regression task."""

    @property
    def labels(self) -> tuple[str, ...]:
        """Labels in the order of their ids; see `TaskSpec.labels`.

        Raises:
            UserError: if they are to be found in train, and it is missing or broken.
        """
        return self._labels.names

    @functools.cached_property
    def label_range(self) -> tuple[float, float]:
        """Labels that regression learns as 0 and 1.

        Raises:
            UserError: if all labels of train are equal.
        """
        spec = self._spec
        if spec.min_label is not None and spec.max_label is not None:
            return float(spec.min_label), float(spec.max_label)
        found = [self._number(record) for record in self._train_records]
        low = min(found) if spec.min_label is None else float(spec.min_label)
        high = max(found) if spec.max_label is None else float(spec.max_label)
        if not low < high:
            self._refuse_range(min(found), max(found))
        return low, high

    def load_file(self, path: str, *, labeled: bool, report: DataReport) -> list[InputExample]:
        """Reads any file that is laid out as the task's; see `OwnSource`."""
        del report
        records = self._records(path, labeled=labeled)
        return [
            InputExample(
                eid=eid,
                text_a=record.text("text_a"),
                text_b=record.text("text_b") if self.has_pairs else None,
                label=self._label(record) if labeled else self._dummy_label(),
                guid=record.name("id"),
            )
            for eid, record in enumerate(records)
        ]

    def _check_train(self, examples: Sequence[InputExample], path: str) -> None:
        labels = [example.label for example in examples]
        if self._spec.kind == "classification":
            refuse_single_label(labels, path)
        elif self._spec.kind == "regression" and min(labels) == max(labels):
            self._refuse_range(min(labels), max(labels))

    def _strata(self, examples: Sequence[InputExample]) -> list[str | None]:
        is_single = self._spec.kind == "classification"
        return [example.label if is_single else None for example in examples]

    def _records(self, path: str, *, labeled: bool) -> list[RawExample]:
        roles = ["text_a", "label"] if labeled else ["text_a"]
        if self.has_pairs:
            roles.append("text_b")
        return self._files.records(path, roles, optional=("id",))

    @functools.cached_property
    def _train_records(self) -> list[RawExample]:
        return self._records(self._files.path(TRAIN), labeled=True)

    @functools.cached_property
    def _labels(self) -> Labels:
        if self._spec.labels:
            return Labels(self._spec, self._spec.labels)
        found = [label for r in self._train_records for label in self._given_labels(r)]
        path = self._files.path(TRAIN)
        if self._spec.kind == "classification":
            refuse_single_label(found, path)
        elif not found:
            raise UserError(f"{path}: no example has a label, so there is nothing to learn")
        return Labels(self._spec, found, path)

    def _given_labels(self, record: RawExample) -> Iterable[str]:
        if self._spec.kind == "multilabel":
            return record.labels("label", self._spec.label_separator)
        return (record.label("label"),)

    def _label(self, record: RawExample) -> Label:
        if self._spec.kind == "regression":
            return self._number(record)
        labels = [self._labels.check(x, record.where) for x in self._given_labels(record)]
        return tuple(labels) if self._spec.kind == "multilabel" else labels[0]

    def _number(self, record: RawExample) -> float:
        number = record.number("label")
        low, high = self._spec.min_label, self._spec.max_label
        if (low is not None and number < low) or (high is not None and number > high):
            raise UserError(
                f"{record.where}: label {number} is outside of min_label ({low}) and "
                f"max_label ({high}) of task {self._spec.name!r}"
            )
        return number

    def _dummy_label(self) -> Label:
        if self._spec.kind == "regression":
            return self.label_range[0]
        return () if self._spec.kind == "multilabel" else self.labels[0]

    def _refuse_range(self, low: float, high: float) -> None:
        raise UserError(
            f"{self._files.path(TRAIN)}: labels are from {low} to {high}, so there is nothing "
            'to learn; is the right column named in "columns"?'
        )
