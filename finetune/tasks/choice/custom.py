"""Custom multiple-choice tasks: texts with choices, in tsv, csv, jsonl or Parquet."""

import functools
import string
from collections.abc import Sequence
from typing import Any, NamedTuple

from electra_tf.text.cached_tokenizer import CachedTokenizer
from electra_tf.util.errors import UserError
from finetune.config.finetuning import FinetuningConfig
from finetune.config.task_spec import TaskSpec
from finetune.data.features import DataReport
from finetune.data.raw_examples import RawExample, brief
from finetune.data.suspicious import warn_of_counting_from_one
from finetune.tasks.choice.examples import ChoiceExample
from finetune.tasks.choice.task import ChoiceTask
from finetune.tasks.custom_files import GROUP, TRAIN, CustomSource

_CHOICES = "choices"
_LETTERS = tuple(string.ascii_uppercase)
# Keys of choices given as a JSON object, as in the datasets ARC and CommonsenseQA.
_TEXTS, _NAMES = "text", "label"


class _Choices(NamedTuple):
    """The choices of a record, and their names if the file has them."""

    texts: tuple[str, ...]
    names: tuple[str, ...] | None


class ChoiceSource(CustomSource):
    """Reads texts with choices.

    Args:
        spec: description of the task.
        config: hyperparameters.

    Attributes:
        has_question: whether there is a column of questions.
    """

    def __init__(self, spec: TaskSpec, config: FinetuningConfig) -> None:
        super().__init__(spec, config)
        self.has_question = "question" in spec.columns

    @functools.cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the choices in order, as many as the largest number of choices.

        They come from the description, or else from the train file: 0, 1, ... or A, B, ...,
        depending on the label of its first example without names; if all examples have names,
        the longest list of them.

        Raises:
            UserError: the train file is needed, but it is missing or malformed.
        """
        if self._spec.labels:
            return self._spec.labels
        path = self._files.path(TRAIN)
        records = self._records(path, labeled=True)
        choices = [self._choices(record) for record in records]
        longest = max(choices, key=lambda each: len(each.texts))
        count = len(longest.texts)
        nameless = [
            record for record, each in zip(records, choices, strict=True) if each.names is None
        ]
        if not nameless:
            return longest.names
        if nameless[0].label("label") not in _LETTERS:
            return tuple(str(index) for index in range(count))
        if count > len(_LETTERS):
            raise UserError(
                f"{path}: {count} choices exceed the letters A to Z: name them as "
                f'"labels" in {self._spec.source}'
            )
        return _LETTERS[:count]

    def load_file(self, path: str, *, labeled: bool, report: DataReport) -> list[ChoiceExample]:
        """Reads any file in the format of the task; see `CustomSource`."""
        del report
        examples = []
        for eid, record in enumerate(self._records(path, labeled=labeled)):
            choices = self._choices(record)
            if len(choices.texts) > len(self.names):
                raise UserError(
                    f"{record.where}: {len(choices.texts)} choices, but task "
                    f"{self._spec.name!r} has at most {len(self.names)} "
                    f'({", ".join(self.names)}); name more of them as "labels" in '
                    f"{self._spec.source}"
                )
            examples.append(
                ChoiceExample(
                    eid=eid,
                    text=record.text("text"),
                    question=_question(record) if self.has_question else None,
                    choices=choices.texts,
                    label=self._label(record, choices) if labeled else 0,
                    names=choices.names,
                    guid=record.name("id"),
                    group=record.group(GROUP),
                )
            )
        return examples

    def _label(self, record: RawExample, choices: _Choices) -> int:
        """Returns the index of the right choice."""
        label = record.label("label")
        names = choices.names or self.names[: len(choices.texts)]
        if label in names:
            return names.index(label)
        hint = ""
        if choices.names is None and not self._spec.labels:
            hint = (
                f'; if they have other names, such as 1, 2, ..., list these as "labels" in '
                f"{self._spec.source}"
            )
        raise UserError(
            f"{record.where}: label {label!r} is not one of its {len(names)} choices, "
            f"{', '.join(names)}{hint}"
        )

    def _choices(self, record: RawExample) -> _Choices:
        value = record.values[_CHOICES]
        names = None
        if isinstance(value, dict):
            names, value = _names_of(record, value), value.get(_TEXTS)
        if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
            raise UserError(
                f"{record.where}: choices must be a list of strings, not {brief(value)}; if "
                f"there is a column for each, list them as the column of {_CHOICES!r} "
                f"({self._spec.source})"
            )
        if isinstance(self._spec.columns.get(_CHOICES), tuple):
            # Columns of an example with fewer choices are empty at the end.
            while value and not value[-1].strip():
                value = value[:-1]
        for index, text in enumerate(value):
            if not text.strip():
                raise UserError(f"{record.where}: choice {index + 1} is empty")
        if len(value) < 2:
            raise UserError(
                f"{record.where}: an example needs at least 2 choices, not {len(value)}; add "
                f"some or remove the {record.unit}"
            )
        if names is not None and len(names) != len(value):
            raise UserError(
                f"{record.where}: choices have {len(value)} texts, but {len(names)} labels"
            )
        return _Choices(tuple(value), names)

    def _check_train(self, examples: Sequence[ChoiceExample], path: str) -> None:
        """Accepts all: the head does not see the position of a choice."""
        if not self._spec.labels and not any(example.names for example in examples):
            labels = [example.label for example in examples]
            warn_of_counting_from_one(labels, self.names, path, self._spec.source)

    def _records(self, path: str, *, labeled: bool) -> list[RawExample]:
        roles = ["text", _CHOICES]
        if labeled:
            roles.append("label")
        if self.has_question:
            roles.append("question")
        return self._files.records(path, roles, optional=("id",))


def _question(record: RawExample) -> str:
    """Returns the question of a record, which may be blank."""
    value = record.values["question"]
    return "" if isinstance(value, str) and not value.strip() else record.text("question")


def _names_of(record: RawExample, value: dict[str, Any]) -> tuple[str, ...] | None:
    """Returns the names in choices that are given as an object of texts and names."""
    if not set(value) <= {_TEXTS, _NAMES}:
        raise UserError(
            f"{record.where}: choices must be a list of strings, or an object with the lists "
            f'"{_TEXTS}" and "{_NAMES}", not {brief(value)}'
        )
    names = value.get(_NAMES)
    if names is None:
        return None
    is_valid = isinstance(names, list) and all(isinstance(n, str) and n.strip() for n in names)
    if not is_valid or len(set(names)) < len(names):
        raise UserError(
            f'{record.where}: "{_NAMES}" of the choices must be a list of different strings, '
            f"not {brief(names)}"
        )
    return tuple(name.strip() for name in names)


def make_custom_choice_task(
    config: FinetuningConfig, spec: TaskSpec, tokenizer: CachedTokenizer
) -> ChoiceTask:
    """Returns a task with the choices in the description, or those of the train file."""
    source = ChoiceSource(spec, config)
    return ChoiceTask(
        config,
        spec.name,
        tokenizer,
        source,
        labels=source.names,
        has_question=source.has_question,
    )
