"""Builds two-segment examples from tokenized sentences, with the authors' random draws."""

import random
from array import array
from collections.abc import Sequence

from electra_tf.text.framing import Framed, frame
from electra_tf.text.vocabulary import Vocabulary

# Short target lengths are drawn by randint(5, max_length).
MIN_SEQ_LENGTH = 5

_ONE_SEGMENT_PROBABILITY = 0.1
_SHORT_TARGET_PROBABILITY = 0.05
_NEVER_REACHED = 100_000


class ExampleBuilder:
    """Collects sentences until they fill an example, then splits them into two segments.

    With `rng = random.Random(seed)`, it makes the same draws as the authors' builder after
    `random.seed(seed)`. Pending sentences and the target length carry over from one file to
    the next.

    Attributes:
        num_documents: number of documents ended so far.
    """

    def __init__(self, vocabulary: Vocabulary, max_length: int, rng: random.Random):
        """Initializes an empty builder.

        Args:
            vocabulary: provides the ids of [CLS] and [SEP].
            max_length: maximum tokens per example; at least `MIN_SEQ_LENGTH`.
            rng: random number generator.
        """
        self._vocabulary = vocabulary
        self._max_length = max_length
        self._rng = rng
        self._sentences: list[Sequence[int]] = []
        self._length = 0
        self._target_length = max_length
        self._in_document = False
        self.num_documents = 0

    def add_line(self, token_ids: Sequence[int]) -> Framed | None:
        """Adds the tokens of a non-blank line, possibly none.

        Returns:
            An example if the pending tokens have reached the target length.
        """
        self._in_document = True
        self._sentences.append(token_ids)
        self._length += len(token_ids)
        return self._create_example() if self._length >= self._target_length else None

    def end_document(self) -> Framed | None:
        """Ends a document; call it at every blank line and after each file.

        Returns:
            An example of the pending tokens, if any.
        """
        self.num_documents += self._in_document
        self._in_document = False
        if self._length:
            return self._create_example()
        # A blank line is an empty sentence, which may consume a random draw later.
        self._sentences.append(())
        return None

    def _create_example(self) -> Framed:
        draw = self._rng.random
        if draw() < _ONE_SEGMENT_PROBABILITY:
            first_target = _NEVER_REACHED
        else:
            # Excludes [CLS] and two [SEP].
            first_target = (self._target_length - 3) // 2
        first, second = array("i"), array("i")
        for sentence in self._sentences:
            # The order of the conditions decides whether a number is drawn.
            if (
                not first
                or len(first) + len(sentence) < first_target
                or (not second and len(first) < first_target and draw() < 0.5)
            ):
                first.extend(sentence)
            else:
                second.extend(sentence)
        # Truncated at max_length regardless of the target; the rest is dropped.
        del first[self._max_length - 2 :]
        del second[max(0, self._max_length - len(first) - 3) :]

        self._sentences = []
        self._length = 0
        if draw() < _SHORT_TARGET_PROBABILITY:
            self._target_length = self._rng.randint(MIN_SEQ_LENGTH, self._max_length)
        else:
            self._target_length = self._max_length

        return frame(self._vocabulary, first, second or None)
