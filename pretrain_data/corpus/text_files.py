"""Finds the text files of a corpus and reads them in blocks of whole lines."""

import dataclasses
import gzip
import os
import pathlib
import zlib
from collections.abc import Iterator
from typing import BinaryIO

from electra_tf.util.errors import UserError

TEXT_SUFFIXES = (".txt", ".txt.gz")
# A cautious guess, to weigh compressed files against plain ones.
COMPRESSION_RATIO = 3
BLOCK_BYTES = 1 << 20
# A document longer than this may be divided between two processes.
_MAX_BOUNDARY_SEARCH_BYTES = 16 << 20


@dataclasses.dataclass(frozen=True)
class Block:
    """Some lines of one file.

    Attributes:
        lines: texts without their LF; nothing but LF ends a line.
        num_text_bytes: size of the lines as they stand in the (uncompressed) file.
        num_disk_bytes: what the reading of the block took from the disk.
        num_repairs: invalid UTF-8 sequences that were replaced with U+FFFD.
        ends_file: whether a file ends with the block.
        path: the file, for messages.
    """

    lines: list[str]
    num_text_bytes: int
    num_disk_bytes: int
    num_repairs: int
    ends_file: bool
    path: str


@dataclasses.dataclass(frozen=True)
class TextPart:
    """A text file, or the bytes from `start` to `end` of a plain one."""

    path: pathlib.Path
    start: int
    end: int

    @property
    def is_compressed(self) -> bool:
        return self.path.suffix == ".gz"

    @property
    def num_disk_bytes(self) -> int:
        return self.end - self.start

    @property
    def weight(self) -> int:
        """Expected bytes of text."""
        return self.num_disk_bytes * (COMPRESSION_RATIO if self.is_compressed else 1)

    def read(self) -> Iterator[Block]:
        """Yields the part in blocks of about `BLOCK_BYTES`.

        Raises:
            UserError: the file cannot be read or decompressed.
        """
        try:
            with open(self.path, "rb") as raw:
                if self.is_compressed:
                    with gzip.open(raw) as text:
                        yield from read_blocks(text, str(self.path), raw)
                else:
                    raw.seek(self.start)
                    yield from read_blocks(raw, str(self.path), raw, self.num_disk_bytes)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise UserError(
                f"Corpus file {self.path} (--corpus-dir) is not a whole gzip file: {error}. "
                "Fetch it again or take it out of the corpus."
            ) from error
        except OSError as error:
            raise UserError(
                f"Corpus file {self.path} (--corpus-dir) cannot be read: {error.strerror}."
            ) from error

    def split(self, offset: int, at_documents: bool) -> tuple["TextPart", "TextPart"]:
        """Divides the part near `offset`, which is counted from the part's start.

        Args:
            offset: where to divide; the division is at the first end of a document
                or line after it.
            at_documents: divide after a blank line, not just after any line.

        Returns:
            Both parts; the second one is empty when nothing can be divided.
        """
        with open(self.path, "rb") as f:
            f.seek(self.start + offset)
            f.readline()
            boundary = f.tell()
            search_end = min(self.end, boundary + _MAX_BOUNDARY_SEARCH_BYTES)
            while at_documents and f.tell() < search_end:
                if not f.readline().strip():
                    boundary = f.tell()
                    break
        boundary = min(boundary, self.end)
        return (
            dataclasses.replace(self, end=boundary),
            dataclasses.replace(self, start=boundary),
        )


@dataclasses.dataclass(frozen=True)
class Corpus:
    """What was found in a directory: files to read, in order of their paths, and others."""

    parts: tuple[TextPart, ...]
    ignored: tuple[pathlib.Path, ...]


def find_corpus(corpus_dir: str | pathlib.Path, flag: str = "--corpus-dir") -> Corpus:
    """Finds the `.txt` and `.txt.gz` files in `corpus_dir` and below.

    Hidden files and directories are passed over; links to directories are followed.

    Raises:
        UserError: there is no such directory, or no text in it.
    """
    corpus_dir = pathlib.Path(corpus_dir)
    if not corpus_dir.exists():
        raise UserError(f"Corpus directory {corpus_dir} ({flag}) does not exist.")
    if not corpus_dir.is_dir():
        raise UserError(
            f"{flag} must be a directory that holds .txt or .txt.gz files; "
            f"{corpus_dir} is a file. Give the directory that it is in."
        )
    files, ignored = [], []
    for path in sorted(_walk(corpus_dir)):
        (files if path.name.endswith(TEXT_SUFFIXES) else ignored).append(path)
    parts = tuple(TextPart(path, 0, path.stat().st_size) for path in files)
    if not parts:
        others = f"; it holds {len(ignored)} other files" if ignored else ""
        raise UserError(
            f"Corpus directory {corpus_dir} ({flag}) holds no .txt or .txt.gz files{others}."
        )
    if not any(part.num_disk_bytes for part in parts):
        raise UserError(f"All {len(parts)} text files in {corpus_dir} ({flag}) are empty.")
    return Corpus(parts, tuple(ignored))


def read_blocks(
    text: BinaryIO, path: str, raw: BinaryIO, num_bytes: int | None = None
) -> Iterator[Block]:
    """Yields what is left of `text`, or its next `num_bytes` bytes, block by block.

    The last block, which is empty for an empty file, has `ends_file` set.

    Args:
        text: uncompressed bytes, to be read from the current position.
        path: name for messages.
        raw: the file on disk beneath `text`, whose position measures the progress.
        num_bytes: ends at the end of a line, or of the file.
    """
    left = num_bytes
    position = raw.tell()
    pending = _read_lines(text, left)
    while True:
        content = pending
        if left is not None:
            left -= len(content)
        pending = _read_lines(text, left)
        lines, num_repairs = _decode(content)
        # A compressed stream ends with bytes of its own; its position only grows.
        num_disk_bytes, position = raw.tell() - position, raw.tell()
        if left is not None:
            num_disk_bytes = len(content)
        yield Block(lines, len(content), num_disk_bytes, num_repairs, not pending, path)
        if not pending:
            return


def _read_lines(text: BinaryIO, limit: int | None) -> bytes:
    size = BLOCK_BYTES if limit is None else min(BLOCK_BYTES, limit)
    content = text.read(size)
    if content and not content.endswith(b"\n") and (limit is None or len(content) < limit):
        content += text.readline()
    return content


def _decode(content: bytes) -> tuple[list[str], int]:
    num_repairs = 0
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        text = content.decode("utf-8", errors="replace")
        num_repairs = text.count("\ufffd") - content.count("\ufffd".encode())
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    return lines, num_repairs


def _walk(directory: pathlib.Path) -> Iterator[pathlib.Path]:
    seen = {os.path.realpath(directory)}
    for parent, directories, names in os.walk(directory, followlinks=True):
        visible = []
        for name in directories:
            target = os.path.realpath(os.path.join(parent, name))
            if not name.startswith(".") and target not in seen:
                seen.add(target)
                visible.append(name)
        directories[:] = visible
        for name in names:
            path = pathlib.Path(parent, name)
            if not name.startswith(".") and path.is_file():
                yield path
