"""Where documents end: in the lines of a text file, and in the records of other formats."""

import dataclasses
import io
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from electra_tf.util.text_checks import LONE_SURROGATES
from pretrain_data.corpus import blocks
from pretrain_data.corpus.blocks import Block, read_blocks


class Span(NamedTuple):
    """Lines `start` to `stop` of a block, of one document.

    Attributes:
        start, stop: positions in the block.
        ends_document: whether the document ends after them, and not in the next block.
    """

    start: int
    stop: int
    ends_document: bool


def document_spans(block: Block, blanks_separate_docs: bool) -> Iterator[Span]:
    """Yields the lines of a block by document, without blank lines that end a document.

    Documents of a format with records end with the records, others at the ends of files and,
    with `blanks_separate_docs`, at blank lines.
    """
    start, num_lines = 0, len(block.lines)
    if block.document_ends is not None:
        for end in block.document_ends:
            yield Span(start, end, True)
            start = end
    elif blanks_separate_docs:
        for i, line in enumerate(block.lines):
            if (not line or line.isspace()) and is_blank(block, i):
                yield Span(start, i, True)
                start = i + 1
    if start < num_lines or block.ends_file:
        yield Span(start, num_lines, block.ends_file)


def is_blank(block: Block, i: int) -> bool:
    """Whether line `i` is blank; a piece of a long line is not."""
    line = block.lines[i]
    if line and not line.isspace():
        return False
    is_piece = (i == 0 and block.continues_line) or (
        i == len(block.lines) - 1 and not block.ends_line
    )
    return not is_piece


def read_records(
    texts: Iterable[tuple[str | None, int]], path: str, position: Callable[[], int]
) -> Iterator[Block]:
    """Yields the texts of records in blocks; each text is a document.

    The last block has `ends_file` set. If reading fails, the records before that are yielded
    before the error is raised.

    Args:
        texts: text of each record, None for null, and its number of invalid UTF-8 sequences.
        path: name of the file, for messages.
        position: returns the number of bytes read from disk so far.
    """
    buffer = _RecordBuffer(path, position)
    try:
        for text, num_repairs in texts:
            if text is None:
                buffer.num_nulls += 1
                continue
            content, num_replaced = _encode(text)
            num_repairs += num_replaced
            if len(content) >= blocks.BLOCK_BYTES:
                if buffer.document_ends:
                    yield buffer.take_block()
                yield from buffer.blocks_of(content, num_repairs)
                continue
            buffer.add(content.decode() if num_replaced else text, len(content), num_repairs)
            if buffer.num_bytes >= blocks.BLOCK_BYTES:
                yield buffer.take_block()
    except Exception:
        if buffer.document_ends:
            yield buffer.take_block()
        raise
    yield buffer.take_block(ends_file=True)


class _RecordBuffer:
    """Collects the texts of records for a block.

    Args:
        path, position: as of `read_records`.

    Attributes:
        document_ends, num_bytes, num_nulls: of the records collected; see `Block`.
    """

    def __init__(self, path: str, position: Callable[[], int]) -> None:
        self._path = path
        self._position = position
        self._last_position = position()
        self._clear()

    def _clear(self) -> None:
        self._lines: list[str] = []
        self.document_ends: list[int] = []
        self.num_bytes = self._num_repairs = self.num_nulls = 0

    def add(self, text: str, num_bytes: int, num_repairs: int) -> None:
        """Adds a text of `num_bytes` in UTF-8."""
        self._lines += text.split("\n")
        self.document_ends.append(len(self._lines))
        self.num_bytes += num_bytes
        self._num_repairs += num_repairs

    def take_block(self, *, ends_file: bool = False) -> Block:
        """Returns the records collected as a block, and starts a new one."""
        block = Block(
            self._lines,
            self.num_bytes,
            self._disk_bytes(),
            self._num_repairs,
            ends_file,
            self._path,
            document_ends=tuple(self.document_ends),
            num_nulls=self.num_nulls,
        )
        self._clear()
        return block

    def blocks_of(self, content: bytes, num_repairs: int) -> Iterator[Block]:
        """Yields a long text in blocks of its own."""
        stream = io.BytesIO(content)
        for piece in read_blocks(stream, self._path, stream):
            yield dataclasses.replace(
                piece,
                num_disk_bytes=self._disk_bytes(),
                num_repairs=num_repairs,
                ends_file=False,
                document_ends=(len(piece.lines),) if piece.ends_file else (),
            )
            num_repairs = 0

    def _disk_bytes(self) -> int:
        """Returns the number of bytes read from disk since the last call."""
        position = self._position()
        num_bytes, self._last_position = position - self._last_position, position
        return num_bytes


def _encode(text: str) -> tuple[bytes, int]:
    """Returns a text in UTF-8, and its number of lone surrogates, which become U+FFFD."""
    try:
        return text.encode(), 0
    except UnicodeEncodeError:
        text, num_replaced = LONE_SURROGATES.subn("\ufffd", text)
        return text.encode(), num_replaced
