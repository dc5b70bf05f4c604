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
    """Yields the lines of a block by document; a blank line is in no or any document.

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
    lines: list[str] = []
    ends: list[int] = []
    num_bytes = num_repairs = num_nulls = 0
    before = position()

    def read_since() -> int:
        nonlocal before
        num_disk_bytes, before = position() - before, position()
        return num_disk_bytes

    def block(ends_file: bool) -> Block:
        return Block(
            lines,
            num_bytes,
            read_since(),
            num_repairs,
            ends_file,
            path,
            document_ends=tuple(ends),
            num_nulls=num_nulls,
        )

    try:
        for text, repairs in texts:
            if text is None:
                num_nulls += 1
                continue
            content, lone = _encode(text)
            if len(content) >= blocks.BLOCK_BYTES:
                if ends:
                    yield block(ends_file=False)
                    num_nulls = 0
                lines, ends, num_bytes, num_repairs = [], [], 0, 0
                repairs += lone
                stream = io.BytesIO(content)
                for piece in read_blocks(stream, path, stream):
                    yield dataclasses.replace(
                        piece,
                        num_disk_bytes=read_since(),
                        num_repairs=repairs,
                        ends_file=False,
                        document_ends=(len(piece.lines),) if piece.ends_file else (),
                    )
                    repairs = 0
                continue
            lines += (content.decode() if lone else text).split("\n")
            ends.append(len(lines))
            num_bytes += len(content)
            num_repairs += repairs + lone
            if num_bytes >= blocks.BLOCK_BYTES:
                yield block(ends_file=False)
                lines, ends, num_bytes, num_repairs, num_nulls = [], [], 0, 0, 0
    except Exception:
        if ends:
            yield block(ends_file=False)
        raise
    yield block(ends_file=True)


def _encode(text: str) -> tuple[bytes, int]:
    """Returns a text in UTF-8, and its number of lone surrogates, which become U+FFFD."""
    try:
        return text.encode(), 0
    except UnicodeEncodeError:
        text, num_replaced = LONE_SURROGATES.subn("\ufffd", text)
        return text.encode(), num_replaced
