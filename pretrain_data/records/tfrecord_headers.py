"""Checks the lengths in TFRecord headers: TensorFlow allocates memory of any such length."""

import functools
import os
import struct
from typing import NamedTuple

# A TFRecord: length (8 bytes), checksum of the length (4), data, checksum of the data (4).
HEADER_BYTES = 12
FRAME_BYTES = 16
ALL_RECORDS = -1

_BLOCK_BYTES = 1 << 16


class PlausibleRecords(NamedTuple):
    """Consecutive records that end within their file.

    Attributes:
        count: number of these records.
        bad_offset: position of the next record, if it is longer than the rest of the file;
            else None.
    """

    count: int
    bad_offset: int | None


def plausible_records(
    path: str, offset: int = 0, max_count: int = ALL_RECORDS
) -> PlausibleRecords:
    """Follows the lengths in a file from header to header, without reading the data.

    Args:
        path: a TFRecord file. Of remote files (`gs://\u2026`), nothing is found.
        offset: position of the first record.
        max_count: number of records to look at; -1 is all.
    """
    if "://" in path:
        return PlausibleRecords(0, None)
    size = os.path.getsize(path)
    if offset >= size:
        return PlausibleRecords(0, None)
    length_at = struct.Struct("<Q")
    count = 0
    # Not mapped into memory: a file that is truncated meanwhile would end the process.
    with open(path, "rb", buffering=0) as file:
        block, start = b"", 0
        while offset + HEADER_BYTES <= size and count != max_count:
            if offset + length_at.size > start + len(block):
                block, start = os.pread(file.fileno(), _BLOCK_BYTES, offset), offset
                if len(block) < length_at.size:
                    return PlausibleRecords(count, offset)
            end = offset + FRAME_BYTES + length_at.unpack_from(block, offset - start)[0]
            if end > size:
                return PlausibleRecords(count, offset)
            offset = end
            count += 1
    return PlausibleRecords(count, None)


def check_lengths(path: str, offset: int, count: int) -> None:
    """Raises ValueError if one of the records is longer than the rest of the file.

    A file that has not changed is checked once.
    """
    if "://" not in path:
        status = os.stat(path)
        _check_lengths(path, offset, count, status.st_size, status.st_mtime_ns)


@functools.lru_cache(maxsize=100_000)
def _check_lengths(path: str, offset: int, count: int, size: int, mtime_ns: int) -> None:
    """Checks lengths, again if the file's size or time of modification differs."""
    bad_offset = plausible_records(path, offset, count).bad_offset
    if bad_offset is not None:
        raise ValueError(f"{path}: the record at byte {bad_offset} exceeds the file")
