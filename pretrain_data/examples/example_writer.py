"""Writes examples to TFRecord shards in the authors' format.

A record is a `tf.train.Example` of int64 `input_ids`, `input_mask` and `segment_ids`,
padded with 0 to the same length. It is encoded by hand: the protobuf classes would take
several times as long as the rest of the build.
"""

import contextlib
import functools
import pathlib
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import tensorflow as tf

from electra_tf.text.framing import INPUT_IDS, INPUT_MASK, SEGMENT_IDS, Framed
from electra_tf.util.errors import UserError, reason_of
from pretrain_data.examples.shard_names import shard_name

WRITE_ERRORS = (tf.errors.OpError, OSError)


class ExampleWriter:
    """Writes examples to shards, round-robin.

    Attributes:
        num_written: number of examples written.
    """

    def __init__(
        self,
        output_dir: pathlib.Path,
        shard_indices: Iterable[int],
        num_shards: int,
        max_seq_length: int,
        vocab_size: int,
    ):
        """Opens the shards, overwriting existing files.

        Args:
            output_dir: existing folder.
            shard_indices: shards of this writer, at least one.
            num_shards: number of shards of all writers.
            max_seq_length: padded length of every record.
            vocab_size: upper bound of the ids.

        Raises:
            UserError: a file cannot be written.
        """
        self._output_dir = output_dir
        self._names = [shard_name(i, num_shards) for i in shard_indices]
        with self._naming_errors():
            self._writers = [
                tf.io.TFRecordWriter(str(output_dir / name)) for name in self._names
            ]
        self._serializer = ExampleSerializer(max_seq_length, vocab_size)
        self.num_written = 0

    def write(self, examples: Sequence[Framed]) -> None:
        """Writes each example to the next shard; raises UserError if the disk is full."""
        records = self._serializer.serialize(examples)
        try:
            for record in records:
                self._writers[self.num_written % len(self._writers)].write(record)
                self.num_written += 1
        except WRITE_ERRORS as error:
            raise self._write_error(error) from error

    def close(self) -> dict[str, int]:
        """Closes the files.

        Returns:
            The number of records of each shard, by file name.

        Raises:
            UserError: a file cannot be written.
        """
        with self._naming_errors():
            for writer in self._writers:
                # Closing alone would not report what cannot be written.
                writer.flush()
                writer.close()
        whole, rest = divmod(self.num_written, len(self._writers))
        return {name: whole + (i < rest) for i, name in enumerate(self._names)}

    @contextlib.contextmanager
    def _naming_errors(self) -> Iterator[None]:
        try:
            yield
        except WRITE_ERRORS as error:
            raise self._write_error(error) from error

    def _write_error(self, error: Exception) -> UserError:
        return UserError(f"Records cannot be written in {self._output_dir}: {reason_of(error)}")


class ExampleSerializer:
    """Serializes examples as `tf.train.Example`, with its keys in alphabetical order."""

    def __init__(self, max_seq_length: int, vocab_size: int):
        self._max_seq_length = max_seq_length
        varints = [_varint(i) for i in range(vocab_size)]
        self._num_bytes = np.array([len(each) for each in varints], np.intp)
        # uint8 [vocab_size, bytes], padded.
        self._varints = np.array(varints).view(np.uint8).reshape(vocab_size, -1)
        # Mask and segments take one byte per position. Parts that depend on few values are
        # cached.
        self._segments_header = _feature_header(SEGMENT_IDS.encode(), max_seq_length)
        self._mask = functools.cache(self._encode_mask)
        self._headers = functools.cache(self._encode_headers)

    def serialize(self, examples: Sequence[Framed]) -> list[bytes]:
        """Returns the records of examples, each padded to `max_seq_length`."""
        ids = np.frombuffer(b"".join([each.input_ids for each in examples]), np.intc)
        num_bytes = self._num_bytes[ids]
        is_used = np.arange(self._varints.shape[1]) < num_bytes[:, np.newaxis]
        encoded = self._varints[ids][is_used].tobytes()
        lengths = [len(each.input_ids) for each in examples]
        ends = np.concatenate([[0], np.cumsum(num_bytes)])[np.cumsum([0, *lengths])].tolist()
        return [
            self._record(each.first_length, length, encoded[start:end])
            for each, length, start, end in zip(examples, lengths, ends, ends[1:], strict=False)
        ]

    def _record(self, first_length: int, length: int, ids: bytes) -> bytes:
        padding = bytes(self._max_seq_length - length)
        return b"".join(
            (
                self._headers(len(ids) + len(padding)),
                ids,
                padding,
                self._mask(length),
                self._segments_header,
                bytes(first_length),
                b"\1" * (length - first_length),
                padding,
            )
        )

    def _encode_headers(self, num_bytes_of_ids: int) -> bytes:
        """Returns what comes before the ids."""
        header = _feature_header(INPUT_IDS.encode(), num_bytes_of_ids)
        content = len(header) + num_bytes_of_ids + len(self._mask(0))
        content += len(self._segments_header) + self._max_seq_length
        return _header(1, content) + header

    def _encode_mask(self, length: int) -> bytes:
        mask = b"\1" * length + bytes(self._max_seq_length - length)
        return _feature_header(INPUT_MASK.encode(), len(mask)) + mask


def _feature_header(name: bytes, num_bytes: int) -> bytes:
    """Encodes an entry of the map `Features.feature`, `Feature(int64_list)`, up to its values.

    Args:
        name: key of the entry.
        num_bytes: size of the encoded values.
    """
    int64_list = _header(1, num_bytes)
    feature = _header(3, len(int64_list) + num_bytes) + int64_list
    key = _header(1, len(name)) + name
    value = _header(2, len(feature) + num_bytes) + feature
    return _header(1, len(key) + len(value) + num_bytes) + key + value


def _header(number: int, num_bytes: int) -> bytes:
    """Encodes the start of a length-delimited protobuf field."""
    return bytes([number << 3 | 2]) + _varint(num_bytes)


@functools.cache
def _varint(value: int) -> bytes:
    """Encodes a non-negative integer as a protobuf varint."""
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)
