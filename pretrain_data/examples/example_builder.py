"""Builds two-segment examples from tokenized lines, without losing a token."""

import random
from array import array
from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from electra_tf.text.framing import Framed, frame
from electra_tf.text.vocabulary import Vocabulary
from pretrain_data.examples.text_boundaries import TextBoundaries

# Short target lengths are drawn by randint(5, max_length).
MIN_SEQ_LENGTH = 5

ONE_SEGMENT_PROBABILITY = 0.1
SHORT_TARGET_PROBABILITY = 0.05


class Builder(Protocol):
    """Makes examples from lines.

    Attributes:
        num_documents: number of documents ended so far.
        dropped_tokens: number of tokens that are in no example, by cause.
        num_packed: number of examples of several documents.
    """

    num_documents: int
    dropped_tokens: Mapping[str, int]
    num_packed: int

    def start(self, rng: random.Random) -> None:
        """Resets counts, pending tokens and the random stream."""

    def add_line(self, token_ids: Sequence[int], complete: bool = True) -> list[Framed]:
        """Adds the tokens of a non-blank line, possibly none.

        Args:
            token_ids: ids without [CLS] and [SEP].
            complete: whether the line ends here; otherwise the next call continues it.

        Returns:
            The examples that this completes.
        """

    def end_document(self) -> list[Framed]:
        """Ends a document; call it at every blank line and after each file.

        Returns:
            The examples of the pending tokens, if any.
        """

    def finish(self) -> list[Framed]:
        """Returns the remaining examples, at the end of all documents."""


