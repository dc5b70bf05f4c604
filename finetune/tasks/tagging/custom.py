"""Custom tagging tasks: sentences with one tag per word."""

import functools
from collections.abc import Iterable, Sequence

from electra_tf.text.cached_tokenizer import CachedTokenizer
from electra_tf.util.errors import UserError
from finetune.config.finetuning import FinetuningConfig
from finetune.config.task_kinds import SPAN
from finetune.config.task_spec import TaskSpec
from finetune.data.features import DataReport
from finetune.data.raw_examples import RawExample
from finetune.data.suspicious import warn_of_written_lists
from finetune.tasks.custom_files import GROUP, TRAIN, CustomSource, Labels, refuse_single_label
from finetune.tasks.tagging.examples import TaggingExample, label_tags
from finetune.tasks.tagging.spans import OUTSIDE, bioes_labels, is_tag
from finetune.tasks.tagging.task import TaggingTask


class CustomTaggingSource(CustomSource):
    """Reads the sentences of a tagging task, in conll, jsonl, tsv or csv."""

    @functools.cached_property
    def labels(self) -> tuple[str, ...]:
        """Labels in the order of their ids: the tags, or all BIOES tags for spans.

        Raises:
            UserError: they must be read from train, which is missing or malformed.
        """
        names = self._known.names
        return bioes_labels(names) if self._spec.level == SPAN else names

    def load_file(
        self, path: str, *, labeled: bool, report: DataReport
    ) -> list[TaggingExample]:
        """Reads any file in the format of the task; see `CustomSource`."""
        del report
        examples = self._read(path, labeled=labeled)
        for example in examples if labeled else ():
            for name in self._names(example):
                self._known.check(name, example.where)
        return examples

    def _read(self, path: str, *, labeled: bool) -> list[TaggingExample]:
        roles = ("words", "tags") if labeled else ("words",)
        records = self._files.records(path, roles, optional=("id",))
        pairs = [(each.values["words"], each.values.get("tags")) for each in records]
        if labeled and pairs and all(words == tags for words, tags in pairs):
            raise UserError(
                f"{records[0].where}: words and tags are in the same column, as in all of the "
                "file; are columns separated by tabs (or spaces), and the right ones named in "
                '"columns"?'
            )
        warn_of_written_lists([r.words("words") for r in records], "words", "spaces", path)
        return [_example(eid, record, labeled) for eid, record in enumerate(records)]

    @functools.cached_property
    def _known(self) -> Labels:
        """The tags, or the types of spans."""
        spec = self._spec
        if spec.labels:
            # Labels are either all tags, from which types are derived, or all types. Types such
            # as S-Bahn and E-Mail look like tags, but then no label is a tag that begins a
            # span.
            are_tags = spec.level == SPAN and all(map(is_tag, spec.labels))
            are_tags &= any(x == OUTSIDE or x.startswith(("B-", "I-")) for x in spec.labels)
            names = _types(spec.labels) if are_tags else spec.labels
            is_outside = spec.level == SPAN and OUTSIDE in names
            return Labels(spec, [x for x in names if not (is_outside and x == OUTSIDE)])
        path = self._files.path(TRAIN)
        examples = self._read(path, labeled=True)
        self._check_train(examples, path)
        return Labels(spec, [x for example in examples for x in self._names(example)], path)

    def _names(self, example: TaggingExample) -> Sequence[str]:
        """Returns the tags, or the types of spans; rejects malformed tags."""
        if self._spec.level != SPAN:
            return example.tags
        label_tags(example, SPAN)
        return _types(example.tags)

    def _check_train(self, examples: Sequence[TaggingExample], path: str) -> None:
        names = [name for example in examples for name in self._names(example)]
        if self._spec.level != SPAN:
            refuse_single_label(names, path, of="words", role="tag")
        elif not names:
            raise UserError(
                f"{path}: no word is part of a span, so there is nothing to learn; is the "
                'right column named in "columns"?'
            )
        if self._spec.labels:
            self._known.warn_of_untrained(names, path)


def _types(tags: Iterable[str]) -> tuple[str, ...]:
    """Returns the span types of tags; anything else is a type itself."""
    types = (tag.partition("-")[2] if is_tag(tag) else tag for tag in tags if tag != OUTSIDE)
    return tuple(dict.fromkeys(types))


def _example(eid: int, record: RawExample, labeled: bool) -> TaggingExample:
    words = record.words("words")
    tags = record.words("tags") if labeled else []
    if labeled and len(tags) != len(words):
        raise UserError(
            f"{record.where}: {len(words)} words but {len(tags)} tags; each word needs a tag"
        )
    return TaggingExample(
        eid, tuple(words), tuple(tags), record.where, record.name("id"), record.group(GROUP)
    )


def make_custom_tagging_task(
    config: FinetuningConfig, spec: TaskSpec, tokenizer: CachedTokenizer
) -> TaggingTask:
    """Returns a task with the labels in the description, or those of the train file."""
    source = CustomTaggingSource(spec, config)
    return TaggingTask(
        config,
        spec.name,
        tokenizer,
        source,
        labels=source.labels,
        level=spec.level,
        main_metric=spec.metric,
    )
