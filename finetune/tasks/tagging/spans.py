"""Spans of words and their tag encodings: IOB1, IOB2 (BIO), BIOES and IO.

A tag is "O", or one of the prefixes B (begin), I (inside), E (end), S (single), a hyphen and
the type of the span.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

OUTSIDE = "O"
PREFIXES = "BIES"
BIOES, BIO, IO = "BIOES", "BIO", "IO"
Tags = Sequence[Sequence[str]]


class Span(NamedTuple):
    """Words `start` to `end` (inclusive), of type `kind`."""

    start: int
    end: int
    kind: str


def is_tag(tag: str) -> bool:
    """Whether `tag` is "O", or a prefix, a hyphen and a type."""
    prefix, hyphen, kind = tag.partition("-")
    return tag == OUTSIDE or (len(prefix) == 1 and prefix in PREFIXES and bool(hyphen and kind))


def tag_spans(tags: Sequence[str], *, authors_rule: bool = False) -> list[Span]:
    """Returns the spans of tags in any of the encodings.

    Ill-formed sequences are handled like in conlleval, and in seqeval without a scheme: a
    span ends where its type changes, and after E and S; the next non-O tag starts a new one.

    Args:
        tags: tags for which `is_tag` is true.
        authors_rule: end spans only at B, S and O, with the type of their last tag, as the
            authors' code does: [E-X, E-X] is then one span.
    """
    spans = []
    start, last_prefix, last_kind = -1, "", ""
    for i, tag in enumerate((*tags, OUTSIDE)):
        prefix, _, kind = tag.partition("-")
        ends = prefix in ("B", "S", OUTSIDE)
        if not authors_rule:
            ends = ends or last_prefix in ("E", "S") or kind != last_kind
        if start >= 0 and ends:
            spans.append(Span(start, i - 1, last_kind))
            start = -1
        if start < 0 and prefix != OUTSIDE:
            start = i
        last_prefix, last_kind = prefix, kind
    return spans


def span_tags(spans: Iterable[Span], length: int, encoding: str = BIOES) -> list[str]:
    """Returns `length` tags that encode spans as "BIOES", "BIO" or "IO"."""
    tags = [OUTSIDE] * length
    for start, end, kind in spans:
        prefixes = ["I"] * (end - start + 1)
        if "E" in encoding:
            prefixes[-1] = "E"
        if "B" in encoding:
            prefixes[0] = "B"
        if "S" in encoding and start == end:
            prefixes[0] = "S"
        tags[start : end + 1] = [f"{prefix}-{kind}" for prefix in prefixes]
    return tags


def bioes_labels(kinds: Iterable[str]) -> tuple[str, ...]:
    """Returns all BIOES tags of the given types, sorted."""
    return tuple(sorted({OUTSIDE, *(f"{p}-{kind}" for kind in kinds for p in PREFIXES)}))


def span_metrics(
    gold: Tags, predicted: Tags, *, authors_rule: bool = False
) -> dict[str, float]:
    """Returns "precision", "recall" and "f1" over the spans of all sentences.

    A span is correct if both ends and the type are. Recall counts all spans of `gold`. As in
    conlleval, values with denominator 0 are 0.

    Args:
        gold, predicted: tags of each word of each sentence, of the same lengths.
        authors_rule: see `tag_spans`.
    """
    # seqeval agrees with this, but lacks the authors' rule.
    right = num_gold = num_predicted = 0
    for gold_tags, predicted_tags in zip(gold, predicted, strict=True):
        if len(gold_tags) != len(predicted_tags):
            raise ValueError(f"{len(predicted_tags)} tags for {len(gold_tags)} words")
        gold_spans = set(tag_spans(gold_tags, authors_rule=authors_rule))
        predicted_spans = set(tag_spans(predicted_tags, authors_rule=authors_rule))
        right += len(gold_spans & predicted_spans)
        num_gold += len(gold_spans)
        num_predicted += len(predicted_spans)
    return {
        "precision": _percent(right, num_predicted),
        "recall": _percent(right, num_gold),
        "f1": _percent(2 * right, num_gold + num_predicted),
    }


def token_accuracy(gold: Tags, predicted: Sequence[Sequence[str | None]]) -> float:
    """Returns the fraction of words with the correct tag; a tag of None is wrong."""
    pairs = [
        (gold_tag, predicted_tag)
        for gold_tags, predicted_tags in zip(gold, predicted, strict=True)
        for gold_tag, predicted_tag in zip(gold_tags, predicted_tags, strict=True)
    ]
    return _percent(sum(g == p for g, p in pairs), len(pairs))


def _percent(part: int, whole: int) -> float:
    return 100 * part / whole if whole else 0.0
