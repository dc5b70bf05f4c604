"""Framing of token ids, `[CLS] first [SEP] second [SEP]`, and truncation.

`electra_tf.text.text_inputs` does the same in the graph.
"""

from array import array
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from electra_tf.text.vocabulary import Vocabulary

# The encoder's inputs, by their names in records, batches and exports.
INPUT_IDS, INPUT_MASK, SEGMENT_IDS = ENCODER_INPUTS = (
    "input_ids",
    "input_mask",
    "segment_ids",
)
# Number of segments of a pair; `segment_ids` are below it.
NUM_SEGMENTS = 2
# Number of special tokens by number of segments.
NUM_SPECIAL = {1: 2, 2: 3}
# Shortest inputs of tasks and exports: room for [CLS], two [SEP]s, and some tokens.
MIN_INPUT_LENGTH = 8


class Framed(NamedTuple):
    """One input without padding.

    `input_ids` are C ints; `first_length` is the length of segment 0, including [CLS] and
    the first [SEP]; `num_special` is the number of [CLS] and [SEP].
    """

    input_ids: array
    first_length: int
    num_special: int

    @property
    def segment_ids(self) -> list[int]:
        """0 for the first segment, 1 for the second."""
        return [0] * self.first_length + [1] * (len(self.input_ids) - self.first_length)


def frame(
    vocabulary: Vocabulary, first: Iterable[int], second: Iterable[int] | None = None
) -> Framed:
    """Returns `[CLS] first [SEP]`, followed by `second [SEP]` unless `second` is None.

    An empty second segment still gets its [SEP].
    """
    input_ids = array("i", [vocabulary.cls_id])
    input_ids.extend(first)
    input_ids.append(vocabulary.sep_id)
    first_length = len(input_ids)
    if second is None:
        return Framed(input_ids, first_length, NUM_SPECIAL[1])
    input_ids.extend(second)
    input_ids.append(vocabulary.sep_id)
    return Framed(input_ids, first_length, NUM_SPECIAL[2])


def frame_documents(vocabulary: Vocabulary, documents: Sequence[Iterable[int]]) -> Framed:
    """Returns `[CLS] a [SEP] b [SEP] c [SEP]`; `a` is segment 0, the others are segment 1."""
    input_ids, first_length = frame(vocabulary, documents[0])[:2]
    for document in documents[1:]:
        input_ids.extend(document)
        input_ids.append(vocabulary.sep_id)
    return Framed(input_ids, first_length, 1 + len(documents))


def truncated_lengths(length_a: int, length_b: int, room: int) -> tuple[int, int]:
    """Returns how many tokens of two texts to keep to fit into `room`.

    BERT's rule: drop tokens one at a time from the end of the longer text, or of the second
    if both are equally long.
    """
    if length_a + length_b <= room:
        return length_a, length_b
    if length_b <= room // 2:
        return room - length_b, length_b
    if length_a <= (room + 1) // 2:
        return length_a, room - length_a
    return (room + 1) // 2, room // 2
