"""Finds TFRecord files of pre-training data and tells good records from bad ones."""

import concurrent.futures
import dataclasses
import os
import struct
from collections.abc import Iterator, Sequence

import tensorflow as tf

from electra_tf.errors import UserError
from pretrain_data.manifest import load_manifest

FEATURES = ("input_ids", "input_mask", "segment_ids")
DEFAULT_FLAG = "--pretrain_tfrecords"

# A TFRecord: length (8 bytes), its checksum (4), the data, their checksum (4).
_HEADER_BYTES = 12
_FRAME_BYTES = 16
_SCAN_BATCH = 1024
_SCAN_THREADS = 8
_TO_THE_END = -1


@dataclasses.dataclass(frozen=True)
class BadRecord:
    """A place in a file where no usable record is.

    Attributes:
        path: the file.
        offset: byte at which the record starts.
        reason: what is wrong with it.
        loses_rest: whether the records after it in the file cannot be found any more.
    """

    path: str
    offset: int
    reason: str
    loses_rest: bool = False

    def __str__(self) -> str:
        return f"{self.path}: bad record at byte {self.offset}: {self.reason}"


@dataclasses.dataclass(frozen=True)
class Run:
    """Good records that follow each other in a file: `count` from `offset`; -1 is all."""

    path: str
    offset: int = 0
    count: int = _TO_THE_END


@dataclasses.dataclass(frozen=True)
class FileScan:
    """What reading a whole file found; `num_records` counts the good ones."""

    runs: tuple[Run, ...]
    num_records: int
    bad_records: tuple[BadRecord, ...]


def find_record_files(patterns: str | Sequence[str], flag: str = DEFAULT_FLAG) -> list[str]:
    """Resolves file names and wildcards to files, sorted within each pattern.

    Args:
        patterns: one or several, also separated by commas.
        flag: flag that errors name.

    Raises:
        UserError: a pattern matches no file.
    """
    if isinstance(patterns, str):
        patterns = [patterns]
    patterns = [p.strip() for pattern in patterns for p in str(pattern).split(",")]
    patterns = [pattern for pattern in patterns if pattern]
    files: dict[str, None] = {}
    for pattern in patterns:
        matches = sorted(tf.io.gfile.glob(pattern))
        if not matches:
            raise UserError(
                f"No file matches {pattern!r} ({flag}). Build records with "
                "build_pretraining_dataset.py, or correct the pattern."
            )
        files.update(dict.fromkeys(matches))
    if not files:
        raise UserError(f"{flag} names no file.")
    return list(files)


def count_records(files: Sequence[str]) -> int:
    """Counts records: from the manifests beside them, else by reading the files.

    Raises:
        UserError: a file without a manifest is damaged.
    """
    known, unknown = 0, []
    manifests = {d: load_manifest(d) for d in {os.path.dirname(path) for path in files}}
    for path in files:
        manifest = manifests[os.path.dirname(path)]
        count = manifest.shards.get(os.path.basename(path)) if manifest else None
        if count is None:
            unknown.append(path)
        else:
            known += count
    batches = tf.data.TFRecordDataset(unknown, num_parallel_reads=_SCAN_THREADS).batch(
        _SCAN_BATCH
    )
    try:
        return known + sum(int(tf.size(batch)) for batch in batches)
    except tf.errors.DataLossError as error:
        raise UserError(str(diagnose_bad_record(unknown) or error)) from error


def check_sequence_length(
    files: Sequence[str], max_seq_length: int, flag: str = DEFAULT_FLAG
) -> None:
    """Compares `max_seq_length` with the manifests, or with the first record.

    Raises:
        UserError: the records have another length, or there is no record to look at.
    """
    actual, source = _recorded_length(files, flag)
    if actual != max_seq_length:
        raise UserError(
            f"--max_seq_length is {max_seq_length}, but the records hold {actual} tokens each "
            f"({source}, {flag}). Set --max_seq_length={actual}, or build records of "
            f"{max_seq_length} tokens."
        )


def _recorded_length(files: Sequence[str], flag: str) -> tuple[int, str]:
    for directory in sorted({os.path.dirname(path) for path in files}):
        manifest = load_manifest(directory)
        if manifest and any(os.path.basename(path) in manifest.shards for path in files):
            return manifest.max_seq_length, os.path.join(directory, "pretrain_data.json")
    for path in files:
        for record, _, problem in _walk(path):
            problem = problem or _content_problem(record, None)
            if problem:
                continue
            example = tf.train.Example.FromString(record)
            return len(example.features.feature["input_ids"].int64_list.value), path
    raise UserError(f"There is no readable record in the files of {flag}, {files[0]} and on.")


def scan_files(files: Sequence[str], max_seq_length: int) -> list[FileScan]:
    """Reads every record of every file, several files at a time; see `scan_file`."""
    with concurrent.futures.ThreadPoolExecutor(_SCAN_THREADS) as executor:
        return list(executor.map(lambda path: scan_file(path, max_seq_length), files))


