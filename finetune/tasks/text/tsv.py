"""Reads tab-separated files like those of GLUE: no quoting, columns by index."""

import dataclasses
import os
from collections.abc import Iterator, Mapping

from electra_tf.util.console import warn_once
from electra_tf.util.errors import UserError
from finetune.data.features import DataReport
from finetune.data.file_readers import are_indices, is_number, read_text, split_lines
from finetune.tasks.base import TRAIN, missing_split_error
from finetune.tasks.text.examples import InputExample, Label, LabelParser

MALFORMED = "row with a wrong number of columns, left out"
EMPTY_TEXT = "empty text"
LABELS_UNREAD = "labeled file to predict, read in the format of dev"


@dataclasses.dataclass(frozen=True)
class TsvLayout:
    """Columns of a file; negative indices count from the last one.

    Attributes:
        text_a, text_b: columns of the texts; None if there is no second text.
        label: column of the label; None if there is none.
        num_columns: number of columns of every row; None means as many as the header has.
        header: whether the first line has the column names.
        skip_malformed: skip and report rows with another number of columns.
    """

    text_a: int
    text_b: int | None = None
    label: int | None = None
    num_columns: int | None = None
    header: bool = True
    skip_malformed: bool = False

    @property
    def least_columns(self) -> int:
        """Minimum number of columns for all indices to exist."""
        indices = [i for i in (self.text_a, self.text_b, self.label) if i is not None]
        return max(i + 1 if i >= 0 else -i for i in indices)

    def has_texts_of(self, other: "TsvLayout") -> bool:
        """Whether the texts of a file are in the same places in `other`."""
        ours, theirs = ((x.text_a, x.text_b, x.header) for x in (self, other))
        return ours == theirs


