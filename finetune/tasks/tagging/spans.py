"""Spans of words and their tag encodings: IOB1, IOB2 (BIO), BIOES and IO.

A tag is "O", or one of the prefixes B (begin), I (inside), E (end), S (single), a hyphen and
the type of the span.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

OUTSIDE = "O"
PREFIXES = "BIES"
BIOES, BIO = "BIOES", "BIO"


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