def scan_file(path: str, max_seq_length: int | None) -> FileScan:
    """Reads every record of a file.

    Args:
        path: a TFRecord file.
        max_seq_length: length that every feature must have; None takes any.

    Returns:
        The runs of good records, and the bad records between them.
    """
    num_records = _count_if_all_good(path, max_seq_length)
    if num_records is not None:
        return FileScan((Run(path, 0, num_records),), num_records, ())
    runs: list[Run] = []
    bad_records: list[BadRecord] = []
    start, count = 0, 0
    for record, offset, bad_record in _walk(path):
        if bad_record is None:
            problem = _content_problem(record, max_seq_length)
            bad_record = BadRecord(path, offset, problem) if problem else None
        if bad_record is None:
            start = start if count else offset
            count += 1
            continue
        bad_records.append(bad_record)
        if count:
            runs.append(Run(path, start, count))
        count = 0
    if count:
        runs.append(Run(path, start, count))
    return FileScan(tuple(runs), sum(run.count for run in runs), tuple(bad_records))


def diagnose_bad_record(
    files: Sequence[str], max_seq_length: int | None = None
) -> BadRecord | None:
    """Finds the first bad record, to explain a `DataLossError` or a failed parse.

    Args:
        files: TFRecord files.
        max_seq_length: length that every feature must have; None takes any.

    Returns:
        The first bad record, or None when every one is good.
    """
    for path in files:
        if bad_records := scan_file(path, max_seq_length).bad_records:
            return bad_records[0]
    return None


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


def _count_if_all_good(path: str, max_seq_length: int | None) -> int | None:
    """Counts the records; None if a look at each of them is needed."""
    count = 0
    try:
        for batch in tf.data.TFRecordDataset(path).batch(_SCAN_BATCH):
            length = max_seq_length
            if length is None:
                first = tf.train.Example.FromString(batch[0].numpy())
                length = len(first.features.feature["input_ids"].int64_list.value)
            parse_records(batch, length)
            count += int(tf.size(batch))
    except (tf.errors.DataLossError, tf.errors.InvalidArgumentError, ValueError):
        return None
    return count


def _walk(path: str) -> Iterator[tuple[bytes, int, BadRecord | None]]:
    """Yields each record with its offset, or an empty one with what is wrong there."""
    offset = 0
    size = tf.io.gfile.stat(path).length
    while True:
        records = records_of_run(path, offset, _TO_THE_END)
        try:
            for record in records.as_numpy_iterator():
                yield record, offset, None
                offset += _FRAME_BYTES + len(record)
        except tf.errors.DataLossError:
            bad_record, offset = _inspect(path, offset, size)
            yield b"", bad_record.offset, bad_record
            if bad_record.loses_rest:
                return
            continue
        return


def _inspect(path: str, offset: int, size: int) -> tuple[BadRecord, int]:
    """Says what is wrong at `offset`, and where the next record starts."""
    with tf.io.gfile.GFile(path, "rb") as f:
        f.seek(offset)
        header = f.read(_HEADER_BYTES)
    if len(header) < _HEADER_BYTES:
        reason = f"the file ends {len(header)} bytes into the record's length"
        return BadRecord(path, offset, reason, loses_rest=True), size
    length, checksum = struct.unpack("<QI", header)
    if _masked_crc32c(header[:8]) != checksum:
        reason = (
            "the checksum of its length does not match; this is no TFRecord file"
            if offset == 0
            else "the checksum of its length does not match"
        )
        return BadRecord(path, offset, reason, loses_rest=True), size
    end = offset + _FRAME_BYTES + length
    if end > size:
        reason = f"the record ends at byte {end}, but the file at byte {size}: it is truncated"
        return BadRecord(path, offset, reason, loses_rest=True), size
    return BadRecord(path, offset, "the checksum of its data does not match"), end


def records_of_run(path: str, offset: int, count: int) -> tf.data.Dataset:
    """Reads `count` serialized records (-1: all) of a file from a byte offset on.

    `tf.data.TFRecordDataset` offers no offset, though the operation beneath it does.
    """
    variant = tf.raw_ops.TFRecordDatasetV2(
        filenames=tf.reshape(path, [1]),
        compression_type="",
        buffer_size=1 << 20,
        byte_offsets=tf.reshape(tf.cast(offset, tf.int64), [1]),
    )
    dataset = tf.data.experimental.from_variant(variant, tf.TensorSpec([], tf.string))
    return dataset.take(count)


def _content_problem(record: bytes, max_seq_length: int | None) -> str | None:
    try:
        features = tf.train.Example.FromString(record).features.feature
    except ValueError:
        # protobuf's DecodeError is a ValueError.
        return "it is not a tf.train.Example"
    missing = [name for name in FEATURES if name not in features]
    if missing:
        return f"it lacks the feature {missing[0]!r}"
    for name in FEATURES:
        length = len(features[name].int64_list.value)
        expected = max_seq_length or len(features["input_ids"].int64_list.value)
        if length != expected:
            return f"its {name} has {length} integers instead of {expected}"
    return None


def _masked_crc32c(data: bytes) -> int:
    """The checksum of TFRecord files: CRC-32C, rotated and shifted."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
