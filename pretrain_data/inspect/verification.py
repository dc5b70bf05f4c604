"""Verifies every record of a set of files against the manifests beside them."""

import concurrent.futures
import dataclasses
import os
import sys
from collections.abc import Iterator, Sequence

import tensorflow as tf
import tqdm

from electra_tf.util.errors import UserError
from pretrain_data.records import manifest as records_manifest
from pretrain_data.records.bad_records import FileScan, scan_file
from pretrain_data.records.files import DEFAULT_FLAG, file_sha256, file_size
from pretrain_data.records.manifest import Manifest

_FILES_READ_AT_ONCE = 8


@dataclasses.dataclass(frozen=True)
class VerifiedFile:
    """A file without damage.

    Attributes:
        path: the file.
        num_records, num_bytes: its size.
        in_manifest: whether the size was compared with a manifest.
    """

    path: str
    num_records: int
    num_bytes: int
    in_manifest: bool


def verify_files(
    files: Sequence[str], vocab_size: int, flag: str = DEFAULT_FLAG
) -> list[VerifiedFile]:
    """Reads every record, and compares files with the manifests beside them.

    Checks of every record its length and both checksums, its features and their lengths, and
    the range of all values; of every file, that the manifest lists it with the same number of
    records and bytes, and the same hash; of every folder, that no shard is missing.

    Args:
        files: TFRecord files, with or without a manifest.
        vocab_size: upper bound of the ids.
        flag: flag to name in errors.

    Raises:
        UserError: the first problem in the order of the files; the message has the file and
            the byte offset.
    """
    manifests = records_manifest.load_manifests(files)
    for folder, manifest in manifests.items():
        _check_folder(folder, manifest, vocab_size, flag)
    verified = []
    scans = _scan(files, manifests, vocab_size)
    silent = not sys.stderr.isatty()
    for path, (scan, sha256) in tqdm.tqdm(scans, total=len(files), unit="file", disable=silent):
        manifest = manifests[os.path.dirname(path)]
        num_bytes = file_size(path)
        problem = _problem(path, scan, sha256, num_bytes, manifest)
        if problem:
            raise UserError(f"{flag}: {problem}")
        verified.append(VerifiedFile(path, scan.num_records, num_bytes, manifest is not None))
    return verified


def _check_folder(folder: str, manifest: Manifest | None, vocab_size: int, flag: str) -> None:
    if manifest is None:
        return
    source = os.path.join(folder, records_manifest.FILE_NAME)
    if manifest.vocab_size != vocab_size:
        raise UserError(
            f"{flag}: {source} has a vocabulary of {manifest.vocab_size:,} tokens, but "
            f"--vocab_file has {vocab_size:,}"
        )
    for name in manifest.shards:
        if not tf.io.gfile.exists(os.path.join(folder, name)):
            raise UserError(
                f"{flag}: {os.path.join(folder, name)} is missing; {source} lists it with "
                f"{manifest.shards[name]:,} records"
            )


def _scan(
    files: Sequence[str], manifests: dict[str, Manifest | None], vocab_size: int
) -> Iterator[tuple[str, tuple[FileScan, str | None]]]:
    """Yields the files in order, with scan and hash; several files are read at once.

    A hash is None if it is not needed: the file is damaged, or the manifest has none.
    """

    def scan(path: str) -> tuple[FileScan, str | None]:
        manifest = manifests[os.path.dirname(path)]
        found = scan_file(path, manifest.max_seq_length if manifest else None, vocab_size)
        hashed = manifest is not None and os.path.basename(path) in manifest.shard_sha256
        return found, file_sha256(path) if hashed and not found.bad_records else None

    threads = concurrent.futures.ThreadPoolExecutor(_FILES_READ_AT_ONCE)
    try:
        yield from zip(files, threads.map(scan, files), strict=True)
    finally:
        threads.shutdown(cancel_futures=True)


def _problem(
    path: str, scan: FileScan, sha256: str | None, num_bytes: int, manifest: Manifest | None
) -> str | None:
    """Returns what is wrong with a file, or None."""
    if scan.bad_records:
        return str(scan.bad_records[0])
    if manifest is None:
        return None
    name = os.path.basename(path)
    source = f"{records_manifest.FILE_NAME} beside it"
    if name not in manifest.shards:
        return f"{path}: bad from byte 0: {source} does not list it"
    expected = manifest.shards[name]
    if scan.num_records != expected:
        return (
            f"{path}: bad at byte {num_bytes}: the file ends after {scan.num_records:,} whole "
            f"records; {source} has {expected:,}"
        )
    expected_bytes = manifest.shard_bytes.get(name, num_bytes)
    if num_bytes != expected_bytes:
        return (
            f"{path}: bad at byte {min(num_bytes, expected_bytes)}: the file has "
            f"{num_bytes:,} bytes; {source} has {expected_bytes:,}"
        )
    if sha256 is not None and sha256 != manifest.shard_sha256[name]:
        return (
            f"{path}: bad between bytes 0 and {num_bytes}: its records are intact, but not the "
            f"ones that were built. The SHA-256 is {sha256}; {source} has "
            f"{manifest.shard_sha256[name]}"
        )
    return None
