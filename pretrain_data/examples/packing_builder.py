"""Fills rows with the text of several documents."""

import random
from array import array
from collections.abc import Iterator

from electra_tf.text.framing import NUM_SPECIAL, Framed, frame, frame_documents
from pretrain_data.examples.example_builder import ONE_SEGMENT_PROBABILITY, ExampleBuilder

# Minimum room for another document; less is not worth a [SEP].
_MIN_TOKENS = 4


class PackingExampleBuilder(ExampleBuilder):
    """Fills a row with further documents: FULL-SENTENCES of RoBERTa, section 4.2.

    A row of several documents is `[CLS] a [SEP] b [SEP] c [SEP]`: segment 0 is the first
    document, segment 1 the others. A row of one is divided as by `ExampleBuilder`. Rows also
    end at ends of lines or sentences; none is made short on purpose. A document continues in
    the next row, so every token is in the examples once, in order.

    Attributes:
        num_documents, dropped_tokens: see `Builder`; nothing is dropped.
        num_packed: number of rows of several documents.
    """

    def start(self, rng: random.Random) -> None:
        """See `Builder.start`."""
        super().start(rng)
        self._start_row()

    def finish(self) -> list[Framed]:
        """See `Builder.finish`."""
        return [self._finish_row()] if self._documents else []

    def _create_examples(self, ends_document: bool) -> Iterator[Framed]:
        """Yields the rows that the pending tokens fill."""
        start = 0
        while start < len(self._tokens):
            room = self._room()
            # With the next token, which shows whether a word or sentence ends before it.
            window, line_ends = self._window(start, room + 1)
            if len(window) <= room:
                if not ends_document:
                    break
                length = len(window)
            else:
                length = self._length_in_row(window, line_ends, room)
            if length:
                self._documents.append(window[:length])
                self._line_ends_in_row = [end for end in line_ends if end <= length]
            start += length
            if len(window) > room or self._room() < _MIN_TOKENS:
                yield self._finish_row()
        del self._tokens[:start]
        self._line_ends = [end - start for end in self._line_ends if end > start]

    def _room(self) -> int:
        """Returns the number of tokens for which the row has room in another document."""
        if not self._documents:
            return self._max_length - NUM_SPECIAL[1 + self._two_segments]
        return self._max_length - self._tokens_in_row() - 1

    def _tokens_in_row(self) -> int:
        return 1 + sum(len(document) + 1 for document in self._documents)

    def _length_in_row(self, tokens: array, line_ends: list[int], room: int) -> int:
        """Returns how many tokens of a document that does not fit to put in the row.

        0 if the row is at least half full and no sentence ends in the rest of it.
        """
        missing = (
            self._max_length // 2 - self._tokens_in_row() if self._documents else room // 2
        )
        end = self._last_sentence_end(tokens, line_ends, max(1, missing), room)
        if end is None and (not self._documents or missing > 0):
            end = self._last_word_end(tokens, room)
        return end or 0

    def _finish_row(self) -> Framed:
        documents, line_ends = self._documents, self._line_ends_in_row
        if len(documents) > 1:
            self.num_packed += 1
            row = frame_documents(self._vocabulary, documents)
        else:
            (tokens,) = documents
            length = len(tokens)
            if self._two_segments:
                length = self._first_segment_length(tokens, line_ends, length)
            row = frame(self._vocabulary, tokens[:length], tokens[length:] or None)
        self._start_row()
        return row

    def _start_row(self) -> None:
        # Tokens of each document in the row, and where lines end in the last document.
        self._documents: list[array] = []
        self._line_ends_in_row: list[int] = []
        self._two_segments = self._rng.random() >= ONE_SEGMENT_PROBABILITY
