"""Tagging of words and of spans.

Words beyond `max_seq_length` have no prediction, but the metrics include them: their spans
count as missed and their tags as wrong; only "accuracy_seen" excludes them. With
`authors_tagging_truncation`, they are also removed from the gold labels.
"""

import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import keras
import numpy as np

from electra_tf.config.encoder import EncoderConfig
from electra_tf.text.cached_tokenizer import CachedTokenizer
from electra_tf.util.errors import UserError, nearest_name_hint
from finetune.config.finetuning import FinetuningConfig
from finetune.config.task_kinds import LEVELS, SPAN, TAGGING, TOKEN
from finetune.data.features import DataReport, FeatureSpec, Row
from finetune.results.worst_errors import PredictionError
from finetune.tasks.averages import mean_of_softmax
from finetune.tasks.base import MAX_CONFUSION_LABELS, Outputs, Scores, SplitData
from finetune.tasks.sources import ExampleSource, SourceTask
from finetune.tasks.tagging.examples import (
    ConllSource,
    TaggingExample,
    collect_labels,
    label_tags,
)
from finetune.tasks.tagging.featurize import tagging_rows
from finetune.tasks.tagging.head import TaggingHead
from finetune.tasks.tagging.metrics import span_metrics, token_accuracy
from finetune.tasks.tagging.spans import (
    BIO,
    OUTSIDE,
    is_tag,
    span_tags,
    tag_spans,
)


