"""Finds the text files of a corpus and reads them in blocks of complete lines."""

import dataclasses
import gzip
import os
import pathlib
import zlib
from collections.abc import Iterator
from typing import BinaryIO

from electra_tf.util.errors import UserError

TEXT_SUFFIXES = (".txt", ".txt.gz")
# A conservative estimate, to weigh compressed files against plain ones.
COMPRESSION_RATIO = 3
BLOCK_BYTES = 1 << 20
# Longer lines are read in pieces.
MAX_LINE_BYTES = 1 << 20
# Lines that are too long are cut behind one of these, if any.
_SEPARATORS = tuple(
    text.encode() for text in (" ", "\t", "\u3000", "\u3001", "\u3002", "\uff0c")
)
# A longer document may be split between two processes.
_MAX_BOUNDARY_SEARCH_BYTES = 16 << 20


@dataclasses.dataclass(frozen=True)
class Block:
    """Consecutive lines of one file.

    A line longer than `MAX_LINE_BYTES` is in several blocks, cut between words.

    Attributes:
        lines: texts without LF, the only line terminator.
        num_text_bytes: size of the lines in the (uncompressed) file.
        num_disk_bytes: bytes read from disk for the block.
        num_repairs: number of invalid UTF-8 sequences replaced with U+FFFD.
        ends_file: whether this is the last block of a file.
        path: name of the file, for messages.
        continues_line: whether the first line continues the last one of the previous block.
        ends_line: whether the last line ends here, and not in the next block.
    """

    lines: list[str]
    num_text_bytes: int
    num_disk_bytes: int
    num_repairs: int
    ends_file: bool
    path: str
    continues_line: bool = False
    ends_line: bool = True

    @property
    def num_lines(self) -> int:
        """Number of lines that end here."""
        return len(self.lines) - (not self.ends_line)


@dataclasses.dataclass(frozen=True)
class TextPart:
    """A text file, or the byte range [`start`, `end`) of an uncompressed one."""

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
                f"Corpus file {self.path} (--corpus-dir) is not a complete gzip file: {error}. "
                "Download it again or remove it from the corpus."
            ) from error
        except OSError as error:
            raise UserError(
                f"Corpus file {self.path} (--corpus-dir) cannot be read: {error.strerror}."
            ) from error

    def split(self, offset: int, at_documents: bool) -> tuple["TextPart", "TextPart"]:
        """Splits the part near `offset`.

        Args:
            offset: position relative to the start of the part; the split is at the first
                document or line boundary after it.
            at_documents: split after a blank line, not after any line.

        Returns:
            Both parts; the second one is empty if there is no boundary.
        """
        with open(self.path, "rb") as f:
            f.seek(self.start + offset)
            while not f.readline(MAX_LINE_BYTES).endswith(b"\n") and f.tell() < self.end:
                pass
            boundary = f.tell()
            search_end = min(self.end, boundary + _MAX_BOUNDARY_SEARCH_BYTES)
            while at_documents and f.tell() < search_end:
                if not f.readline(MAX_LINE_BYTES).strip():
                    boundary = f.tell()
                    break
        boundary = min(boundary, self.end)
        return (
            dataclasses.replace(self, end=boundary),
            dataclasses.replace(self, start=boundary),
        )


@dataclasses.dataclass(frozen=True)
class Corpus:
    """Contents of a corpus directory: text files sorted by path, and ignored files."""

    parts: tuple[TextPart, ...]
    ignored: tuple[pathlib.Path, ...]


def find_corpus(corpus_dir: str | pathlib.Path, flag: str = "--corpus-dir") -> Corpus:
    """Finds the `.txt` and `.txt.gz` files in `corpus_dir`, recursively.

    Hidden files and directories are skipped; links to directories are followed.

    Raises:
        UserError: the directory does not exist or contains no text.
    """
    corpus_dir = pathlib.Path(corpus_dir)
    if not corpus_dir.exists():
        raise UserError(f"Corpus directory {corpus_dir} ({flag}) does not exist.")
    if not corpus_dir.is_dir():
        raise UserError(
            f"{flag} must be a directory of .txt or .txt.gz files; {corpus_dir} is a file. "
            "Pass its parent directory."
        )
    files, ignored = [], []
    for path in sorted(_walk(corpus_dir)):
        (files if path.name.endswith(TEXT_SUFFIXES) else ignored).append(path)
    parts = tuple(TextPart(path, 0, path.stat().st_size) for path in files)
    if not parts:
        others = f", only {len(ignored)} other files" if ignored else ""
        raise UserError(
            f"Corpus directory {corpus_dir} ({flag}) contains no .txt or .txt.gz files{others}."
        )
    if not any(part.num_disk_bytes for part in parts):
        raise UserError(f"All {len(parts)} text files in {corpus_dir} ({flag}) are empty.")
    return Corpus(parts, tuple(ignored))


def read_blocks(
    text: BinaryIO, path: str, raw: BinaryIO, num_bytes: int | None = None
) -> Iterator[Block]:
    """Yields the rest of `text`, or its next `num_bytes` bytes, in blocks.

    The last block has `ends_file` set; an empty file has one empty block.

    Args:
        text: uncompressed stream, read from its current position.
        path: name of the file, for messages.
        raw: the underlying file on disk, whose position measures progress.
        num_bytes: must end at the end of a line or of the file.
    """
    position = raw.tell()
    contents = _read_lines(text, num_bytes)
    following = next(contents, b"")
    ends_line = True
    while True:
        content, following = following, next(contents, b"")
        lines, num_repairs = _decode(content)
        # A compressed stream is read ahead, so its position is only a progress measure.
        num_disk_bytes, position = raw.tell() - position, raw.tell()
        if num_bytes is not None:
            num_disk_bytes = len(content)
        continues_line, ends_line = not ends_line, not following or content.endswith(b"\n")
        yield Block(
            lines,
            len(content),
            num_disk_bytes,
            num_repairs,
            not following,
            path,
            continues_line,
            ends_line,
        )
        if not following:
            return


def _read_lines(text: BinaryIO, num_bytes: int | None) -> Iterator[bytes]:
    """Yields complete lines, about `BLOCK_BYTES` at a time, and long lines in pieces."""
    left = num_bytes
    rest = b""
    while more := text.read(BLOCK_BYTES if left is None else min(BLOCK_BYTES, left)):
        if left is not None:
            left -= len(more)
        rest += more
        if len(rest) < BLOCK_BYTES:
            continue
        end = rest.rfind(b"\n") + 1
        if not end and len(rest) >= MAX_LINE_BYTES:
            end = _end_of_piece(rest)
        if end:
            yield rest[:end]
            rest = rest[end:]
    if rest:
        yield rest


def _end_of_piece(content: bytes) -> int:
    """Returns where to cut a long line: behind a separator, else between two characters."""
    end = max(content.rfind(separator) + len(separator) for separator in _SEPARATORS)
    if end > 3:
        return end
    end = len(content)
    # Back to the first byte of the last character.
    while end > len(content) - 4 and content[end - 1] & 0xC0 == 0x80:
        end -= 1
    return end - 1


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
