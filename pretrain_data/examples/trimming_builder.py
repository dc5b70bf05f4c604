"""Builds examples as the authors do: tokens that do not fit into a segment are dropped."""

import random
from array import array
from collections.abc import Sequence

from electra_tf.text.framing import Framed, frame
from electra_tf.text.vocabulary import Vocabulary
from pretrain_data.examples.example_builder import (
    ONE_SEGMENT_PROBABILITY,
    draw_target_length,
)

_NEVER_REACHED = 100_000


class TrimmingExampleBuilder:
    """Collects lines until they fill an example, divides them, and trims both segments.

    With `rng = random.Random(seed)`, it makes the same draws as the authors' builder after
    `random.seed(seed)`. Pending lines and the target length carry over from one file to the
    next.

    Attributes:
        num_documents, dropped_tokens, num_packed: see
            `pretrain_data.examples.example_builder.Builder`.
    """

    def __init__(self, vocabulary: Vocabulary, max_length: int, rng: random.Random):
        """Initializes an empty builder; see `ExampleBuilder`."""
        self._vocabulary = vocabulary
        self._max_length = max_length
        self.start(rng)

    def start(self, rng: random.Random) -> None:
        """See `Builder.start`."""
        self._rng = rng
        # Each line, without the tokens of a long one that no segment can hold, and its length.
        self._lines: list[tuple[Sequence[int], int]] = []
        self._length = 0
        self._unfinished: array | None = None
        self._unfinished_length = 0
        self._target_length = self._max_length
        self._in_document = False
        self.num_documents = self.num_packed = 0
        self.dropped_tokens = {"beyond the first segment": 0, "beyond the second segment": 0}

    def add_line(self, token_ids: Sequence[int], complete: bool = True) -> list[Framed]:
        """See `Builder.add_line`."""
        self._in_document = True
        length = len(token_ids)
        if self._unfinished is not None or not complete:
            if self._unfinished is None:
                self._unfinished, self._unfinished_length = array("i"), 0
            self._unfinished.extend(token_ids)
            del self._unfinished[self._max_length :]
            self._unfinished_length += length
            if not complete:
                return []
            token_ids, length = self._unfinished, self._unfinished_length
            self._unfinished = None
        self._lines.append((token_ids, length))
        self._length += length
        return [self._create_example()] if self._length >= self._target_length else []

    def end_document(self) -> list[Framed]:
        """See `Builder.end_document`."""
        # A file that cannot be read to its end may leave a part of a line.
        rest = self.add_line(()) if self._unfinished is not None else []
        self.num_documents += self._in_document
        self._in_document = False
        if self._length:
            return [*rest, self._create_example()]
        # A blank line is an empty sentence, which may consume a random draw later.
        self._lines.append(((), 0))
        return rest

    def finish(self) -> list[Framed]:
        """See `Builder.finish`; the end of a document leaves no tokens."""
        return []

    def _create_example(self) -> Framed:
        draw = self._rng.random
        if draw() < ONE_SEGMENT_PROBABILITY:
            first_target = _NEVER_REACHED
        else:
            # Excludes [CLS] and two [SEP].
            first_target = (self._target_length - 3) // 2
        first, second = array("i"), array("i")
        first_length = second_length = 0
        for ids, length in self._lines:
            # The order of the conditions decides whether a number is drawn.
            if (
                not first_length
                or first_length + length < first_target
                or (not second_length and first_length < first_target and draw() < 0.5)
            ):
                first.extend(ids)
                first_length += length
            else:
                second.extend(ids)
                second_length += length
        # Truncated at max_length regardless of the target; the rest is dropped.
        del first[self._max_length - 2 :]
        del second[max(0, self._max_length - len(first) - 3) :]
        self.dropped_tokens["beyond the first segment"] += first_length - len(first)
        self.dropped_tokens["beyond the second segment"] += second_length - len(second)

        self._lines = []
        self._length = 0
        self._target_length = draw_target_length(self._rng, self._max_length)
        return frame(self._vocabulary, first, second or None)