class TaggingTask(SourceTask):
    """Tags of words, or spans of words.

    Args:
        config: hyperparameters.
        name: name of the task.
        tokenizer: tokenizer of the pre-trained model.
        source: source of the sentences.
        labels: labels in the order of their ids: the tags, or BIOES tags for the level "span"
            (see `finetune.tasks.tagging.spans.bioes_labels`).
        level: unit of the metrics, "span" or "token".
        main_metric: one of `kind.main_metrics(level)`; None chooses the first one.
    """

    kind = TAGGING
    average = staticmethod(mean_of_softmax)

    def __init__(
        self,
        config: FinetuningConfig,
        name: str,
        tokenizer: CachedTokenizer,
        source: ExampleSource,
        *,
        labels: Sequence[str],
        level: str = SPAN,
        main_metric: str | None = None,
    ) -> None:
        super().__init__(config, name, tokenizer, source)
        if level not in LEVELS:
            raise UserError(f"The level of task {name!r} must be span or token, not {level!r}")
        metrics = self.kind.main_metrics(level)
        self.main_metric = main_metric or metrics[0]
        if self.main_metric not in metrics:
            raise UserError(
                f"The metric of task {name!r}, whose level is {level}, must be "
                f"{' or '.join(metrics)}, not {self.main_metric!r}"
            )
        self.level = level
        self.labels = tuple(labels)
        self._ids = {label: i for i, label in enumerate(self.labels)}

    @classmethod
    def saved_head(
        cls,
        name: str,
        hidden_size: int,
        shapes: Mapping[str, Sequence[int]],
        dtype: keras.DTypePolicy,
    ) -> TaggingHead:
        """Returns a new head with as many tags as the saved one."""
        return TaggingHead(hidden_size, shapes["dense/bias"][0], dtype, name)

    @classmethod
    def describe_arrays(
        cls, arrays: Mapping[str, np.ndarray], labels: Sequence[str]
    ) -> dict[str, Any]:
        """Returns the description; tags of spans, such as B-PER, imply the level "span"."""
        are_spans = all(map(is_tag, labels)) and any(label != OUTSIDE for label in labels)
        level = SPAN if are_spans else TOKEN
        return {"kind": cls.kind.name, "labels": list(labels), "level": level}

    @property
    def feature_specs(self) -> tuple[FeatureSpec, ...]:
        """Index of the sentence, and for each word: label, 1, and position."""
        return (
            FeatureSpec(f"{self.name}_eid"),
            FeatureSpec(f"{self.name}_labels", per_token=True),
            FeatureSpec(f"{self.name}_labels_mask", "float32", per_token=True),
            FeatureSpec(f"{self.name}_labeled_positions", per_token=True),
        )

    @property
    def description(self) -> dict[str, Any]:
        """ "kind", "labels" and "level"."""
        return {"kind": self.kind.name, "labels": list(self.labels), "level": self.level}

    def label_ids(self, example: TaggingExample) -> list[int]:
        """Returns the label id of each word; 0 if the example has no tags.

        Raises:
            UserError: a tag is not in `labels`.
        """
        tags = label_tags(example, self.level)
        for tag in tags:
            if tag not in self._ids:
                raise UserError(
                    f"{example.where}: unknown tag {tag!r}; the tags are "
                    f"{', '.join(self.labels)}.{nearest_name_hint(tag, self.labels)}"
                )
        return [self._ids[tag] for tag in tags] or [0] * len(example.words)

    def featurize(
        self, examples: Sequence[TaggingExample], *, is_training: bool, report: DataReport
    ) -> list[Row]:
        """Returns one row per sentence."""
        del is_training
        return tagging_rows(
            self.name,
            examples,
            [self.label_ids(example) for example in examples],
            self.tokenizer,
            self.config.max_seq_length,
            report,
            authors_truncation=self.config.authors_tagging_truncation,
        )

    def build_head(
        self, encoder_config: EncoderConfig, dtype: keras.DTypePolicy
    ) -> TaggingHead:
        """Returns a new head with `len(labels)` outputs per word."""
        return TaggingHead(encoder_config.hidden_size, len(self.labels), dtype, self.name)

    def score(self, data: SplitData, outputs: Sequence[Outputs]) -> Scores:
        """Returns accuracy and the loss per word; for spans also precision, recall and F1.

        The level "token" has a confusion matrix, over the words with a prediction.
        """
        seen_gold = [self._tags(row[f"{self.name}_labels"]) for row in data.rows]
        seen = self._predicted(data, outputs)
        gold, predicted = seen_gold, seen
        if not self.config.authors_tagging_truncation:
            gold = [label_tags(example, self.level) for example in data.examples]
            predicted = [
                tags + [None] * (len(gold_tags) - len(tags))
                for gold_tags, tags in zip(gold, seen, strict=True)
            ]
        metrics: dict[str, float] = {}
        if self.level == SPAN:
            metrics = span_metrics(
                gold, [[tag or OUTSIDE for tag in tags] for tags in predicted]
            )
        metrics["accuracy"] = token_accuracy(gold, predicted)
        metrics["accuracy_seen"] = token_accuracy(seen_gold, seen)
        num_words = sum(len(tags) for tags in seen)
        losses = [output["loss"] for output in outputs]
        metrics["loss"] = float(np.sum(losses, dtype=np.float64)) / max(num_words, 1)
        if self.level == SPAN:
            return Scores(metrics, self.main_metric)
        if len(self.labels) > MAX_CONFUSION_LABELS:
            return Scores(metrics, self.main_metric, labels=self.labels)
        confusion = np.zeros((len(self.labels), len(self.labels)), np.int64)
        for gold_tags, tags in zip(seen_gold, seen, strict=True):
            for gold_tag, tag in zip(gold_tags, tags, strict=True):
                confusion[self._ids[gold_tag], self._ids[tag]] += 1
        return Scores(metrics, self.main_metric, confusion, self.labels)

    def predictions(self, data: SplitData, outputs: Sequence[Outputs]) -> list[dict]:
        """Returns "eid", "id" (if any), "words", "tags" and, for spans, "spans".

        Tags are BIO for the level "span", and None for words beyond `max_seq_length`. A span
        has "start" and "end" (index of the last word), "type" and "text".
        """
        found = []
        for example, tags in zip(data.examples, self._predicted(data, outputs), strict=True):
            prediction: dict = {"eid": example.eid}
            if example.guid is not None:
                prediction["id"] = example.guid
            prediction["words"] = list(example.words)
            if self.level == SPAN:
                spans = tag_spans(tags)
                tags = span_tags(spans, len(tags), BIO)
                prediction["spans"] = [
                    {
                        "start": span.start,
                        "end": span.end,
                        "type": span.kind,
                        "text": " ".join(example.words[span.start : span.end + 1]),
                    }
                    for span in spans
                ]
            unseen: list[str | None] = [None] * (len(example.words) - len(tags))
            prediction["tags"] = tags + unseen
            found.append(prediction)
        return found

    def errors(self, data: SplitData, outputs: Sequence[Outputs]) -> list[PredictionError]:
        """Returns the sentences with a wrong tag; only these words are named."""
        found = []
        predicted = self._predicted(data, outputs)
        for example, row, tags, output in zip(
            data.examples, data.rows, predicted, outputs, strict=True
        ):
            gold = self._tags(row[f"{self.name}_labels"])
            wrong = [i for i, tag in enumerate(tags) if tag != gold[i]]
            if wrong:
                named = (
                    ", ".join(f"{example.words[i]}: {each[i]}" for i in wrong)
                    for each in (gold, tags)
                )
                loss = float(np.sum(output["loss"]))
                found.append(PredictionError(" ".join(example.words), *named, loss))
        return found

    def single_label(self, data: SplitData) -> str | None:
        """Returns the tag that all words have, or None."""
        tags = {tag for example in data.examples for tag in example.tags}
        return f"{tags.pop()!r} on all words" if len(tags) == 1 else None

    def degenerate(self, data: SplitData, outputs: Sequence[Outputs]) -> str | None:
        """Returns a message if there are several tags, but only one is predicted."""
        rows = (row[f"{self.name}_labels"] for row in data.rows)
        gold = {tag for row in rows for tag in self._tags(row)}
        predicted = {tag for tags in self._predicted(data, outputs) for tag in tags}
        if len(predicted) > 1 or len(gold) < 2:
            return None
        return f"predicts one tag only ({', '.join(predicted) or 'none'})"

    def _tags(self, label_ids: np.ndarray) -> list[str]:
        return [self.labels[i] for i in label_ids]

    def _predicted(self, data: SplitData, outputs: Sequence[Outputs]) -> list[list[str]]:
        """Returns the predicted label of each word in the features."""
        return [
            self._tags(output["predictions"][: len(row[f"{self.name}_labeled_positions"])])
            for row, output in zip(data.rows, outputs, strict=True)
        ]


class _Layout(NamedTuple):
    level: str
    tag_column: int


_TASKS = {
    # CoNLL-2000 (Tjong Kim Sang and Buchholz 2000): word, part of speech, chunk.
    "chunk": _Layout(SPAN, -1),
    # CoNLL-2003 (Tjong Kim Sang and De Meulder 2003): word, part of speech, chunk, entity.
    "ner": _Layout(SPAN, -1),
    # Part of speech, the second column of both.
    "pos": _Layout(TOKEN, 1),
}


def make_tagging_task(
    config: FinetuningConfig, name: str, tokenizer: CachedTokenizer
) -> TaggingTask:
    """Returns a built-in task, with the labels of all its files.

    Raises:
        UserError: a file is missing or malformed.
    """
    level, tag_column = _TASKS[name]
    directory = os.path.join(config.raw_data_dir, name)
    files = {s: os.path.join(directory, f"{s}.txt") for s in ("train", "dev", "test")}
    source = ConllSource(files, tag_column)
    labels = collect_labels(source, level)
    return TaggingTask(config, name, tokenizer, source, labels=labels, level=level)
