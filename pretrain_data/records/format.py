"""The authors' record format: reading and parsing serialized records."""

import dataclasses
import functools
from collections.abc import Callable

import numpy as np
import tensorflow as tf

from electra_tf.text.framing import (
    ENCODER_INPUTS,
    INPUT_IDS,
    INPUT_MASK,
    NUM_SEGMENTS,
    SEGMENT_IDS,
)
from pretrain_data.records.tfrecord_headers import ALL_RECORDS, check_lengths

_READ_BYTES = 1 << 20


@dataclasses.dataclass(frozen=True)
class RecordSpan:
    """`count` consecutive good records of a file, from byte `offset`; -1 is all."""

    path: str
    offset: int = 0
    count: int = ALL_RECORDS


def parse_records(
    records: tf.Tensor, max_seq_length: int, vocab_size: int | None = None
) -> dict[str, tf.Tensor]:
    """Parses a batch of serialized records.

    Args:
        records: string (batch).
        max_seq_length: length of every feature.
        vocab_size: upper bound of the ids; None accepts any.

    Returns:
        int32 (batch, max_seq_length) for each of `ENCODER_INPUTS`.

    Raises:
        InvalidArgumentError: a feature is missing or of another length, or an id is beyond
            the vocabulary. (On GPUs, embedding lookups would return zeros for such an id.)
    """
    feature = tf.io.FixedLenFeature([max_seq_length], tf.int64)
    parsed = tf.io.parse_example(records, dict.fromkeys(ENCODER_INPUTS, feature))
    if vocab_size is not None:
        limits = {INPUT_IDS: vocab_size, INPUT_MASK: 2, SEGMENT_IDS: NUM_SEGMENTS}
        checks = [
            tf.debugging.Assert(
                tf.reduce_all((parsed[name] >= 0) & (parsed[name] < limit)),
                [f"{name} must be from 0 to {limit - 1}"],
            )
            for name, limit in limits.items()
        ]
        with tf.control_dependencies(checks):
            parsed = {name: tf.identity(values) for name, values in parsed.items()}
    return {name: tf.cast(parsed[name], tf.int32) for name in ENCODER_INPUTS}


def read_span(
    path: str | tf.Tensor,
    offset: int | tf.Tensor,
    count: int | tf.Tensor,
    check: Callable[[str], None] | None = None,
) -> tf.data.Dataset:
    """Reads `count` serialized records (-1: all) of a file, starting at a byte offset.

    Reading raises InvalidArgumentError if one of them is longer than the rest of the file.

    Args:
        path: the file.
        offset: byte offset of the first record.
        count: number of records.
        check: if `path` is a tensor, called with the path before the file is opened; its
            ValueError becomes an InvalidArgumentError.
    """
    if isinstance(path, str):
        check_lengths(path, offset, count)
    else:
        checked = functools.partial(_checked_path, check)
        path = tf.numpy_function(checked, [path, offset, count], tf.string)
        path = tf.ensure_shape(path, [])
    if isinstance(offset, int) and offset == 0:
        return tf.data.TFRecordDataset(path, buffer_size=_READ_BYTES).take(count)

    def from_offset(offset: tf.Tensor) -> tf.data.Dataset:
        # tf.data.TFRecordDataset does not expose the offset of the underlying operation.
        variant = tf.raw_ops.TFRecordDatasetV2(
            filenames=tf.reshape(path, [1]),
            compression_type="",
            buffer_size=_READ_BYTES,
            byte_offsets=tf.reshape(offset, [1]),
        )
        return tf.data.experimental.from_variant(variant, tf.TensorSpec([], tf.string))

    # Outside a function, TensorFlow 2.21 loses the offset when it copies the pipeline.
    offsets = tf.data.Dataset.from_tensors(tf.cast(offset, tf.int64))
    return offsets.flat_map(from_offset).take(count)


def _checked_path(
    check: Callable[[str], None] | None, path: bytes, offset: np.int64, count: np.int64
) -> bytes:
    if check is not None:
        check(path.decode())
    try:
        check_lengths(path.decode(), int(offset), int(count))
    except (ValueError, OSError):
        if check is not None:  # the file may have changed
            check(path.decode())
        raise
    return path
