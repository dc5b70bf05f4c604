"""Finds, counts and checks the TFRecord files of pre-training data."""

import concurrent.futures
import contextlib
import hashlib
import os
from collections.abc import Iterator, Sequence

import tensorflow as tf

from electra_tf.text.description import SETTINGS, TokenizerDescription
from electra_tf.text.vocabulary import Vocabulary
from electra_tf.util.errors import UserError
from electra_tf.util.file_patterns import pattern_of_files, split_patterns
from electra_tf.util.paths import is_remote
from pretrain_data.records import manifest as records_manifest
from pretrain_data.records.bad_records import (
    BAD_RECORD_ERRORS,
    content_problem,
    diagnose_bad_record,
    iterate_records,
)
from pretrain_data.records.completeness import check_shards, warn_of_unlisted
from pretrain_data.records.lengths import plausible_records
from pretrain_data.records.manifest import Manifest

DEFAULT_FLAG = "--pretrain_tfrecords"

_COUNT_BATCH = 1024
_FILES_COUNTED_AT_ONCE = 8
_FINGERPRINT_BYTES = 4096
_HASHED_BYTES = 1 << 22


def find_record_files(patterns: str | Sequence[str], flag: str = DEFAULT_FLAG) -> list[str]:
    """Resolves glob patterns to files, sorted within each pattern.

    A file that several patterns match, however they spell its folder, is listed once. The
    characters of a folder that exists mean themselves: `data[1]/*` are the files of `data[1]`.

    Args:
        patterns: one or several patterns, comma-separated or as a sequence.
        flag: flag to name in errors.

    Raises:
        UserError: a pattern matches no file, or a folder.
    """
    if isinstance(patterns, str):
        patterns = [patterns]
    files: dict[str, str] = {}
    for pattern in (p for given in patterns for p in split_patterns(str(given))):
        matches = sorted(tf.io.gfile.glob(pattern_of_files(pattern)))
        # Patterns such as pretrain_tfrecords/* match the manifest, too.
        matches = [p for p in matches if os.path.basename(p) != records_manifest.FILE_NAME]
        if not matches:
            raise UserError(
                f"No file matches {pattern!r} ({flag}). Build records with "
                "build_pretraining_dataset.py, or correct the pattern."
            )
        for path in matches:
            if os.path.isdir(path):
                raise UserError(
                    f"{flag}: {path} is a folder: pass files, such as "
                    "DATA_DIR/pretrain_tfrecords/pretrain_data.tfrecord*"
                )
            identity = path if is_remote(path) else os.path.abspath(path)
            files.setdefault(identity, path)
    if not files:
        raise UserError(f"{flag} is empty.")
    return list(files.values())


def fingerprint(files: Sequence[str]) -> str:
    """Returns the SHA-256 of names, sizes, first and last bytes of files, in their order.

    Records of another corpus, vocabulary, seed or order differ in it; reading all of a corpus
    would take too long for every start. Folders are not part of it, so files may be moved.

    Raises:
        UserError: a file cannot be read.
    """
    digest = hashlib.sha256()
    for path in files:
        try:
            with tf.io.gfile.GFile(path, "rb") as file:
                size = file.size()
                first = file.read(min(size, _FINGERPRINT_BYTES))
                file.seek(max(0, size - _FINGERPRINT_BYTES))
                last = file.read(_FINGERPRINT_BYTES)
        except tf.errors.OpError as error:
            raise UserError(f"{path} cannot be read: {error.message}") from error
        digest.update(f"{os.path.basename(path)} {size}\n".encode() + first + last)
    return digest.hexdigest()


def file_sha256(path: str) -> str:
    """Returns the SHA-256 of all of a file, in hexadecimal."""
    digest = hashlib.sha256()
    with tf.io.gfile.GFile(path, "rb") as file:
        while chunk := file.read(_HASHED_BYTES):
            digest.update(chunk)
    return digest.hexdigest()


def count_records(files: Sequence[str]) -> int:
    """Counts the records of all files; see `count_records_by_file`."""
    return sum(count_records_by_file(files))


def count_records_by_file(files: Sequence[str]) -> list[int]:
    """Counts the records of each file, from the manifest beside it or by reading the file.

    Raises:
        UserError: a file without a manifest is damaged.
    """
    counts = built_counts(files)
    unknown = [path for path in files if path not in counts]
    try:
        with concurrent.futures.ThreadPoolExecutor(_FILES_COUNTED_AT_ONCE) as threads:
            counts.update(zip(unknown, threads.map(_count_by_reading, unknown), strict=True))
    except tf.errors.DataLossError as error:
        raise UserError(str(diagnose_bad_record(unknown) or error)) from error
    return [counts[path] for path in files]


def built_counts(files: Sequence[str]) -> dict[str, int]:
    """Returns the numbers of records in the manifests, by path."""
    manifests = _manifests(files)
    counts: dict[str, int] = {}
    for path in files:
        manifest = manifests[os.path.dirname(path)]
        count = manifest.shards.get(os.path.basename(path)) if manifest else None
        if count is not None:
            counts[path] = count
    return counts


def _count_by_reading(path: str) -> int:
    bad_offset = plausible_records(path).bad_offset
    if bad_offset is not None:
        raise tf.errors.DataLossError(None, None, f"{path}: bad record at byte {bad_offset}")
    batches = tf.data.TFRecordDataset(path).batch(_COUNT_BATCH)
    return sum(int(tf.size(batch)) for batch in batches)


