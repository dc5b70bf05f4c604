"""Sentences with one tag per word, and CoNLL files."""

import dataclasses
import os
from collections.abc import Mapping

from electra_tf.util.errors import UserError
from finetune.config.task_kinds import TOKEN
from finetune.data.features import DataReport
from finetune.data.file_readers import read_records
from finetune.data.raw_examples import RawExample
from finetune.tasks.base import TRAIN, missing_split_error
from finetune.tasks.tagging.spans import BIOES, is_tag, span_tags, tag_spans


@dataclasses.dataclass(frozen=True)
class TaggingExample:
    """One sentence.

    Attributes:
        eid: index within its split, from 0.
        words: at least one.
        tags: tags as in the file, one per word; empty if there are none.
        where: file and line, for errors.
        guid: id of the example in its file, if any.
        group: group of the example in folds and held-out splits, if any.
    """

    eid: int
    words: tuple[str, ...]
    tags: tuple[str, ...]
    where: str = ""
    guid: str | None = None
    group: str | None = None


class ConllSource:
    """Files of the CoNLL tasks: one word per line, blank lines between sentences.

    Columns are separated by spaces or tabs; lines with the word -DOCSTART- also separate
    sentences. See `finetune.tasks.sources.ExampleSource`.

    Args:
        files: paths by split.
        tag_column: index of the tag, from the end if negative; the word is in column 0.
    """

    has_pairs = False

    def __init__(self, files: Mapping[str, str], tag_column: int = -1) -> None:
        self.dev_splits = ("dev",)
        self.test_splits = ("test",)
        self.files = dict(files)
        self._tag_column = tag_column

    def split_files(self, split: str) -> list[str]:
        """Returns the path of a split's file."""
        if split not in self.files:
            raise missing_split_error(split, self.files)
        return [self.files[split]]

    def load(self, split: str, report: DataReport) -> list[TaggingExample]:
        """Reads a split; test files may lack tags.

        Raises:
            UserError: the file is missing, empty or not UTF-8, or its lines have different
                numbers of columns.
        """
        (path,) = self.split_files(split)
        if not os.path.isfile(path):
            raise UserError(
                f"No such file: {path} (the {split} split); see --data_dir and --raw_data_dir"
            )
        examples = self._read(path, labeled=True)
        if split not in self.test_splits and not examples[0].tags:
            raise UserError(
                f"{examples[0].where}: 1 column, the word; expected a column of tags after it"
            )
        return examples

    def load_file(
        self, path: str, *, labeled: bool, report: DataReport
    ) -> list[TaggingExample]:
        """Reads any file; if unlabeled, only the column of words."""
        return self._read(path, labeled=labeled)

    def _read(self, path: str, *, labeled: bool) -> list[TaggingExample]:
        # In a file with words only, column -1 is the column of words.
        columns = {"words": 0, "second": 1, "tags": self._tag_column}
        records = read_records(
            path,
            file_format="conll",
            columns=columns if labeled else {"words": 0},
            optional=("second", "tags"),
        )
        return [_example(eid, record) for eid, record in enumerate(records)]


def _example(eid: int, record: RawExample) -> TaggingExample:
    has_tags = "second" in record.values
    tags = tuple(record.values["tags"]) if has_tags else ()
    where = f"{record.path}, sentence at {record.unit} {record.line}"
    return TaggingExample(eid, tuple(record.values["words"]), tags, where)


def label_tags(example: TaggingExample, level: str) -> list[str]:
    """Returns the label of each word: its tag, converted to BIOES for spans.

    An example without tags has no labels.

    Raises:
        UserError: a tag is malformed.
    """
    if level == TOKEN or not example.tags:
        return list(example.tags)
    for word, tag in zip(example.words, example.tags, strict=True):
        if not is_tag(tag):
            raise UserError(
                f"{example.where}: the tag {tag!r} of the word {word!r} must be O, or B-, I-, "
                "E- or S- with the type of a span; for other tags, set the level of the task "
                'to "token"'
            )
    return span_tags(tag_spans(example.tags), len(example.tags), BIOES)


def collect_labels(source: ConllSource, level: str) -> tuple[str, ...]:
    """Returns the sorted labels of all files; dev and test files may be missing.

    Raises:
        UserError: a file is malformed.
    """
    labels: set[str] = set()
    for split, path in source.files.items():
        if split == TRAIN or os.path.exists(path):
            for example in source.load(split, DataReport("", split)):
                labels.update(label_tags(example, level))
    return tuple(sorted(labels))
