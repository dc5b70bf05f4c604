"""Decompresses corpus files as streams; truncated files are errors."""

import gzip
import io
import pathlib
import types
from typing import BinaryIO

from electra_tf.util.extras import import_extra

# A conservative estimate, to weigh compressed files against plain ones.
COMPRESSION_RATIO = 3
_NAMES = {".gz": "gzip", ".zst": "zstd"}
_CHUNK_BYTES = 1 << 14
# `zstd --long=31` writes windows of this size.
_MAX_WINDOW_BYTES = 1 << 31


def compression_of(path: pathlib.Path) -> str | None:
    """Returns the name of a file's compression, by its suffix; None if it has none."""
    return _NAMES.get(path.suffix)


def check_compression(path: pathlib.Path) -> None:
    """Raises UserError if the package that decompresses a file is not installed."""
    if compression_of(path) == "zstd":
        _zstandard()


def uncompressed(raw: BinaryIO, path: pathlib.Path) -> BinaryIO:
    """Returns the uncompressed contents of an open file; a plain one itself.

    Reading raises EOFError where a compressed file is truncated, and `zlib.error` or OSError
    without a number where it is damaged.
    """
    compression = compression_of(path)
    if compression == "gzip":
        return io.BufferedReader(_GzipReader(raw), 1 << 17)
    if compression == "zstd":
        return io.BufferedReader(_ZstdReader(raw), 1 << 17)
    return raw


def _zstandard() -> types.ModuleType:
    return import_extra("zstandard", "corpus", "Reading .zst files")


class _GzipReader(io.RawIOBase):
    """Reads a gzip file; `gzip.GzipFile` loses what it read before an error."""

    def __init__(self, raw: BinaryIO):
        self._file = gzip.GzipFile(fileobj=raw)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray) -> int:
        content = self._file.read1(len(buffer))
        buffer[: len(content)] = content
        return len(content)


class _ZstdReader(io.RawIOBase):
    """Reads all frames of a zstd file.

    The readers of `zstandard` take the end of a truncated frame for its regular end.
    """

    def __init__(self, raw: BinaryIO):
        self._raw = raw
        self._library = _zstandard()
        self._start_frame()
        self._content = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray) -> int:
        while not self._content:
            chunk = self._unused or self._raw.read(_CHUNK_BYTES)
            self._unused = b""
            if not chunk:
                if self._in_frame:
                    raise EOFError("its last frame is truncated")
                return 0
            self._in_frame = True
            try:
                self._content = memoryview(self._frame.decompress(chunk))
            except self._library.ZstdError as error:
                raise OSError(str(error)) from error
            if self._frame.eof:
                unused = self._frame.unused_data
                self._start_frame()
                self._unused = unused
        size = min(len(buffer), len(self._content))
        buffer[:size] = self._content[:size]
        self._content = self._content[size:]
        return size

    def _start_frame(self) -> None:
        decompressor = self._library.ZstdDecompressor(max_window_size=_MAX_WINDOW_BYTES)
        self._frame = decompressor.decompressobj()
        self._unused = b""
        self._in_frame = False
