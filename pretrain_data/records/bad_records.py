"""Finds damaged TFRecords, with file, offset and cause."""

import concurrent.futures
import contextlib
import dataclasses
import functools
import struct
from collections.abc import Iterator, Sequence

import tensorflow as tf
from google.protobuf.message import DecodeError

from electra_tf.text.framing import (
    ENCODER_INPUTS,
    INPUT_IDS,
    INPUT_MASK,
    NUM_SEGMENTS,
    SEGMENT_IDS,
)
from electra_tf.util.errors import UserError
from electra_tf.util.untuned_datasets import untuned
from pretrain_data.records.format import (
    RecordSpan,
    parse_records,
    read_span,
)
from pretrain_data.records.tfrecord_headers import (
    ALL_RECORDS,
    FRAME_BYTES,
    HEADER_BYTES,
    plausible_records,
)

# Errors of reading and parsing a bad record. TensorFlow includes the record in its message,
# which raises UnicodeDecodeError if the record is not text.
BAD_RECORD_ERRORS = (
    tf.errors.DataLossError,
    tf.errors.InvalidArgumentError,
    UnicodeDecodeError,
)

_SCAN_BATCH = 1024
_SCAN_THREADS = 8


@dataclasses.dataclass(frozen=True)
class BadRecord:
    """A damaged record.

    Attributes:
        path: the file.
        offset: byte offset of the record.
        reason: cause of the damage.
        loses_rest: whether the rest of the file is also unreadable.
    """

    path: str
    offset: int
    reason: str
    loses_rest: bool = False

    def __str__(self) -> str:
        return f"{self.path}: bad record at byte {self.offset}: {self.reason}"


@dataclasses.dataclass(frozen=True)
class FileScan:
    """Result of scanning a file: the spans of good records, and the records between them."""

    spans: tuple[RecordSpan, ...]
    num_records: int
    bad_records: tuple[BadRecord, ...]


def scan_good_records(
    files: Sequence[str], max_seq_length: int, vocab_size: int | None, flag: str
) -> list[FileScan]:
    """Reads every record of every file, several files at a time; see `scan_file`.

    Files that have not changed since an earlier call are not read again.

    Raises:
        UserError: no record is good; `flag` names the files.
    """

    def scan(path: str) -> FileScan:
        status = tf.io.gfile.stat(path)
        version = status.length, status.mtime_nsec
        return _scan_version(path, version, max_seq_length, vocab_size)

    with concurrent.futures.ThreadPoolExecutor(_SCAN_THREADS) as executor:
        scans = list(executor.map(scan, files))
    if not any(scan.num_records for scan in scans):
        bad_records = [bad_record for scan in scans for bad_record in scan.bad_records]
        first = f" The first: {bad_records[0]}" if bad_records else ""
        raise UserError(
            f"No record of {max_seq_length} tokens can be read from {flag}: all "
            f"{len(files)} files are empty or damaged.{first}"
        )
    return scans


@functools.lru_cache(maxsize=1 << 16)
def _scan_version(
    path: str, version: tuple[int, int], max_seq_length: int, vocab_size: int | None
) -> FileScan:
    return scan_file(path, max_seq_length, vocab_size)


def scan_file(path: str, max_seq_length: int | None, vocab_size: int | None) -> FileScan:
    """Reads every record of a file.

    Args:
        path: a TFRecord file.
        max_seq_length: required length of every feature; None accepts any.
        vocab_size: upper bound of the ids; None accepts any.

    Returns:
        The spans of good records, and the bad records between them.
    """
    num_records = _count_if_all_good(path, max_seq_length, vocab_size)
    if num_records is not None:
        return FileScan((RecordSpan(path, 0, num_records),), num_records, ())
    spans: list[RecordSpan] = []
    bad_records: list[BadRecord] = []
    start, count = 0, 0
    for record, offset, bad_record in iterate_records(path):
        if bad_record is None:
            problem = content_problem(record, max_seq_length, vocab_size)
            bad_record = BadRecord(path, offset, problem) if problem else None
        if bad_record is None:
            start = start if count else offset
            count += 1
            continue
        bad_records.append(bad_record)
        if count:
            spans.append(RecordSpan(path, start, count))
        count = 0
    if count:
        spans.append(RecordSpan(path, start, count))
    return FileScan(tuple(spans), sum(span.count for span in spans), tuple(bad_records))


