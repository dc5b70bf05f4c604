"""Reads a stream of text in blocks of complete lines, and long lines in pieces."""

import dataclasses
import zlib
from collections.abc import Iterator
from typing import BinaryIO

BLOCK_BYTES = 1 << 20
# Longer lines are read in pieces.
MAX_LINE_BYTES = 1 << 20
# Reason for an error if a file is overwritten while it is read.
NOW_SHORTER = "it has become shorter since it was found"
# Errors of reading and of decompression.
_READ_ERRORS = (OSError, EOFError, zlib.error)
# Lines that are too long are cut after one of these, if they have any.
_SEPARATORS = tuple(
    text.encode() for text in (" ", "\t", "\u3000", "\u3001", "\u3002", "\uff0c")
)


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
        document_ends: numbers of lines after which a document ends, if records are documents;
            None if blank lines and ends of files end them.
        num_nulls: number of records that have null instead of a text.
    """

    lines: list[str]
    num_text_bytes: int
    num_disk_bytes: int
    num_repairs: int
    ends_file: bool
    path: str
    continues_line: bool = False
    ends_line: bool = True
    document_ends: tuple[int, ...] | None = None
    num_nulls: int = 0

    @property
    def num_lines(self) -> int:
        """Number of lines that end here."""
        return len(self.lines) - (not self.ends_line)


def read_blocks(
    text: BinaryIO, path: str, raw: BinaryIO, num_bytes: int | None = None
) -> Iterator[Block]:
    """Yields the rest of `text`, or its next `num_bytes` bytes, in blocks.

    The last block has `ends_file` set; an empty file has one empty block. If reading fails,
    the complete lines before that are yielded before the error is raised.

    Args:
        text: uncompressed stream, read from its current position.
        path: name of the file, for messages.
        raw: the underlying file on disk, whose position measures progress.
        num_bytes: must end at the end of a line or of the file; it is an error if there are
            fewer.
    """
    position = raw.tell()
    contents = _read_lines(text, num_bytes)
    following = next(contents, b"")
    ends_line, error = True, None
    while True:
        content = following
        try:
            following = next(contents, b"")
        except _READ_ERRORS as read_error:
            following, error = b"", read_error
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
            not following and error is None,
            path,
            continues_line,
            ends_line,
        )
        if error is not None:
            raise error
        if not following:
            return


def _read_lines(text: BinaryIO, num_bytes: int | None) -> Iterator[bytes]:
    """Yields complete lines, about `BLOCK_BYTES` at a time, and long lines in pieces."""
    left = num_bytes
    rest = b""
    error = None
    while error is None:
        size = BLOCK_BYTES if left is None else min(BLOCK_BYTES, left)
        more, error = _read(text, size)
        if not more:
            if left:
                error = OSError(NOW_SHORTER)
            break
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
    if error is not None:
        rest = rest[: rest.rfind(b"\n") + 1]
    if rest:
        yield rest
    if error is not None:
        raise error


def _read(text: BinaryIO, size: int) -> tuple[bytes, Exception | None]:
    """Reads `size` bytes, or those before the end or before an error, which is returned."""
    pieces = []
    try:
        while size and (piece := text.read1(size)):
            pieces.append(piece)
            size -= len(piece)
    except _READ_ERRORS as error:
        return b"".join(pieces), error
    return b"".join(pieces), None


def _end_of_piece(content: bytes) -> int:
    """Returns where to cut a long line: after a separator, else between two characters."""
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
