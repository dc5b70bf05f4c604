"""Custom question-answering tasks."""

import dataclasses
import functools
from typing import Any

from electra_tf.text.cached_tokenizer import CachedTokenizer
from electra_tf.util.console import warn_once
from electra_tf.util.errors import UserError
from finetune.config.finetuning import FinetuningConfig
from finetune.config.task_spec import TaskSpec
from finetune.data.features import DataReport
from finetune.data.folds import example_groups
from finetune.data.raw_examples import RawExample
from finetune.tasks.base import Outputs, Scores, SplitData
from finetune.tasks.custom_files import DEV, GROUP, HELD_OUT, TRAIN, TaskFiles
from finetune.tasks.qa.examples import Context, GivenAnswer, QAExample, QuestionCollector
from finetune.tasks.qa.readers import MRQA_SUFFIXES, read_questions
from finetune.tasks.qa.task import QATask


class CustomQATask(QATask):
    """Questions from files in SQuAD's or MRQA's format, or with one question per record.

    Args:
        config: hyperparameters.
        spec: description of the task.
        tokenizer: tokenizer of the pre-trained model.

    Raises:
        UserError: train must be read, to detect unanswerable questions, but cannot be read.
    """

    def __init__(
        self, config: FinetuningConfig, spec: TaskSpec, tokenizer: CachedTokenizer
    ) -> None:
        self._spec = spec
        self._own_files = TaskFiles(spec, config)
        self._authors_answer_check = config.authors_qa_answer_check
        if config.do_train and all(e.is_impossible for e in self._train_to_evaluate):
            raise UserError(
                f"{self._own_files.path(TRAIN)}: no question has an answer, so there is "
                'nothing to learn; is the right column named in "columns"?'
            )
        v2 = spec.unanswerable
        if v2 is None:
            v2 = any(example.is_impossible for example in self._train_to_evaluate)
        super().__init__(config, spec.name, tokenizer, v2=v2, files={})

    @property
    def dev_splits(self) -> tuple[str, ...]:
        """Splits to evaluate on; the first one selects checkpoints."""
        return self._own_files.dev_splits

    @property
    def test_splits(self) -> tuple[str, ...]:
        """Splits to predict."""
        return self._own_files.test_splits

    def split_files(self, split: str) -> list[str]:
        """Returns the paths that the examples of a split depend on."""
        return self._own_files.fingerprint_files(split)

    def _load(self, split: str, report: DataReport, *, is_training: bool) -> list[QAExample]:
        """Reads a split; a held-out dev shares no context (or group) with train."""
        path = self._own_files.path(split)
        examples = self._read(
            path,
            report,
            v2=self.v2,
            is_training=is_training,
            labeled=self._own_files.is_labeled(split),
        )
        if self._own_files.source_split(split) == TRAIN:
            everything = self._train_to_evaluate
            kept = self._own_files.divide(
                [None] * len(everything), example_groups(everything), split
            )
            groups = {everything[i].group for i in kept}
            count = len(examples)
            examples = [e for e in examples if e.group in groups]
            if split == DEV:
                report.add(HELD_OUT, examples=len(examples), of=count)
        return [dataclasses.replace(e, eid=eid) for eid, e in enumerate(examples)]

    def score(self, data: SplitData, outputs: list[Outputs]) -> Scores:
        """Returns the official metrics; the description may name the main one."""
        scores = super().score(data, outputs)
        main = self._spec.metric
        if main == "exact_match" and main not in scores.metrics:
            main = "exact"  # its name in SQuAD 2.0
        return dataclasses.replace(scores, main=main)

    @functools.cached_property
    def _train_to_evaluate(self) -> list[QAExample]:
        """All questions of the train file, including those that training drops."""
        path = self._own_files.path(TRAIN)
        report = DataReport(self._spec.name, TRAIN)
        return self._read(path, report, v2=True, is_training=False, labeled=True)

    def _read(
        self, path: str, report: DataReport, *, v2: bool, is_training: bool, labeled: bool
    ) -> list[QAExample]:
        collector = QuestionCollector(
            report,
            v2=v2,
            is_training=is_training,
            labeled=labeled,
            authors_answer_check=self._authors_answer_check,
            within_words=not self._authors_answer_check,
        )
        file_format = self._own_files.format_of(path)
        if file_format in ("squad", "mrqa"):
            if self._spec.group_column is not None:
                raise UserError(
                    f'{self._spec.source}: "group_column" is for tables; the questions of a '
                    f"{file_format} file are grouped by paragraph"
                )
            if self._spec.columns:
                warn_once(
                    f'{path}: "columns" of {self._spec.source} has no effect: a {file_format} '
                    "file has none"
                )
            if (file_format == "mrqa") != path.endswith(MRQA_SUFFIXES):
                expected = " or ".join(MRQA_SUFFIXES)
                raise UserError(
                    f"{path}: MRQA files, and no others, end in {expected}; "
                    f'"format" of task {self._spec.name!r} is {file_format}'
                )
            read_questions(path, collector)
        else:
            self._read_records(path, collector, labeled=labeled)
        if not collector.examples:
            reasons = ", ".join(report.counts())
            raise UserError(
                f"{path} contains no usable question{f': {reasons}' if reasons else ''}"
            )
        return collector.examples

    def _read_records(self, path: str, collector: QuestionCollector, *, labeled: bool) -> None:
        roles = ("question", "context", "answers")
        optional = ("answer_start", "id") if labeled else ("answers", "answer_start", "id")
        contexts: dict[str, Context] = {}
        for record in self._own_files.records(path, roles, optional):
            text = record.text("context")
            answers = _answers(record)
            collector.add(
                contexts.setdefault(text, Context(text)),
                qas_id=record.name("id") or f"{record.unit} {record.line}",
                question=record.text("question"),
                answers=[answer.text for answer in answers],
                located=answers[0] if answers else None,
                others=() if self._authors_answer_check else answers[1:],
                is_impossible=not answers,
                group=record.group(GROUP),
            )


