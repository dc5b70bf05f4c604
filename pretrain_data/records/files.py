"""Finds the TFRecord files of pre-training data, and compares them with what is expected."""

import concurrent.futures
import contextlib
import os
from collections.abc import Iterator, Sequence

import tensorflow as tf

from electra_tf.util.errors import UserError
from pretrain_data.records import manifest as records_manifest
from pretrain_data.records.bad_records import (
    BAD_RECORD_ERRORS,
    content_problem,
    diagnose_bad_record,
    iterate_records,
)
from pretrain_data.records.manifest import Manifest

DEFAULT_FLAG = "--pretrain_tfrecords"

_COUNT_BATCH = 1024
_FILES_COUNTED_AT_ONCE = 8


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
    """Counts the records of all files; see `count_records_by_file`."""
    return sum(count_records_by_file(files))


def count_records_by_file(files: Sequence[str]) -> list[int]:
    """Counts the records of each file: from the manifest beside it, else by reading it.

    Raises:
        UserError: a file without a manifest is damaged.
    """
    manifests = _manifests(files)
    counts: dict[str, int] = {}
    for path in files:
        manifest = manifests[os.path.dirname(path)]
        count = manifest.shards.get(os.path.basename(path)) if manifest else None
        if count is not None:
            counts[path] = count
    unknown = [path for path in files if path not in counts]
    try:
        with concurrent.futures.ThreadPoolExecutor(_FILES_COUNTED_AT_ONCE) as threads:
            counts.update(zip(unknown, threads.map(_count_by_reading, unknown), strict=True))
    except tf.errors.DataLossError as error:
        raise UserError(str(diagnose_bad_record(unknown) or error)) from error
    return [counts[path] for path in files]


def _count_by_reading(path: str) -> int:
    batches = tf.data.TFRecordDataset(path).batch(_COUNT_BATCH)
    return sum(int(tf.size(batch)) for batch in batches)


def check_file_sizes(files: Sequence[str]) -> None:
    """Compares the files with the manifests beside them.

    A file that was cut between two records reads like a whole one.

    Raises:
        UserError: a file has another size than it had when it was built.
    """
    manifests = _manifests(files)
    for path in files:
        manifest = manifests[os.path.dirname(path)]
        expected = manifest.shard_bytes.get(os.path.basename(path)) if manifest else None
        actual = tf.io.gfile.stat(path).length
        if expected not in (None, actual):
            bad_record = diagnose_bad_record([path])
            raise UserError(
                f"{path} has {actual:,} bytes, but was built with {expected:,} "
                f"({records_manifest.FILE_NAME} beside it). {bad_record or ''}\nBuild the "
                "records again, or read what is left with --skip_bad_records."
            )


def find_checked_record_files(
    patterns: str | Sequence[str],
    max_seq_length: int,
    flag: str = DEFAULT_FLAG,
    *,
    skip_bad_records: bool = False,
) -> list[str]:
    """Returns the files that match, after a look at their sizes and sequence length.

    Raises:
        UserError: no file matches, a file is of another size than its manifest says (unless
            bad records are skipped), or the records have another length.
    """
    files = find_record_files(patterns, flag)
    if not skip_bad_records:
        check_file_sizes(files)
        check_sequence_length(files, max_seq_length, flag)
    return files


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


def _manifests(files: Sequence[str]) -> dict[str, Manifest | None]:
    directories = dict.fromkeys(os.path.dirname(path) for path in files)
    return {directory: records_manifest.load_manifest(directory) for directory in directories}


def _recorded_length(files: Sequence[str], flag: str) -> tuple[int, str]:
    for directory, manifest in _manifests(files).items():
        if manifest and any(os.path.basename(path) in manifest.shards for path in files):
            return manifest.max_seq_length, os.path.join(directory, records_manifest.FILE_NAME)
    for path in files:
        for record, _, problem in iterate_records(path):
            problem = problem or content_problem(record, None)
            if problem:
                continue
            example = tf.train.Example.FromString(record)
            return len(example.features.feature["input_ids"].int64_list.value), path
    raise UserError(f"There is no readable record in the files of {flag}, {files[0]} and on.")


@contextlib.contextmanager
def locate_bad_records(patterns: str, flag: str, seq_length: int) -> Iterator[None]:
    """Raises UserError with the file and the place of a record that cannot be read."""
    try:
        yield
    except BAD_RECORD_ERRORS as error:
        files = find_record_files(patterns, flag)
        bad_record = diagnose_bad_record(files, seq_length)
        if bad_record is None:
            raise
        raise UserError(
            f"{flag}: {bad_record}. Build the file again, or pass over bad records "
            "with --skip_bad_records"
        ) from error
