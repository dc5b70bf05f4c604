"""One framing, in Python and in the graph: [CLS] first [SEP] second [SEP]."""

import numpy as np
import pytest
import tensorflow as tf

from electra_tf.text.framing import (
    NUM_SPECIAL,
    Framed,
    frame,
    frame_documents,
    truncated_lengths,
)
from electra_tf.text.text_inputs import frame_rows, pair_inputs, single_text_inputs

FIRST = [[7, 8], [9], [], [5, 6, 7, 8, 9]]
SECOND = [[4], [], [6, 6], [8, 9]]


def test_segments_and_special_tokens(vocabulary):
    cls, sep = vocabulary.cls_id, vocabulary.sep_id
    assert list(frame(vocabulary, [7, 8]).input_ids) == [cls, 7, 8, sep]
    framed = frame(vocabulary, np.array([7, 8], np.int32), [9])
    assert list(framed.input_ids) == [cls, 7, 8, sep, 9, sep]
    assert framed.first_length == 4
    assert framed.segment_ids == [0, 0, 0, 0, 1, 1]
    # An empty second segment keeps its [SEP]; None means that there is no second segment.
    assert list(frame(vocabulary, [7], []).input_ids) == [cls, 7, sep, sep]
    assert frame(vocabulary, [], []).segment_ids == [0, 0, 1]
    assert len(frame(vocabulary, []).input_ids) == NUM_SPECIAL[1]
    assert len(frame(vocabulary, [], []).input_ids) == NUM_SPECIAL[2]
    packed = frame_documents(vocabulary, [[7], [8, 9], [5]])
    assert list(packed.input_ids) == [cls, 7, sep, 8, 9, sep, 5, sep]
    assert packed.segment_ids == [0, 0, 0, 1, 1, 1, 1, 1]
    assert [f.num_special for f in (frame(vocabulary, [7]), framed, packed)] == [2, 3, 4]


@pytest.mark.parametrize("has_second", [None, [1, 0, 1, 1]])
def test_the_graph_frames_as_python_does(vocabulary, has_second):
    first, second = (tf.ragged.constant(rows, tf.int32) for rows in (FIRST, SECOND))
    given = has_second if has_second is None else tf.constant(has_second)
    inputs = frame_rows(vocabulary, first, second, has_second=given)
    expected = [
        frame(vocabulary, a, b if has_second is None or has_second[i] else None)
        for i, (a, b) in enumerate(zip(FIRST, SECOND, strict=True))
    ]
    _assert_rows_equal(inputs, expected)


def test_one_segment_may_be_segment_1(vocabulary):
    first = tf.ragged.constant(FIRST, tf.int32)
    expected = [frame(vocabulary, row) for row in FIRST]
    _assert_rows_equal(frame_rows(vocabulary, first), expected)
    inputs = frame_rows(vocabulary, first, segment=1)
    np.testing.assert_array_equal(inputs.segment_ids, inputs.input_mask)
    np.testing.assert_array_equal(inputs.input_ids, frame_rows(vocabulary, first).input_ids)


@pytest.mark.parametrize("length", [4, 6, 7, 12])
def test_texts_are_truncated_alike(vocabulary, length):
    first, second = (tf.ragged.constant(rows, tf.int32) for rows in (FIRST, SECOND))
    expected = []
    for a, b in zip(FIRST, SECOND, strict=True):
        room = length - NUM_SPECIAL[2 if b else 1]
        keep_a, keep_b = truncated_lengths(len(a), len(b), room)
        expected.append(frame(vocabulary, a[:keep_a], b[:keep_b] if b else None))
    _assert_rows_equal(pair_inputs(vocabulary, first, second, length), expected)
    single = [frame(vocabulary, a[: length - NUM_SPECIAL[1]]) for a in FIRST]
    _assert_rows_equal(single_text_inputs(vocabulary, first, length), single)


def _assert_rows_equal(inputs, expected: list[Framed]) -> None:
    lengths = [len(framed.input_ids) for framed in expected]
    assert inputs.input_ids.shape[1] == max(lengths)
    np.testing.assert_array_equal(tf.reduce_sum(inputs.input_mask, axis=1), lengths)
    for row, framed in enumerate(expected):
        count = lengths[row]
        assert inputs.input_ids[row, :count].numpy().tolist() == list(framed.input_ids)
        assert inputs.segment_ids[row, :count].numpy().tolist() == framed.segment_ids
        assert not inputs.input_ids[row, count:].numpy().any()
        assert not inputs.segment_ids[row, count:].numpy().any()
