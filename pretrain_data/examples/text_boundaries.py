"""Sentence and word boundaries in a sequence of token ids."""

import unicodedata
from collections.abc import Sequence

from electra_tf.text.vocabulary import CONTINUATION, SPECIAL_TOKENS, Vocabulary

# Punctuation that ends a sentence, in Latin and in scripts with their own.
_TERMINATORS = frozenset(".!?…。．｡！？؟۔।॥።፧។။։՜՞‼⁇⁈⁉")
# Closers besides closing brackets and quotation marks, which Unicode classifies.
_STRAIGHT_QUOTES = frozenset("\"'")


class TextBoundaries:
    """Finds where a sequence of token ids can be cut.

    A sentence ends after a terminator such as "." and the quotation marks and brackets that
    close after it; a period does not end one before a digit ("3.14") or after a single letter
    ("J. Smith"). A word never starts at a `##` continuation.
    """

    def __init__(self, vocabulary: Vocabulary):
        self._continuations = _ids(vocabulary, lambda token: token.startswith(CONTINUATION))
        self._terminators = _ids(vocabulary, _TERMINATORS.__contains__)
        self._closers = _ids(vocabulary, _is_closer)
        self._digits = _ids(vocabulary, lambda token: token[0].isdigit())
        self._letters = _ids(vocabulary, lambda token: len(token) == 1 and token.isalpha())
        self._period = vocabulary.ids.get(".")
        self._ends = self._terminators | self._closers

    def last_word_boundary(self, ids: Sequence[int], first: int, last: int) -> int | None:
        """Returns the last position from `first` to `last` that starts a word, if any."""
        if last == len(ids):
            return last
        for position in range(last, first - 1, -1):
            if ids[position] not in self._continuations:
                return position
        return None

    def last_sentence_boundary(self, ids: Sequence[int], first: int, last: int) -> int | None:
        """Returns the last position from `first` to `last` that starts a sentence, if any.

        `first` must be at least 1.
        """
        ends = self._ends
        for position in range(last, first - 1, -1):
            if ids[position - 1] in ends and self._starts_sentence(ids, position):
                return position
        return None

    def first_sentence_boundary(self, ids: Sequence[int], first: int, last: int) -> int | None:
        """Returns the first position from `first` to `last` that starts a sentence, if any.

        `first` must be at least 1.
        """
        ends = self._ends
        for position in range(first, last + 1):
            if ids[position - 1] in ends and self._starts_sentence(ids, position):
                return position
        return None

    def _starts_sentence(self, ids: Sequence[int], position: int) -> bool:
        end = position - 1
        while end > 0 and ids[end] in self._closers:
            end -= 1
        if ids[end] not in self._terminators:
            return False
        following = ids[position] if position < len(ids) else None
        if following in self._ends or following in self._continuations:
            return False
        if ids[end] != self._period or end < position - 1:
            return True
        return following not in self._digits and not (end and ids[end - 1] in self._letters)


def _ids(vocabulary: Vocabulary, condition) -> frozenset[int]:
    return frozenset(
        i
        for i, token in enumerate(vocabulary.tokens)
        if token not in SPECIAL_TOKENS and condition(token)
    )


def _is_closer(token: str) -> bool:
    return len(token) == 1 and (
        token in _STRAIGHT_QUOTES or unicodedata.category(token) in ("Pe", "Pf")
    )