class TsvSource:
    """The tab-separated files of one task; see `ExampleSource`.

    Args:
        files: paths by split.
        layouts: layouts by split.
        parse_label: parses the text of a label.
        dummy_label: label of unlabeled examples.
        dev_splits, test_splits: as in `ExampleSource`.
        double_unordered: train on both orders of each pair; swapped pairs come last.
    """

    def __init__(
        self,
        files: Mapping[str, str],
        layouts: Mapping[str, TsvLayout],
        parse_label: LabelParser,
        dummy_label: Label,
        *,
        dev_splits: tuple[str, ...] = ("dev",),
        test_splits: tuple[str, ...] = ("test",),
        double_unordered: bool = False,
    ) -> None:
        self.dev_splits = dev_splits
        self.test_splits = test_splits
        self._files = dict(files)
        self._layouts = dict(layouts)
        self.has_pairs = any(layout.text_b is not None for layout in layouts.values())
        self._parse_label = parse_label
        self._dummy_label = dummy_label
        self._double_unordered = double_unordered

    def split_files(self, split: str) -> list[str]:
        """Returns the path of a split's file."""
        if split not in self._files:
            raise missing_split_error(split, self._files)
        return [self._files[split]]

    def load(self, split: str, report: DataReport) -> list[InputExample]:
        """Reads a split; "eid" is the index of the row, as in the authors' code.

        Raises:
            UserError: the file is missing, empty or not UTF-8, or a row has a wrong number of
                columns or an invalid label.
        """
        (path,) = self.split_files(split)
        if not os.path.isfile(path):
            raise UserError(
                f"No such file: {path} (the {split} split); see --data_dir and --raw_data_dir"
            )
        layout = self._layouts[split]
        if split in self.test_splits:
            layout = self._unlabeled_layout(path, layout, report)
        examples = self._read(path, layout, report)
        if self._double_unordered and split == TRAIN:
            examples += [
                dataclasses.replace(
                    e, eid=e.eid + len(examples), text_a=e.text_b, text_b=e.text_a
                )
                for e in examples
            ]
        return examples

    def load_file(self, path: str, *, labeled: bool, report: DataReport) -> list[InputExample]:
        """Reads any file in the format of dev or, unlabeled, of the first test split.

        An unlabeled file may have the format of dev, too: its labels are not used.

        Raises:
            UserError: as `load`.
        """
        layout = self._layouts[(self.dev_splits if labeled else self.test_splits)[0]]
        if not labeled:
            layout = self._unlabeled_layout(path, layout, report)
        return self._read(path, layout, report)

    def _unlabeled_layout(self, path: str, layout: TsvLayout, report: DataReport) -> TsvLayout:
        """Returns `layout`, or the dev layout without labels if the file has the format of dev.

        In several tasks, dev and test files have texts in different columns. A file has the
        format of dev if every row has a label in the label column of dev.
        """
        labeled = self._layouts[self.dev_splits[0]]
        if layout.has_texts_of(labeled) or not self._has_labels(path, labeled):
            return layout
        report.add(LABELS_UNREAD, file=path)
        return dataclasses.replace(labeled, label=None)

    def _has_labels(self, path: str, layout: TsvLayout) -> bool:
        rows = [line.split("\t") for line in _lines(path)]
        expected = layout.num_columns or len(rows[0])
        rows = [row for row in rows[layout.header :] if len(row) == expected]
        if not rows or expected < layout.least_columns:
            return False
        try:
            for row in rows:
                self._parse_label(row[layout.label])
        except ValueError:
            return False
        return True

    def _read(self, path: str, layout: TsvLayout, report: DataReport) -> list[InputExample]:
        examples: list[InputExample] = []
        for line, cells in _rows(path, layout, report):
            text_a = cells[layout.text_a]
            text_b = None if layout.text_b is None else cells[layout.text_b]
            if not text_a.strip() or (text_b is not None and not text_b.strip()):
                report.add(EMPTY_TEXT, file=path, line=line)
            label = self._dummy_label
            if layout.label is not None:
                try:
                    label = self._parse_label(cells[layout.label])
                except ValueError as error:
                    raise UserError(f"{path}, line {line}: {error}") from error
            eid = line - 1 - layout.header  # skipped rows count, too
            examples.append(InputExample(eid, text_a, text_b, label))
        if not examples:
            raise UserError(f"{path} contains no examples")
        return examples


def _lines(path: str) -> list[str]:
    # Blank lines at the end are ignored; elsewhere they are rows with one column.
    return split_lines(path, read_text(path).rstrip("\r\n"))


def _rows(path: str, layout: TsvLayout, report: DataReport) -> Iterator[tuple[int, list[str]]]:
    """Yields line number and cells of each row, without the header."""
    lines = _lines(path)
    counted = f"{os.path.basename(path)} of this task"
    expected = layout.num_columns
    if expected is None:
        expected, counted = lines[0].count("\t") + 1, "the first line"
    if expected < layout.least_columns:
        raise UserError(
            f"{path}, line 1: {expected} columns, separated by tabs, where at least "
            f"{layout.least_columns} are expected"
        )
    if layout.header:
        _warn_of_lost_example(path, lines[0].split("\t"))
    for number, line in enumerate(lines, start=1):
        cells = line.split("\t")
        if len(cells) != expected:
            if layout.skip_malformed and number > 1:
                report.add(MALFORMED, file=path, line=number, columns=len(cells))
                continue
            raise UserError(
                f"{path}, line {number}: {len(cells)} columns, separated by tabs, where "
                f"{counted} has {expected}"
            )
        if not (layout.header and number == 1):
            yield number, cells


def _warn_of_lost_example(path: str, names: list[str]) -> None:
    """Warns of a first line that is read as a header, but contains an index or a label."""
    numbers = [] if are_indices(names) else [name for name in names if is_number(name)]
    if numbers:
        warn_once(
            f"{path}: line 1, which has the number {numbers[0]}, is read as the names of the "
            "columns; if it is an example, put a line of names before it"
        )
