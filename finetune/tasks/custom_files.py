"""The files of a custom task by split, and their records and labels."""

import abc
import dataclasses
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from electra_tf.util.console import warn_once
from electra_tf.util.errors import UserError
from finetune.config.finetuning import FinetuningConfig
from finetune.config.task_spec import Column, TaskSpec
from finetune.data.features import DataReport
from finetune.data.file_readers import read_records
from finetune.data.folds import example_groups, hold_out, warn_of_unseen_labels
from finetune.data.raw_examples import RawExample, brief
from finetune.data.suspicious import alike_label_hint, warn_of_odd_labels
from finetune.tasks.base import PREDICT, TRAIN, missing_split_error

DEV, TEST = "dev", "test"
CONLL = "conll"
_WITH_HEADER = ("tsv", "csv")
# Role of the names of examples, which are copied into predictions.
_ID = "id"
# Role of `TaskSpec.group_column`.
GROUP = "group"
_CONLL_COLUMNS = {"words": 0, "tags": -1}
HELD_OUT = "no dev file: examples of train are held out as dev"


class TaskFiles:
    """Finds and reads the files of a task.

    Args:
        spec: description of the task.
        config: hyperparameters.

    Attributes:
        dev_splits: splits to evaluate on: dev, then all other than train and test.
        test_splits: "test" and names starting with "test_".
        held_out_fraction: fraction of train to hold out as dev; 0 for cross-validation.
    """

    def __init__(self, spec: TaskSpec, config: FinetuningConfig) -> None:
        self.spec = spec
        self._raw_data_dir = config.raw_data_dir
        self._predict_file = config.predict_file
        # For roles given by index: the path of the first file, and the column's name there.
        self._first_names: dict[str, tuple[str, str]] = {}
        self._first_width: tuple[str, int] | None = None
        self.held_out_fraction = 0.0 if config.num_folds else spec.held_out_fraction
        self.test_splits = tuple(s for s in spec.files if _is_test(s))
        others = (s for s in spec.files if s not in (TRAIN, DEV) and not _is_test(s))
        has_dev = DEV in spec.files or spec.held_out_fraction > 0
        self.dev_splits = (*((DEV,) if has_dev else ()), *others)

    def source_split(self, split: str) -> str:
        """Returns the split whose file contains `split`: train for a held-out dev."""
        return TRAIN if split == DEV and self.held_out_fraction else split

    def is_labeled(self, split: str) -> bool:
        """Whether labels are read; those of splits to predict are not."""
        return split != PREDICT and split not in self.test_splits

    def path(self, split: str) -> str:
        """Returns the path of a split's file.

        Raises:
            UserError: it does not exist, or the task has no such split.
        """
        source = self.source_split(split)
        if source == PREDICT and self._predict_file:
            if not os.path.isfile(self._predict_file):
                raise UserError(f"--predict_file={self._predict_file}: no such file")
            return self._predict_file
        if source not in self.spec.files:
            task = f"{self.spec.source}: task {self.spec.name!r}"
            raise missing_split_error(split, self.spec.files, task)
        return self.spec.path(source, self._raw_data_dir)

    def fingerprint_files(self, split: str) -> list[str]:
        """Returns the files that a split depends on, such as train for its labels."""
        paths = [] if self.spec.spec_file is None else [self.spec.spec_file]
        for source in dict.fromkeys((self.source_split(split), TRAIN)):
            try:
                paths.append(self.path(source))
            except UserError:
                continue  # missing files are reported where they are read
        return paths

    def format_of(self, path: str) -> str:
        """Returns the format of a file; warns of a "header" that such files do not have.

        Raises:
            UserError: as `TaskSpec.format_of`.
        """
        file_format = self.spec.format_of(path)
        if self.spec.header is not None and file_format not in _WITH_HEADER:
            warn_once(
                f'{path}: "header" of {self.spec.source} has no effect: only tsv and csv files '
                "have one"
            )
        return file_format

    def records(
        self, path: str, roles: Sequence[str], optional: Sequence[str] = ()
    ) -> list[RawExample]:
        """Reads the required columns of a file, optional ones listed in "columns", and ids.

        The value of a role with several columns is the list of their values.

        Raises:
            UserError: as `read_records`.
        """
        spec = self.spec
        file_format = self.format_of(path)
        named = [role for role in optional if role in spec.columns]
        # Without "columns", a file may have the optional columns under the names of the roles.
        unnamed = () if spec.columns or file_format == CONLL else spec.kind.optional_columns
        columns = self._columns(path, file_format, (*roles, *named), unnamed)
        columns, lists = _divide_lists(columns)
        records = read_records(
            path,
            file_format=file_format,
            columns=columns,
            optional=(*optional, *unnamed),
            assumed=unnamed,
            header=spec.header is not False,
            see_names=lambda names: self._compare_names(path, columns, names),
            see_width=lambda width: self._compare_widths(path, columns, width),
        )
        for record in records:
            for role, items in lists.items():
                record.values[role] = [record.values.pop(item) for item in items]
        for role in unnamed:
            self._drop_unnamed_column(role, path, records)
        for role in named:
            # Files to predict need no answers, and train needs no ids.
            is_needed = not self._is_train(path) if role == _ID else "answers" not in optional
            if is_needed and not any(role in record.values for record in records):
                warn_once(
                    f"{path} has no column {spec.column(role)!r} ({role}), which "
                    f"{spec.source} names"
                )
        return records

    def _columns(
        self, path: str, file_format: str, roles: Sequence[str], unnamed: Sequence[str]
    ) -> dict[str, Column]:
        """Returns the column of each role, and of the group in the train file.

        Args:
            path: the file.
            file_format: its format.
            roles: roles whose columns the description names; by default, by the role's name.
            unnamed: optional roles; the file may have columns of their names.

        Raises:
            UserError: a conll file cannot have one of the columns.
        """
        spec = self.spec
        if file_format == CONLL and not spec.columns:
            columns = {role: _CONLL_COLUMNS[role] for role in roles}
        elif file_format == CONLL and _ID in roles:
            raise UserError(f'{spec.source}: sentences of a conll file have no "id" column')
        else:
            columns = {role: spec.column(role) for role in roles}
            columns |= {role: role for role in unnamed if role not in columns}
        if spec.group_column is not None and self._is_train(path):
            if file_format == CONLL:
                raise UserError(f'{spec.source}: a conll file has no "group_column"')
            columns[GROUP] = spec.group_column
        return columns

    def _drop_unnamed_column(self, role: str, path: str, records: Sequence[RawExample]) -> None:
        """Leaves out an optional column that the description does not name, with a warning.

        If it were read, models of older versions would get other inputs. Ids are not inputs.
        """
        if role == _ID or not any(role in record.values for record in records):
            return
        warn_once(
            f"{path} has a column {role!r}, which is not read: to use it, name all columns in "
            f'"columns" of {self.spec.source}'
        )
        for record in records:
            record.values.pop(role, None)

    def _compare_widths(self, path: str, columns: Mapping[str, str | int], width: int) -> None:
        """Refuses negative indices if files without a header differ in the number of columns.

        They would select different columns. In files with a header, `_compare_names` warns.
        """
        last = [role for role, at in columns.items() if isinstance(at, int) and at < 0]
        if self.spec.header is not False or not last:
            return
        other, expected = self._first_width or (path, width)
        self._first_width = other, expected
        if width != expected:
            raise UserError(
                f"{path} has {width} columns, but {other} has {expected}, so column "
                f"{columns[last[0]]} ({last[0]}) is not the same in both: count it from the "
                "front, from 0"
            )

    def _compare_names(
        self, path: str, columns: Mapping[str, str | int], names: Mapping[str, str]
    ) -> None:
        """Warns of a column, given by its index, that has another name in another file."""
        for role, name in names.items():
            if not isinstance(columns[role], int):
                continue
            other, expected = self._first_names.setdefault(role, (path, name))
            if name != expected:
                warn_once(
                    f"{path}: line 1 names column {columns[role]} ({role}) {brief(name)}, but "
                    f"in {other} it is {brief(expected)}: give columns by name if their order "
                    'differs, or set "header" to false if the files have no header'
                )

    def _is_train(self, path: str) -> bool:
        return path in self.spec.candidate_paths(TRAIN, self._raw_data_dir)

    def divide(
        self, strata: Sequence[str | None], groups: Sequence[str] | None, split: str
    ) -> list[int]:
        """Returns the indices of the examples of the train file that are in `split`.

        Args:
            strata: stratum of each example, or None.
            groups: group of each example; None if they are not grouped.
            split: "train" or "dev".

        Raises:
            UserError: there are too few examples.
        """
        if not self.held_out_fraction:
            return list(range(len(strata)))
        try:
            train, dev = hold_out(strata, self.held_out_fraction, self.spec.dev_seed, groups)
        except UserError as error:
            raise UserError(f"{self.path(TRAIN)}: {error}") from error
        return (dev if split == DEV else train).tolist()


