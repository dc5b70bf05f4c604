"""Inputs made in the graph equal the features of training."""

import numpy as np
import pytest
import tensorflow as tf

from electra_tf.text.framing import truncated_lengths
from electra_tf.text.text_inputs import (
    _truncated_lengths,
    pair_inputs,
    single_text_inputs,
    tokenize_with_masks,
)
from electra_tf.util.errors import UserError
from finetune.data.features import DataReport
from finetune.tasks.text.examples import InputExample, text_rows
from tests.finetune.tasks.text.tiny import A, B, make_tokenizer


def test_pairs_are_cut_as_in_training(tmp_path):
    tokenizer = make_tokenizer(tmp_path)
    lengths = [(a, b) for a in range(8) for b in range(8)]
    for max_seq_length in (7, 8, 12):
        examples = [
            InputExample(i, "a " * a, "b " * b, "x") for i, (a, b) in enumerate(lengths)
        ]
        rows = text_rows("t", examples, tokenizer, max_seq_length, DataReport("t", "test"))
        tokenize = tokenizer.tokenizer.tokenize
        inputs = pair_inputs(
            tokenizer.vocabulary,
            tokenize(tf.constant([e.text_a for e in examples])),
            tokenize(tf.constant([e.text_b for e in examples])),
            max_seq_length,
        )
        for i, row in enumerate(rows):
            size = len(row["input_ids"])
            np.testing.assert_array_equal(inputs.input_ids[i, :size], row["input_ids"])
            np.testing.assert_array_equal(inputs.segment_ids[i, :size], row["segment_ids"])
            assert int(tf.reduce_sum(inputs.input_mask[i])) == size
            assert not np.any(inputs.input_ids[i, size:])


def test_lengths_are_those_of_the_rule_in_python():
    lengths = [(a, b) for a in range(9) for b in range(9)]
    first, second = (tf.constant(column) for column in zip(*lengths, strict=True))
    for room in range(10):
        kept = _truncated_lengths(first, second, tf.constant(room))
        found = list(zip(*(each.numpy().tolist() for each in kept), strict=True))
        assert found == [truncated_lengths(a, b, room) for a, b in lengths]


def test_a_single_text_is_cut_to_the_length(tmp_path):
    vocabulary = make_tokenizer(tmp_path).vocabulary
    texts = tf.ragged.constant([[7] * 9, [8, 8]], tf.int32)
    inputs = single_text_inputs(vocabulary, texts, 6)
    cls, sep = vocabulary.cls_id, vocabulary.sep_id
    assert inputs.input_ids.numpy().tolist() == [
        [cls, 7, 7, 7, 7, sep],
        [cls, 8, 8, sep, 0, 0],
    ]


def test_rows_have_room_for_special_tokens(tmp_path):
    vocabulary = make_tokenizer(tmp_path).vocabulary
    texts = tf.ragged.constant([[7] * 9, [8, 8]], tf.int32)
    assert single_text_inputs(vocabulary, texts, 2).input_ids.shape == (2, 2)
    with pytest.raises(UserError, match="max_seq_length must be at least 2, not 1"):
        single_text_inputs(vocabulary, texts, 1)
    with pytest.raises(UserError, match="max_seq_length must be at least 3, not 2"):
        pair_inputs(vocabulary, texts, texts, 2)
    for first, second in ((texts, texts[:1]), (texts[:1], texts)):
        with pytest.raises(UserError, match=r"there are \d first texts, but \d second ones"):
            pair_inputs(vocabulary, first, second, 16)


def test_masks_in_texts(tmp_path):
    tokenizer = make_tokenizer(tmp_path).tokenizer
    mask = tokenizer.vocabulary.mask_id
    texts = ["a [MASK] b", "[MASK]", "", "a[MASK][MASK]", "[mask]"]
    ids = tokenize_with_masks(tokenizer, tf.constant(texts)).to_list()
    assert ids[:4] == [[A, mask, B], [mask], [], [A, mask, mask]]
    assert mask not in ids[4]
