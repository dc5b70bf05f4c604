"""Finds, identifies and counts the TFRecord files of pre-training data."""

import concurrent.futures
import contextlib
import hashlib
import os
import re
from collections.abc import Callable, Iterator, Sequence

import tensorflow as tf

from electra_tf.util.errors import UserError
from electra_tf.util.file_patterns import pattern_of_files, split_patterns
from electra_tf.util.paths import is_remote
from electra_tf.util.untuned_datasets import untuned
from pretrain_data.records import manifest as records_manifest
from pretrain_data.records.bad_records import BAD_RECORD_ERRORS, diagnose_bad_record
from pretrain_data.records.tfrecord_headers import plausible_records

DEFAULT_FLAG = "--pretrain_tfrecords"

_COUNT_BATCH = 1024
_FILES_COUNTED_AT_ONCE = 8
_FINGERPRINT_BYTES = 4096
_HASHED_BYTES = 1 << 22
# Marks the path of a changed file in TensorFlow's messages.
_CHANGED = "|changed|"
_CHANGED_PATH = re.compile(rf"{re.escape(_CHANGED)}(.*?){re.escape(_CHANGED)}", re.DOTALL)
# TensorFlow's message about a file that was removed just before it is opened.
_REMOVED_PATH = re.compile(r"(?:^|\}\} )([^{}]+?); No such file or directory")
# Part of TensorFlow's messages, and of ours, about an incomplete record.
_BROKEN_RECORD = re.compile(r"record at (byte )?\d+")


def find_record_files(patterns: str | Sequence[str], flag: str = DEFAULT_FLAG) -> list[str]:
    """Resolves glob patterns to files, sorted within each pattern.

    A file that matches several patterns is listed once, even under other spellings of its
    folder or through links. Names of existing folders are literal: `data[1]/*` are the files in
    `data[1]`.

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
        # Patterns such as pretrain_tfrecords/* also match the manifest.
        matches = [p for p in matches if os.path.basename(p) != records_manifest.FILE_NAME]
        if not matches:
            raise UserError(
                f"No file matches {pattern!r} ({flag}). Build records with "
                "build_pretraining_dataset.py, or correct the pattern"
            )
        for path in matches:
            if os.path.isdir(path):
                raise UserError(
                    f"{flag}: {path} is a folder: pass files, such as "
                    "DATA_DIR/pretrain_tfrecords/pretrain_data.tfrecord*"
                )
            files.setdefault(file_identity(path), path)
    if not files:
        raise UserError(f"{flag} is empty")
    return list(files.values())


def file_identity(path: str) -> str:
    """Returns an identity that is the same for all paths of a file, including links."""
    return path if is_remote(path) else os.path.realpath(path)


def fingerprint(files: Sequence[str]) -> str:
    """Returns the SHA-256 of names, sizes, first and last bytes of files, in order.

    It changes with corpus, vocabulary, seed and order of the records; reading whole files at
    every start would take too long. It does not include folders, so files may be moved.

    Raises:
        UserError: a file cannot be read.
    """
    digest = hashlib.sha256()
    for path in files:
        size, ends = _read_ends(path)
        digest.update(f"{os.path.basename(path)} {size}\n".encode() + ends)
    return digest.hexdigest()


def content_identity(path: str) -> str:
    """Returns an identity shared by copies of a file: a hash of size, first and last bytes.

    Empty files share an identity only if one is a link to the other.

    Raises:
        UserError: the file cannot be read.
    """
    size, ends = _read_ends(path)
    return (
        hashlib.sha256(f"{size}\n".encode() + ends).hexdigest() if size else file_identity(path)
    )


def _read_ends(path: str) -> tuple[int, bytes]:
    """Returns the size of a file, and its first and last bytes."""
    try:
        with tf.io.gfile.GFile(path, "rb") as file:
            size = file.size()
            first = file.read(min(size, _FINGERPRINT_BYTES))
            file.seek(max(0, size - _FINGERPRINT_BYTES))
            return size, first + file.read(_FINGERPRINT_BYTES)
    except tf.errors.OpError as error:
        raise UserError(f"{path} cannot be read: {error.message}") from error


def changes_of(files: Sequence[str]) -> Callable[[str], None]:
    """Returns a function that raises ValueError if a local file has changed since this call.

    `locate_bad_records` turns its error into a message. Remote files are not compared.
    """
    before = {path: fingerprint([path]) for path in files if not is_remote(path)}

    def check(path: str) -> None:
        if path not in before:
            return
        with contextlib.suppress(UserError):  # it can no longer be read
            if before[path] == fingerprint([path]):
                return
        raise ValueError(f"{_CHANGED}{path}{_CHANGED}")

    return check


def file_size(path: str) -> int:
    """Returns the size of a file in bytes."""
    return tf.io.gfile.stat(path).length


def file_sha256(path: str) -> str:
    """Returns the SHA-256 of a whole file, in hexadecimal."""
    digest = hashlib.sha256()
    with tf.io.gfile.GFile(path, "rb") as file:
        while chunk := file.read(_HASHED_BYTES):
            digest.update(chunk)
    return digest.hexdigest()


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
    manifests = records_manifest.load_manifests(files)
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
    batches = untuned(tf.data.TFRecordDataset(path).batch(_COUNT_BATCH))
    return sum(int(tf.size(batch)) for batch in batches)


@contextlib.contextmanager
def locate_bad_records(
    patterns: str, flag: str, seq_length: int, vocab_size: int | None = None
) -> Iterator[None]:
    """Turns a read error into a UserError that locates the bad record.

    Args:
        patterns: files or glob patterns that are being read.
        flag: flag to name in the error.
        seq_length: sequence length of the records, in tokens.
        vocab_size: upper bound of the ids; None checks no ids.

    Raises:
        UserError: a record is damaged, or a file has changed since `changes_of`.
    """
    try:
        yield
    except (*BAD_RECORD_ERRORS, tf.errors.NotFoundError) as error:
        changed = _CHANGED_PATH.search(str(error)) or _REMOVED_PATH.search(str(error))
        if changed:
            raise UserError(
                f"{flag}: {changed[1]} was removed or replaced while it was read: restore it, "
                "and run the same command again to resume from the last checkpoint. To train "
                "on new records, start a new run"
            ) from error
        files = find_record_files(patterns, flag)
        bad_record = diagnose_bad_record(files, seq_length, vocab_size)
        if bad_record is None and _BROKEN_RECORD.search(str(error)):
            raise UserError(
                f"{flag}: a record was damaged when it was read, but is intact now: the file "
                "was still being written, or storage failed. Run the same command again to "
                "resume from the last checkpoint"
            ) from error
        if bad_record is None:
            raise
        raise UserError(
            f"{flag}: {bad_record}. Rebuild the file, or skip bad records with "
            "--skip_bad_records"
        ) from error