def _divide_lists(
    columns: Mapping[str, Column],
) -> tuple[dict[str, str | int], dict[str, list[str]]]:
    """Returns single columns by role, and the roles of the items of each list.

    Item 0 of the role `choices` has the role `choices[0]`.
    """
    single: dict[str, str | int] = {}
    items: dict[str, str | int] = {}
    lists: dict[str, list[str]] = {}
    for role, column in columns.items():
        if isinstance(column, tuple):
            lists[role] = [f"{role}[{index}]" for index in range(len(column))]
            items |= zip(lists[role], column, strict=True)
        else:
            single[role] = column
    return {**single, **items}, lists


def _is_test(split: str) -> bool:
    return split == TEST or split.startswith(f"{TEST}_")


class CustomSource(abc.ABC):
    """Reads the splits of a task from its files.

    Args:
        spec: description of the task.
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
        """Returns the paths that the examples of a split depend on."""
        return self._files.fingerprint_files(split)

    def load(self, split: str, report: DataReport) -> list[Any]:
        """Reads a split; labels of splits to predict are not read.

        Raises:
            UserError: the input is malformed; the message names file and line.
        """
        path = self._files.path(split)
        labeled = self._files.is_labeled(split)
        examples = self.load_file(path, labeled=labeled, report=report)
        if self._files.source_split(split) != TRAIN:
            return examples
        self._check_train(examples, path)
        strata, groups = self._strata(examples), example_groups(examples)
        kept = self._files.divide(strata, groups, split)
        if split == DEV:
            report.add(HELD_OUT, examples=len(kept), of=len(examples))
        elif groups is not None and self._files.held_out_fraction:
            seed = f'"dev_seed" {self._spec.dev_seed}'
            self._check_train([examples[i] for i in kept], f"{path}, without dev ({seed})")
            warn_of_unseen_labels(f"{self._spec.name}: train ({seed})", strata, kept)
        return [dataclasses.replace(examples[i], eid=eid) for eid, i in enumerate(kept)]

    @abc.abstractmethod
    def load_file(self, path: str, *, labeled: bool, report: DataReport) -> list[Any]:
        """Reads any file in the format of the task.

        Args:
            path: path of the file.
            labeled: whether it has labels; otherwise a placeholder is used.
            report: unused; malformed input is an error.

        Raises:
            UserError: the input is malformed; the message names file and line.
        """

    @abc.abstractmethod
    def _check_train(self, examples: Sequence[Any], path: str) -> None:
        """Raises UserError if there is nothing to learn from the train file."""

    def _strata(self, examples: Sequence[Any]) -> list[str | None]:
        """Returns the strata of train and a held-out dev; None for no stratification."""
        return [None] * len(examples)


class Labels:
    """The labels of a task, from its description or its train file.

    Args:
        spec: description of the task.
        names: labels in the order of their ids.
        train_path: file in which the labels were found; None if they were given.
    """

    def __init__(
        self, spec: TaskSpec, names: Iterable[str], train_path: str | None = None
    ) -> None:
        self._spec = spec
        self._train_path = train_path
        self.names = tuple(names)
        if train_path is not None:
            found, self.names = self.names, tuple(sorted(set(self.names), key=_numbers_first))
            warn_of_odd_labels(self.names, len(found), train_path)
        self._known = frozenset(self.names)

    def check(self, label: str, where: str) -> str:
        """Returns the label.

        Args:
            label: label in a file.
            where: file and line.

        Raises:
            UserError: it is unknown.
        """
        if label in self._known:
            return label
        listed = ", ".join(self.names[:20]) + (", ..." if len(self.names) > 20 else "")
        spec, hint = self._spec, alike_label_hint(label, self.names)
        if self._train_path is None:
            raise UserError(
                f"{where}: unknown label {label!r}; task {spec.name!r} has the labels {listed} "
                f'("labels" in {spec.source}){hint}'
            )
        raise UserError(
            f"{where}: label {label!r} is not in {self._train_path}, which has {listed}{hint}; "
            f'correct the line, or list all labels as "labels" in {spec.source}'
        )

    def warn_of_untrained(self, used: Iterable[str], train_path: str) -> None:
        """Warns of labels in the description that no training example has.

        Args:
            used: labels of the examples.
            train_path: the train file.
        """
        missing = sorted(self._known - {*used}, key=self.names.index)
        if self._train_path is None and missing:
            listed = ", ".join(map(repr, missing[:10])) + (", ..." if missing[10:] else "")
            warn_once(
                f'{train_path}: no example has {listed} of the "labels" in '
                f"{self._spec.source}, so the model does not learn to predict them"
            )


def refuse_single_label(
    labels: Sequence[str], train_path: str, of: str = "examples", role: str = "label"
) -> None:
    """Raises UserError if all examples (or words) of a train file have the same label."""
    if len(set(labels)) == 1:
        raise UserError(
            f"{train_path}: all {len(labels)} {of} have the {role} {labels[0]!r}, so there is "
            'nothing to learn; is the right column named in "columns"?'
        )


def _numbers_first(label: str) -> tuple[bool, int, str]:
    """Sort key: integers by value, before all others."""
    # Python refuses to convert thousands of digits.
    is_number = re.fullmatch(r"[+-]?[0-9]{1,19}", label) is not None
    return (not is_number, int(label) if is_number else 0, label)