class ExampleBuilder:
    """Fills examples with lines; when one is full, the text continues in the next.

    Every token of a document is in its examples once, in order. Probabilities and target
    lengths are those of the authors' builder. An example ends at the last end of a line or
    sentence in the second half of its row; if there is none, at the last end of a word; and
    inside a word only if that word is longer than the row. Its two segments are divided in the
    same order of preference.

    Attributes:
        num_documents, dropped_tokens, num_packed: see `Builder`; nothing is dropped, and no
            example has several documents.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        max_length: int,
        rng: random.Random,
        *,
        lines_are_sentences: bool = False,
    ):
        """Initializes an empty builder.

        Args:
            vocabulary: provides the ids of [CLS] and [SEP], and the ends of sentences.
            max_length: maximum tokens per example; at least `MIN_SEQ_LENGTH`.
            rng: random number generator.
            lines_are_sentences: prefer ends of lines to those of sentences inside of a line.
        """
        self._vocabulary = vocabulary
        self._max_length = max_length
        self._lines_are_sentences = lines_are_sentences
        self._boundaries = TextBoundaries(vocabulary)
        self.start(rng)

    def start(self, rng: random.Random) -> None:
        """See `Builder.start`."""
        self._rng = rng
        # Pending tokens of the document, and the positions in them where lines end.
        self._tokens = array("i")
        self._line_ends: list[int] = []
        self._target_length = self._max_length
        self._in_document = False
        self.num_documents = 0
        self.num_packed = 0
        self.dropped_tokens: dict[str, int] = {}

    def add_line(self, token_ids: Sequence[int], complete: bool = True) -> list[Framed]:
        """See `Builder.add_line`."""
        self._in_document = True
        self._tokens.extend(token_ids)
        if complete and self._tokens and self._line_ends[-1:] != [len(self._tokens)]:
            self._line_ends.append(len(self._tokens))
        if len(self._tokens) < self._target_length:
            return []
        return list(self._create_examples(ends_document=False))

    def end_document(self) -> list[Framed]:
        """See `Builder.end_document`."""
        self.num_documents += self._in_document
        self._in_document = False
        return list(self._create_examples(ends_document=True))

    def finish(self) -> list[Framed]:
        """See `Builder.finish`."""
        return []

    def _create_examples(self, ends_document: bool) -> Iterator[Framed]:
        """Yields examples until too few tokens for another one are left."""
        start = 0
        while start < len(self._tokens):
            if not ends_document and len(self._tokens) - start < self._target_length:
                break
            # A window of the pending tokens, since a long line fills many rows.
            window, line_ends = self._window(start, 2 * self._max_length)
            length, first_length = self._divide(window, line_ends)
            second = window[first_length:length]
            yield frame(self._vocabulary, window[:first_length], second or None)
            start += length
            self._target_length = draw_target_length(self._rng, self._max_length)
        del self._tokens[:start]
        self._line_ends = [end - start for end in self._line_ends if end > start]

    def _window(self, start: int, length: int) -> tuple[array, list[int]]:
        """Returns pending tokens from `start` on, and where lines end in them."""
        window = self._tokens[start : start + length]
        line_ends = []
        for end in self._line_ends:
            if end > start + len(window):
                break
            if end > start:
                line_ends.append(end - start)
        return window, line_ends

    def _divide(self, tokens: array, line_ends: list[int]) -> tuple[int, int]:
        """Returns the number of tokens of the next example and of its first segment."""
        draw = self._rng.random
        two_segments = draw() >= ONE_SEGMENT_PROBABILITY
        room = self._max_length - (3 if two_segments else 2)
        length = self._example_length(tokens, line_ends, room)
        if not two_segments:
            return length, length
        return length, self._first_segment_length(tokens, line_ends, length)

    def _first_segment_length(self, tokens: array, line_ends: list[int], length: int) -> int:
        """Returns how many of the `length` tokens of an example are its first segment."""
        draw = self._rng.random
        # Excludes [CLS] and two [SEP].
        first_target = (self._target_length - 3) // 2
        line_start = first_length = 0
        for end in [end for end in line_ends if end < length] + [length]:
            joins_first = not first_length or end < first_target
            if not joins_first and first_length < first_target:
                joins_first = draw() < 0.5
            if not joins_first:
                return first_length
            line_start, first_length = first_length, end
        if length <= max(1, first_target):
            return length
        return self._boundary_in_line(
            tokens, line_start, max(1, first_target), length, length in line_ends
        )

    def _example_length(self, tokens: array, line_ends: list[int], room: int) -> int:
        target = self._target_length
        if len(tokens) < target:
            # The rest of a document.
            end = len(tokens)
        else:
            end = next((end for end in line_ends if end >= target), len(tokens))
        if end <= room:
            return end
        limit = min(room, target)
        return self._last_sentence_end(
            tokens, line_ends, max(1, limit // 2), limit
        ) or self._last_word_end(tokens, limit)

    def _last_sentence_end(
        self, tokens: array, line_ends: list[int], first: int, last: int
    ) -> int | None:
        """Returns the last end of a line or sentence from `first` to `last`, if any."""
        # The end of a line is a boundary, too.
        at_line = max((end for end in line_ends if first <= end <= last), default=None)
        if at_line is not None and self._lines_are_sentences:
            return at_line
        sentence = self._boundaries.last_sentence_boundary(tokens, at_line or first, last)
        return at_line if sentence is None else sentence

    def _last_word_end(self, tokens: array, last: int) -> int:
        """Returns the last end of a word up to `last`; `last` itself if a word is longer."""
        return self._boundaries.last_word_boundary(tokens, 1, last) or last

    def _boundary_in_line(
        self, tokens: array, start: int, middle: int, end: int, ends_line: bool
    ) -> int:
        """Returns where to divide the text of one line from `start` to `end`.

        That is the end of a sentence near `middle`, else of a word if the line continues in
        the next example, else `end`.
        """
        boundaries = self._boundaries
        before = boundaries.last_sentence_boundary(tokens, start + 1, middle)
        after = boundaries.first_sentence_boundary(tokens, middle, end - 1)
        if before is not None and after is not None:
            return before if middle - before <= after - middle else after
        position = before or after
        if position is None and not ends_line:
            position = boundaries.last_word_boundary(tokens, start + 1, middle)
        return position or end


def draw_target_length(rng: random.Random, max_length: int) -> int:
    """Returns the target length of the next example: usually `max_length`, else a shorter one.

    The probability and the range are those of the authors' `_create_example`.
    """
    if rng.random() < SHORT_TARGET_PROBABILITY:
        return rng.randint(MIN_SEQ_LENGTH, max_length)
    return max_length