def _answers(record: RawExample) -> list[GivenAnswer]:
    """Returns the answers of a record, in any common format.

    The formats are: a text (empty for no answer), a list of texts, a list of objects with
    "text" and "answer_start", or an object with lists of both.
    """
    value = record.values.get("answers", [])
    if isinstance(value, dict):
        texts, starts = value.get("text"), value.get("answer_start")
        if not isinstance(texts, list) or not isinstance(starts, list | None):
            raise _wrong_answers(record)
        starts = [None] * len(texts) if starts is None else starts
        if len(starts) != len(texts):
            raise _wrong_answers(record)
        found = list(zip(texts, starts, strict=True))
    elif isinstance(value, str):
        found = [(value, record.values.get("answer_start"))] if value.strip() else []
    elif isinstance(value, list):
        found = [
            (a.get("text"), a.get("answer_start")) if isinstance(a, dict) else (a, None)
            for a in value
        ]
        if found and found[0][1] is None:
            found[0] = (found[0][0], record.values.get("answer_start"))
    else:
        raise _wrong_answers(record)
    return [GivenAnswer(_text(record, text), _offset(record, at)) for text, at in found]


def _text(record: RawExample, text: Any) -> str:
    if not isinstance(text, str) or not text.strip():
        raise _wrong_answers(record)
    return text


def _offset(record: RawExample, value: Any) -> int | None:
    if value is None or value == "":
        return None
    is_number = type(value) is int or (isinstance(value, str) and value.strip().isdecimal())
    if not is_number or int(value) < 0:
        raise UserError(
            f"{record.where}: answer_start must be the index of a character of the context, "
            f"not {value!r}"
        )
    return int(value)


def _wrong_answers(record: RawExample) -> UserError:
    return UserError(
        f"{record.where}: answers must be a text, a list of texts, or a list of objects with "
        f'"text" and "answer_start", not {record.values["answers"]!r:.80}'
    )
