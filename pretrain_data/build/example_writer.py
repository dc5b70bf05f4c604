"""Writes examples to TFRecord shards in the authors' format.

A record is a `tf.train.Example` of int64 `input_ids`, `input_mask` and `segment_ids`,
padded with 0 to the same length. It is encoded by hand: the protobuf classes would take
several times as long as the rest of the build.
"""

import contextlib
import functools
import pathlib
from collections.abc import Iterable, Iterator

import tensorflow as tf

from electra_tf.text.framing import Framed
from electra_tf.util.errors import UserError, reason_of

FILE_PREFIX = "pretrain_data.tfrecord"
_WRITE_ERRORS = (tf.errors.OpError, OSError)


def shard_name(index: int, num_shards: int) -> str:
    """File name of one shard: `pretrain_data.tfrecord-{index}-of-{num_shards}`."""
    return f"{FILE_PREFIX}-{index}-of-{num_shards}"


class ExampleWriter:
    """Writes examples to shards, round-robin.

    Attributes:
        num_written: number of examples written.
        num_tokens: number of tokens in them, without [CLS] and [SEP].
        num_padding: number of positions that are padding.
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
            output_dir: existing directory.
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
        self._max_seq_length = max_seq_length
        self.num_written = 0
        self.num_tokens = 0
        self.num_padding = 0

    def write(self, example: Framed) -> None:
        """Writes one example to the next shard; raises UserError if the disk is full."""
        writer = self._writers[self.num_written % len(self._writers)]
        record = self._serializer.serialize(example)
        try:
            writer.write(record)
        except _WRITE_ERRORS as error:
            raise self._write_error(error) from error
        self.num_written += 1
        length = len(example.input_ids)
        self.num_tokens += length - example.num_special
        self.num_padding += self._max_seq_length - length

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
        except _WRITE_ERRORS as error:
            raise self._write_error(error) from error

    def _write_error(self, error: Exception) -> UserError:
        return UserError(
            f"Records cannot be written in {self._output_dir}: {reason_of(error)}."
        )


class ExampleSerializer:
    """Serializes examples as `tf.train.Example`, with its keys in alphabetical order."""

    def __init__(self, max_seq_length: int, vocab_size: int):
        self._max_seq_length = max_seq_length
        self._encoded_ids = [_varint(i) for i in range(vocab_size)]
        self._mask_and_segments = functools.lru_cache(4096)(self._encode_mask_and_segments)

    def serialize(self, example: Framed) -> bytes:
        """Returns the record of `example`, padded to `max_seq_length`."""
        length = len(example.input_ids)
        ids = b"".join(map(self._encoded_ids.__getitem__, example.input_ids))
        ids += bytes(self._max_seq_length - length)
        features = _feature(b"input_ids", ids)
        features += self._mask_and_segments(example.first_length, length)
        return _field(1, features)

    def _encode_mask_and_segments(self, first_length: int, length: int) -> bytes:
        padding = bytes(self._max_seq_length - length)
        mask = b"\1" * length + padding
        segments = bytes(first_length) + b"\1" * (length - first_length) + padding
        return _feature(b"input_mask", mask) + _feature(b"segment_ids", segments)


def _feature(name: bytes, packed_values: bytes) -> bytes:
    """Encodes one entry of the map `Features.feature`: name to `Feature(int64_list)`."""
    int64_list = _field(1, packed_values)
    return _field(1, _field(1, name) + _field(2, _field(3, int64_list)))


def _field(number: int, content: bytes) -> bytes:
    """Encodes a length-delimited protobuf field."""
    return bytes([number << 3 | 2]) + _varint(len(content)) + content


@functools.cache
def _varint(value: int) -> bytes:
    """Encodes a non-negative integer as a protobuf varint."""
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)