def diagnose_bad_record(
    files: Sequence[str], max_seq_length: int | None = None, vocab_size: int | None = None
) -> BadRecord | None:
    """Finds the first bad record, to explain a `DataLossError` or a failed parse.

    Args:
        files: TFRecord files.
        max_seq_length: required length of every feature; None accepts any.
        vocab_size: upper bound of the ids; None accepts any.

    Returns:
        The first bad record, or None if all are good.
    """
    for path in files:
        if bad_records := scan_file(path, max_seq_length, vocab_size).bad_records:
            return bad_records[0]
    return None


def _count_if_all_good(
    path: str, max_seq_length: int | None, vocab_size: int | None
) -> int | None:
    """Returns the number of records, or None if the file may contain a bad one."""
    if plausible_records(path).bad_offset is not None:
        return None
    count, num_bytes = 0, 0
    try:
        for batch in untuned(tf.data.TFRecordDataset(path).batch(_SCAN_BATCH)):
            length = max_seq_length
            if length is None:
                first = tf.train.Example.FromString(batch[0].numpy())
                length = len(first.features.feature[INPUT_IDS].int64_list.value)
            parse_records(batch, length, vocab_size)
            count += int(tf.size(batch))
            num_bytes += int(tf.reduce_sum(tf.strings.length(batch)))
    except (*BAD_RECORD_ERRORS, DecodeError):
        return None
    # TensorFlow does not report a file that ends within the length of a record.
    num_bytes += count * FRAME_BYTES
    return count if num_bytes == tf.io.gfile.stat(path).length else None


def iterate_records(path: str) -> Iterator[tuple[bytes, int, BadRecord | None]]:
    """Reads a file record by record, continuing after bad records where possible.

    Yields:
        (record, offset, None), or (b"", offset, the bad record).
    """
    offset = 0
    size = tf.io.gfile.stat(path).length
    while True:
        count, bad_offset = plausible_records(path, offset)
        records = read_span(path, offset, ALL_RECORDS if bad_offset is None else count)
        # Damage is diagnosed below.
        with contextlib.suppress(tf.errors.DataLossError):
            for record in records.as_numpy_iterator():
                yield record, offset, None
                offset += FRAME_BYTES + len(record)
        if offset == size:
            return
        bad_record, offset = _diagnose(path, offset, size)
        yield b"", bad_record.offset, bad_record
        if bad_record.loses_rest:
            return


def _diagnose(path: str, offset: int, size: int) -> tuple[BadRecord, int]:
    """Returns the bad record at `offset`, and the offset of the next record."""
    with tf.io.gfile.GFile(path, "rb") as f:
        f.seek(offset)
        header = f.read(HEADER_BYTES)
    if len(header) < HEADER_BYTES:
        reason = f"the file ends {len(header)} bytes into the record's length"
        return BadRecord(path, offset, reason, loses_rest=True), size
    length, checksum = struct.unpack("<QI", header)
    if _masked_crc32c(header[:8]) != checksum:
        reason = (
            "the checksum of its length does not match; this is not a TFRecord file"
            if offset == 0
            else "the checksum of its length does not match"
        )
        return BadRecord(path, offset, reason, loses_rest=True), size
    end = offset + FRAME_BYTES + length
    if end > size:
        reason = f"the record ends at byte {end}, but the file at byte {size}: it is truncated"
        return BadRecord(path, offset, reason, loses_rest=True), size
    return BadRecord(path, offset, "the checksum of its data does not match"), end


def content_problem(
    record: bytes, max_seq_length: int | None, vocab_size: int | None = None
) -> str | None:
    """Returns why a record cannot be parsed, or None if it can."""
    try:
        features = tf.train.Example.FromString(record).features.feature
    except DecodeError:
        return "it is not a tf.train.Example"
    missing = [name for name in ENCODER_INPUTS if name not in features]
    if missing:
        return f"it lacks the feature {missing[0]!r}"
    for name in ENCODER_INPUTS:
        length = len(features[name].int64_list.value)
        if not length:
            return f"its {name} has no integers"
        expected = max_seq_length or len(features[INPUT_IDS].int64_list.value)
        if length != expected:
            return f"its {name} has {length} integers instead of {expected}"
    if vocab_size is None:
        return None
    for name, limit in (
        (INPUT_IDS, vocab_size),
        (INPUT_MASK, 2),
        (SEGMENT_IDS, NUM_SEGMENTS),
    ):
        for position, value in enumerate(features[name].int64_list.value):
            if not 0 <= value < limit:
                least = f"from 0 to {limit - 1:,}"
                known = f"ids of the vocabulary are {least}" if name == INPUT_IDS else least
                return f"its {name} has {value:,} at position {position}; {known}"
    return None


def _masked_crc32c(data: bytes) -> int:
    """Returns the checksum used in TFRecord files: CRC-32C, rotated and offset."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
