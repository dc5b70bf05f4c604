"""Examples of text tasks, and their features."""

import dataclasses
import math
from collections.abc import Callable, Sequence

import numpy as np

from electra_tf.text.cached_tokenizer import CachedTokenizer
from electra_tf.text.framing import NUM_SPECIAL, Framed, frame, truncated_lengths
from electra_tf.util.errors import nearest_name_hint
from finetune.data.features import INPUT_IDS, SEGMENT_IDS, DataReport, Row

# A class, several classes, or a number.
Label = str | tuple[str, ...] | float
# Parses a label; raises ValueError with the reason if it is invalid.
LabelParser = Callable[[str], Label]
TRUNCATED = "text truncated"
NO_TOKENS = "text without visible characters, read as empty"


@dataclasses.dataclass(frozen=True)
class InputExample:
    """One text or pair of texts.

    Attributes:
        eid: index of its row or record within its split, from 0.
        text_a: the text.
        text_b: the second text; None or empty if there is none.
        label: a class (classification), classes (multilabel) or a number (regression); a
            placeholder for unlabeled examples.
        guid: id of the example in its file, if any.
        group: group of the example in folds and held-out splits, if any.
    """

    eid: int
    text_a: str
    text_b: str | None
    label: Label
    guid: str | None = None
    group: str | None = None


def class_label(labels: Sequence[str]) -> LabelParser:
    """Returns a parser that accepts one of `labels`, and raises ValueError otherwise."""

    def parse(text: str) -> str:
        if text not in labels:
            raise ValueError(
                f"unknown label {text!r}; the labels are {', '.join(labels)}."
                f"{nearest_name_hint(text, labels)}"
            )
        return text

    return parse


def number_label(min_label: float, max_label: float) -> LabelParser:
    """Returns a parser that accepts a number from `min_label` to `max_label`.

    It raises ValueError otherwise.
    """

    def parse(text: str) -> float:
        try:
            number = float(text)
        except ValueError:
            number = math.nan
        if not min_label <= number <= max_label:
            raise ValueError(
                f"the label must be a number from {min_label:g} to {max_label:g}, not {text!r}"
            )
        return number

    return parse


def text_rows(
    task_name: str,
    examples: Sequence[InputExample],
    tokenizer: CachedTokenizer,
    max_seq_length: int,
    report: DataReport,
) -> list[Row]:
    """Returns `input_ids`, `segment_ids` and `<task>_eid` of each example.

    Long texts are truncated at the end, the longer one of a pair first; `report` counts
    them, and texts without tokens. Both vectors are int32 [tokens], without padding.
    """
    ids_a = tokenizer.tokenize([example.text_a for example in examples])
    ids_b = tokenizer.tokenize([example.text_b or "" for example in examples])
    rows = []
    for example, a, b in zip(examples, ids_a, ids_b, strict=True):
        report_lost_texts(example, a, b, report)
        # As in the authors' code, a second text without tokens adds no segment.
        room = max_seq_length - NUM_SPECIAL[2 if len(b) else 1]
        keep_a, keep_b = truncated_lengths(len(a), len(b), room)
        if (keep_a, keep_b) != (len(a), len(b)):
            report.add(TRUNCATED, eid=example.eid, tokens=len(a) + len(b), kept=room)
        framed = frame(tokenizer.vocabulary, a[:keep_a], b[:keep_b] if len(b) else None)
        rows.append(framed_row(task_name, example, framed))
    return rows


def framed_row(task_name: str, example: InputExample, framed: Framed) -> Row:
    """Returns `input_ids`, `segment_ids` and `<task>_eid` of framed texts of an example."""
    return {
        INPUT_IDS: np.array(framed.input_ids, np.int32),
        SEGMENT_IDS: np.array(framed.segment_ids, np.int32),
        f"{task_name}_eid": example.eid,
    }


def report_lost_texts(
    example: InputExample, ids_a: np.ndarray, ids_b: np.ndarray, report: DataReport
) -> None:
    """Reports an example with a text that consists of characters that the tokenizer drops.

    Such characters are U+200B and emoji newer than the tokenizer's tables.
    """
    texts = ((example.text_a, ids_a), (example.text_b or "", ids_b))
    if any(text.strip() and not len(ids) for text, ids in texts):
        report.add(NO_TOKENS, eid=example.eid)
