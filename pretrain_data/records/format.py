"""The authors' record format: reading and parsing serialized records."""

import dataclasses

import tensorflow as tf

FEATURES = ("input_ids", "input_mask", "segment_ids")
ALL_RECORDS = -1
_READ_BYTES = 1 << 20


@dataclasses.dataclass(frozen=True)
class RecordSpan:
    """`count` consecutive good records of a file, from byte `offset`; -1 is all."""

    path: str
    offset: int = 0
    count: int = ALL_RECORDS


def parse_records(records: tf.Tensor, max_seq_length: int) -> dict[str, tf.Tensor]:
    """Parses a batch of serialized records.

    Args:
        records: string (batch).
        max_seq_length: length of every feature.

    Returns:
        int32 (batch, max_seq_length) for each of `FEATURES`.
    """
    feature = tf.io.FixedLenFeature([max_seq_length], tf.int64)
    parsed = tf.io.parse_example(records, dict.fromkeys(FEATURES, feature))
    return {name: tf.cast(parsed[name], tf.int32) for name in FEATURES}


def read_span(
    path: str | tf.Tensor, offset: int | tf.Tensor, count: int | tf.Tensor
) -> tf.data.Dataset:
    """Reads `count` serialized records (-1: all) of a file, starting at a byte offset."""
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