def check_built_files(files: Sequence[str], *, skip_bad_records: bool = False) -> None:
    """Compares file names and, unless bad records are skipped, file sizes with the manifests.

    Sizes detect files truncated between two records, which read without errors. Missing shards
    are found too, and files that a manifest does not list are warned of.

    Raises:
        UserError: a shard is missing, or a file has another size than when it was built.
    """
    manifests = _manifests(files)
    warn_of_unlisted(files, manifests)
    if skip_bad_records:
        return
    check_shards(files, manifests)
    for path in files:
        manifest = manifests[os.path.dirname(path)]
        expected = manifest.shard_bytes.get(os.path.basename(path)) if manifest else None
        actual = tf.io.gfile.stat(path).length
        if expected not in (None, actual):
            bad_record = diagnose_bad_record([path])
            raise UserError(
                f"{path} has {actual:,} bytes, but was built with {expected:,} "
                f"({records_manifest.FILE_NAME} beside it). {bad_record or ''}\nRebuild the "
                "records, or read the intact ones with --skip_bad_records."
            )


def find_checked_record_files(
    patterns: str | Sequence[str],
    max_seq_length: int,
    flag: str = DEFAULT_FLAG,
    *,
    skip_bad_records: bool = False,
) -> list[str]:
    """Returns the matching files after checking their sizes and sequence length.

    Raises:
        UserError: no file matches, the manifest has another length, or (unless bad records
            are skipped) a file size differs from the manifest or the records have another
            length.
    """
    files = find_record_files(patterns, flag)
    check_built_files(files, skip_bad_records=skip_bad_records)
    if not skip_bad_records or _length_of_manifest(files):
        check_sequence_length(files, max_seq_length, flag)
    return files


def check_records(
    patterns: str | Sequence[str],
    max_seq_length: int,
    flag: str = DEFAULT_FLAG,
    *,
    vocabulary: Vocabulary,
    tokenizer: TokenizerDescription,
    skip_bad_records: bool = False,
) -> None:
    """Compares records with a length and, where there are manifests, with a tokenizer.

    Args:
        patterns: files and wildcards, also separated by commas.
        max_seq_length: length of the records.
        flag: flag that errors name.
        vocabulary: that of the model.
        tokenizer: that of the model.
        skip_bad_records: leave sizes, and the length of records without manifest, unchecked.

    Raises:
        UserError: see `find_checked_record_files`, or the records were built with another
            vocabulary or other settings.
    """
    files = find_checked_record_files(
        patterns, max_seq_length, flag, skip_bad_records=skip_bad_records
    )
    check_vocabulary(files, vocabulary, flag)
    for directory, manifest in sorted(_manifests(files).items()):
        if manifest is None:
            continue
        built_with = manifest.tokenizer_description
        for name in SETTINGS:
            if getattr(built_with, name) != getattr(tokenizer, name):
                theirs = str(getattr(built_with, name)).lower()
                raise UserError(
                    f"--{name} is {str(getattr(tokenizer, name)).lower()}, but the records of "
                    f"{flag} in {directory} were built with {theirs}: pass --{name}={theirs}, "
                    "or build them again"
                )


def check_vocabulary(
    files: Sequence[str], vocabulary: Vocabulary, flag: str = DEFAULT_FLAG
) -> None:
    """Compares a vocabulary with the manifests, where there are any.

    Raises:
        UserError: records were built with another one.
    """
    for directory, manifest in sorted(_manifests(files).items()):
        if manifest is not None and manifest.vocab_sha256 != vocabulary.sha256:
            raise UserError(
                f"The records of {flag} in {directory} were built with a different vocabulary "
                f"than --vocab_file={vocabulary.path}: use the one they were built with"
            )


def check_sequence_length(
    files: Sequence[str], max_seq_length: int, flag: str = DEFAULT_FLAG
) -> None:
    """Compares `max_seq_length` with the manifests, or with the first record.

    Raises:
        UserError: the records have another length, or none is readable.
    """
    actual, source = recorded_length(files, flag)
    if actual != max_seq_length:
        raise UserError(
            f"--max_seq_length is {max_seq_length}, but the records have {actual} tokens "
            f"({source}, {flag}). Set --max_seq_length={actual}, or build records of "
            f"{max_seq_length} tokens."
        )


def _manifests(files: Sequence[str]) -> dict[str, Manifest | None]:
    directories = dict.fromkeys(os.path.dirname(path) for path in files)
    return {directory: records_manifest.load_manifest(directory) for directory in directories}


def _length_of_manifest(files: Sequence[str]) -> tuple[int, str] | None:
    for directory, manifest in _manifests(files).items():
        if manifest and any(os.path.basename(path) in manifest.shards for path in files):
            return manifest.max_seq_length, os.path.join(directory, records_manifest.FILE_NAME)
    return None


def recorded_length(files: Sequence[str], flag: str = DEFAULT_FLAG) -> tuple[int, str]:
    """Returns the sequence length of records, and the manifest or the file that has it.

    Raises:
        UserError: there is neither a manifest nor a readable record.
    """
    if found := _length_of_manifest(files):
        return found
    for path in files:
        for record, _, problem in iterate_records(path):
            problem = problem or content_problem(record, None)
            if problem:
                continue
            example = tf.train.Example.FromString(record)
            return len(example.features.feature["input_ids"].int64_list.value), path
    raise UserError(f"No readable record in {flag} ({len(files)} files, first: {files[0]}).")


@contextlib.contextmanager
def locate_bad_records(
    patterns: str, flag: str, seq_length: int, vocab_size: int | None = None
) -> Iterator[None]:
    """Turns a read error into a UserError that locates the bad record."""
    try:
        yield
    except BAD_RECORD_ERRORS as error:
        files = find_record_files(patterns, flag)
        bad_record = diagnose_bad_record(files, seq_length, vocab_size)
        if bad_record is None:
            raise
        raise UserError(
            f"{flag}: {bad_record}. Rebuild the file, or skip bad records with "
            "--skip_bad_records"
        ) from error
