"""Sentences of token ids to two-segment examples, drawn as the authors draw them."""

import random
from array import array
from collections.abc import Sequence

from electra_tf.text.framing import Framed, frame
from electra_tf.text.vocabulary import Vocabulary

# randint(5, max_length) draws short targets, so nothing below is possible.
MIN_SEQ_LENGTH = 5

_ONE_SEGMENT_PROBABILITY = 0.1
_SHORT_TARGET_PROBABILITY = 0.05
_NEVER_REACHED = 100_000


class ExampleBuilder:
    """Collects sentences until they fill an example, then splits them in two segments.

    With `rng = random.Random(seed)` the draws are those that the authors' builder makes
    after `random.seed(seed)`, in the same order. The pending sentences and the target
    length carry over from one file to the next.

    Attributes:
        num_documents: documents that have ended.
    """

    def __init__(self, vocabulary: Vocabulary, max_length: int, rng: random.Random):
        """Starts with nothing pending.

        Args:
            vocabulary: gives the ids of [CLS] and [SEP].
            max_length: tokens per example at most; at least `MIN_SEQ_LENGTH`.
            rng: source of every draw.
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
        """Adds the tokens of a line that is not blank; there may be none.

        Returns:
            An example if the pending tokens now reach the target length.
        """
        self._in_document = True
        self._sentences.append(token_ids)
        self._length += len(token_ids)
        return self._create_example() if self._length >= self._target_length else None

    def end_document(self) -> Framed | None:
        """Closes the pending example: to be called at a blank line and after each file.

        Returns:
            The example of what was pending, if there were any tokens.
        """
        self.num_documents += self._in_document
        self._in_document = False
        if self._length:
            return self._create_example()
        # A blank line counts as an empty sentence, which can use up a draw later.
        self._sentences.append(())
        return None

    def _create_example(self) -> Framed:
        draw = self._rng.random
        if draw() < _ONE_SEGMENT_PROBABILITY:
            first_target = _NEVER_REACHED
        else:
            # [CLS] and two [SEP] are not counted.
            first_target = (self._target_length - 3) // 2
        first, second = array("i"), array("i")
        for sentence in self._sentences:
            # The order of these tests decides whether a number is drawn.
            if (
                not first
                or len(first) + len(sentence) < first_target
                or (not second and len(first) < first_target and draw() < 0.5)
            ):
                first.extend(sentence)
            else:
                second.extend(sentence)
        # The cut is at max_length whatever the target was; the rest is thrown away.
        del first[self._max_length - 2 :]
        del second[max(0, self._max_length - len(first) - 3) :]

        self._sentences = []
        self._length = 0
        if draw() < _SHORT_TARGET_PROBABILITY:
            self._target_length = self._rng.randint(MIN_SEQ_LENGTH, self._max_length)
        else:
            self._target_length = self._max_length

        return frame(self._vocabulary, first, second or None)
