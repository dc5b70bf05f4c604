"""Texts to encoder inputs, in the graph and exactly as in training."""

from typing import NamedTuple

import tensorflow as tf

from electra_tf.text.framing import NUM_SPECIAL
from electra_tf.text.tokenizer import Tokenizer
from electra_tf.text.vocabulary import MASK, Vocabulary
from electra_tf.util.errors import UserError


class EncoderInputs(NamedTuple):
    """`input_ids`, `input_mask`, `segment_ids`, all int32 [batch, seq], padded with 0."""

    input_ids: tf.Tensor
    input_mask: tf.Tensor
    segment_ids: tf.Tensor


def single_text_inputs(
    vocabulary: Vocabulary, tokens: tf.RaggedTensor, max_seq_length: int
) -> EncoderInputs:
    """Returns `[CLS] tokens [SEP]`, truncated to `max_seq_length`, padded to the longest row.

    Args:
        vocabulary: provides the special tokens.
        tokens: int32 ragged [batch, pieces].
        max_seq_length: maximum length of a row.

    Raises:
        UserError: `max_seq_length` has no room for [CLS] and [SEP].
    """
    _check_room(max_seq_length, NUM_SPECIAL[1])
    return frame_rows(vocabulary, tokens[:, : max_seq_length - NUM_SPECIAL[1]])


def pair_inputs(
    vocabulary: Vocabulary,
    tokens_a: tf.RaggedTensor,
    tokens_b: tf.RaggedTensor,
    max_seq_length: int,
) -> EncoderInputs:
    """Returns `[CLS] a [SEP] b [SEP]`, or `[CLS] a [SEP]` if `b` is empty.

    Pairs are truncated by BERT's rule; see `electra_tf.text.framing.truncated_lengths`.

    Args:
        vocabulary, max_seq_length: as for `single_text_inputs`.
        tokens_a, tokens_b: int32 ragged [batch, pieces].

    Raises:
        UserError: `max_seq_length` has no room for [CLS] and two [SEP], or `tokens_a` and
            `tokens_b` have different numbers of rows.
    """
    _check_room(max_seq_length, NUM_SPECIAL[2])
    counts = [tf.get_static_value(tokens.nrows()) for tokens in (tokens_a, tokens_b)]
    if None not in counts and counts[0] != counts[1]:
        raise UserError(f"there are {counts[0]} first texts, but {counts[1]} second ones")
    length_a, length_b = (_lengths(tokens) for tokens in (tokens_a, tokens_b))
    has_b = tf.cast(length_b > 0, tf.int32)
    room = max_seq_length - NUM_SPECIAL[1] - has_b
    keep_a, keep_b = _truncated_lengths(length_a, length_b, room)
    return frame_rows(
        vocabulary,
        truncate_rows(tokens_a, keep_a),
        truncate_rows(tokens_b, keep_b),
        has_second=has_b,
    )


def frame_rows(
    vocabulary: Vocabulary,
    first: tf.RaggedTensor,
    second: tf.RaggedTensor | None = None,
    *,
    has_second: tf.Tensor | None = None,
    segment: int = 0,
) -> EncoderInputs:
    """Returns `[CLS] first [SEP] second [SEP]` of each row, padded to the longest.

    The batched equivalent of `electra_tf.text.framing.frame`.

    Args:
        vocabulary: provides the special tokens.
        first, second: int32 ragged [batch, pieces]; without `second` there is one segment.
        has_second: int32 [batch], 0 for rows without a second segment, whose `second` must
            be empty; None means that all rows have one.
        segment: segment id of the first segment.
    """
    rows = first.nrows(tf.int32)
    sep = tf.fill([rows, 1], vocabulary.sep_id)
    first = tf.concat([tf.fill([rows, 1], vocabulary.cls_id), first, sep], axis=1)
    first = first.with_row_splits_dtype(tf.int64)
    segments = tf.fill(tf.shape(first.values), segment)
    segments = first.with_values(segments)  # (batch, ids)
    ids = first
    if second is not None:
        if has_second is not None:
            sep = tf.RaggedTensor.from_row_lengths(
                tf.fill([tf.reduce_sum(has_second)], vocabulary.sep_id),
                tf.cast(has_second, tf.int64),
                validate=False,
            )
        second = tf.concat([second.with_row_splits_dtype(tf.int64), sep], axis=1)
        ids = tf.concat([first, second], axis=1)
        segments = tf.concat([segments, tf.ones_like(second)], axis=1)
    # Without rows, too, the tensors have a column for [CLS], which heads read.
    shape = tf.stack([-1, tf.maximum(ids.bounding_shape(axis=1), 1)])
    return EncoderInputs(
        *(x.to_tensor(shape=shape) for x in (ids, tf.ones_like(ids), segments))
    )


def tokenize_with_masks(tokenizer: Tokenizer, texts: tf.Tensor) -> tf.RaggedTensor:
    """Returns the ids of texts, int32 ragged [batch, pieces]; "[MASK]" is the mask token.

    The tokenizer itself would split it, as it does in training.
    """
    parts = tf.strings.split(texts, MASK)  # (batch, parts)
    ids = parts.with_values(tokenizer.tokenize(parts.values))  # (batch, parts, pieces)
    # Append a mask to every part, then drop the last one of each text.
    masks = tf.fill([tf.shape(parts.values)[0], 1], tokenizer.vocabulary.mask_id)
    ids = parts.with_values(tf.concat([ids.values, masks], axis=1)).merge_dims(1, 2)
    return ids[:, :-1]


def token_strings(vocabulary: Vocabulary, inputs: EncoderInputs) -> tf.Tensor:
    """Returns the tokens of inputs, string [batch, seq]; "" at padding."""
    tokens = tf.gather(tf.constant(vocabulary.tokens), inputs.input_ids)
    return tf.where(inputs.input_mask > 0, tokens, "")


def truncate_rows(rows: tf.RaggedTensor, keep: tf.Tensor) -> tf.RaggedTensor:
    """Returns the first `keep` (int32 [batch], no longer than the row) values of each row."""
    lengths = _lengths(rows)
    kept = tf.ragged.range(lengths).values < tf.repeat(keep, lengths)
    return tf.RaggedTensor.from_row_lengths(
        tf.boolean_mask(rows.values, kept), keep, validate=False
    )


def _check_room(max_seq_length: int, num_special: int) -> None:
    if max_seq_length < num_special:
        raise UserError(f"max_seq_length must be at least {num_special}, not {max_seq_length}")


def _lengths(rows: tf.RaggedTensor) -> tf.Tensor:
    return tf.cast(rows.row_lengths(), tf.int32)


def _truncated_lengths(
    length_a: tf.Tensor, length_b: tf.Tensor, room: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """The batched equivalent of `electra_tf.text.framing.truncated_lengths`."""
    fits = length_a + length_b <= room
    b_is_short = length_b <= room // 2
    a_is_short = length_a <= (room + 1) // 2
    keep_a = tf.where(
        b_is_short, room - length_b, tf.where(a_is_short, length_a, (room + 1) // 2)
    )
    keep_b = tf.where(b_is_short, length_b, tf.where(a_is_short, room - length_a, room // 2))
    return tf.where(fits, length_a, keep_a), tf.where(fits, length_b, keep_b)
