"""Counters of rows: lengths, segments, tokens and duplicates."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from electra_tf.text.framing import INPUT_IDS, INPUT_MASK, SEGMENT_IDS
from electra_tf.text.vocabulary import Vocabulary

_MAX_BINS = 16
_QUANTILES = {"p05": 0.05, "median": 0.5, "p95": 0.95}


def _zeros() -> np.ndarray:
    return np.zeros(1, np.int64)


@dataclasses.dataclass
class RecordCounts:
    """Counts of the rows of a file, or of several.

    Attributes:
        num_records: number of rows.
        num_slots: number of positions, with padding.
        lengths: number of rows by number of tokens, without padding.
        first_segments, second_segments: number of rows by number of tokens in a segment,
            without [CLS] and [SEP]; rows of one segment are not in the second.
        tokens: number of occurrences of every id, without padding; int64 [vocabulary].
        duplicates: number of rows that equal an earlier one, in any file.
        skipped: number of damaged records.
    """

    num_records: int = 0
    num_slots: int = 0
    lengths: np.ndarray = dataclasses.field(default_factory=_zeros)
    first_segments: np.ndarray = dataclasses.field(default_factory=_zeros)
    second_segments: np.ndarray = dataclasses.field(default_factory=_zeros)
    tokens: np.ndarray = dataclasses.field(default_factory=_zeros)
    duplicates: int = 0
    skipped: int = 0

    def add_batch(self, batch: Mapping[str, np.ndarray], vocabulary: Vocabulary) -> None:
        """Counts the rows of a batch: `input_ids`, `input_mask`, `segment_ids` [n, length]."""
        ids = batch[INPUT_IDS]
        real = batch[INPUT_MASK] > 0
        text = real & (ids != vocabulary.cls_id) & (ids != vocabulary.sep_id)
        second = batch[SEGMENT_IDS] == 1
        has_second = (real & second).any(axis=1)
        self.num_records += len(ids)
        self.num_slots += ids.size
        self.lengths = _sum(self.lengths, np.bincount(real.sum(axis=1)))
        first_lengths = (text & ~second).sum(axis=1)
        self.first_segments = _sum(self.first_segments, np.bincount(first_lengths))
        second_lengths = (text & second).sum(axis=1)[has_second]
        self.second_segments = _sum(self.second_segments, np.bincount(second_lengths))
        counts = np.bincount(ids[real], minlength=vocabulary.size)
        self.tokens = _sum(self.tokens, counts)

    def add(self, other: "RecordCounts") -> None:
        """Adds the counts of other rows."""
        for field in dataclasses.fields(self):
            mine, theirs = getattr(self, field.name), getattr(other, field.name)
            both = _sum(mine, theirs) if isinstance(mine, np.ndarray) else mine + theirs
            setattr(self, field.name, both)

    def to_dict(self, vocabulary: Vocabulary, num_frequent: int) -> dict[str, Any]:
        """Returns the statistics as JSON values; fractions are from 0 to 1, or None of nothing.

        An unknown word is one token, so the number of [UNK] is that of unknown words.

        Args:
            vocabulary: vocabulary of the records.
            num_frequent: number of most frequent tokens.
        """
        num_tokens = int(self.tokens.sum())
        counts = _sum(self.tokens, np.zeros(vocabulary.size, np.int64))
        counts[[vocabulary.cls_id, vocabulary.sep_id]] = 0
        num_text = int(counts.sum())
        unknown = int(counts[vocabulary.unk_id])
        num_words = int(counts[vocabulary.begins_word].sum())
        ranking = np.argsort(-counts, kind="stable")[:num_frequent]
        one_segment = self.num_records - int(self.second_segments.sum())
        return {
            "records": self.num_records,
            "skipped_records": self.skipped,
            "tokens": num_tokens,
            "text_tokens": num_text,
            "padding_share": _share(self.num_slots - num_tokens, self.num_slots),
            "words": num_words,
            "unknown_words": unknown,
            "unknown_share": _share(unknown, num_words),
            "distinct_tokens": int(np.count_nonzero(counts)),
            "lengths": summary(self.lengths),
            "one_segment_share": _share(one_segment, self.num_records),
            "first_segment": summary(self.first_segments),
            "second_segment": summary(self.second_segments),
            "duplicates": self.duplicates,
            "duplicate_share": _share(self.duplicates, self.num_records),
            "frequent_tokens": [
                {
                    "token": vocabulary.tokens[token],
                    "count": int(counts[token]),
                    "share": _share(int(counts[token]), num_text),
                }
                for token in ranking
                if counts[token]
            ],
        }


def row_bytes(batch: Mapping[str, np.ndarray]) -> np.ndarray:
    """Returns the bytes of each row, uint8 [n, bytes]; equal rows have equal bytes."""
    ids = np.ascontiguousarray(batch[INPUT_IDS], np.int32)
    marks = (batch[INPUT_MASK] + 2 * batch[SEGMENT_IDS]).astype(np.uint8)
    return np.concatenate([ids.view(np.uint8), marks], axis=1)


def summary(counts: np.ndarray) -> dict[str, Any]:
    """Summarizes a distribution of lengths, given the number of rows of each length.

    Returns:
        `mean`, `min`, `max`, quantiles, and a `histogram` of bins of equal width with the
        first and last length and the number of rows of each; None and [] without rows.
    """
    total = int(counts.sum())
    names = ("mean", "min", "max", *_QUANTILES)
    if not total:
        return {**dict.fromkeys(names), "histogram": []}
    present = np.flatnonzero(counts)
    cumulative = np.cumsum(counts)
    longest = int(present[-1])
    width = -(-(longest + 1) // _MAX_BINS)
    histogram = [
        {
            "from": start,
            "to": min(start + width - 1, longest),
            "records": int(counts[start : start + width].sum()),
        }
        for start in range(0, longest + 1, width)
    ]
    return {
        "mean": float(np.arange(len(counts)) @ counts / total),
        "min": int(present[0]),
        "max": longest,
        **{
            name: int(np.searchsorted(cumulative, quantile * total))
            for name, quantile in _QUANTILES.items()
        },
        "histogram": histogram,
    }


def _sum(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Adds vectors of counts; the shorter one is padded with zeros."""
    total = np.zeros(max(len(a), len(b)), np.int64)
    total[: len(a)] += a
    total[: len(b)] += b
    return total


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None
