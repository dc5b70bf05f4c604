"""Finds the text files of a corpus, reads them and splits them."""

import codecs
import dataclasses
from collections.abc import Iterator
from typing import BinaryIO, Self

from pretrain_data.corpus.blocks import MAX_LINE_BYTES, Block, read_blocks
from pretrain_data.corpus.byte_range import ByteRange
from pretrain_data.corpus.compression import compression_of, uncompressed
from pretrain_data.corpus.unreadable import FILE, UnreadableError, naming_file

FLAG = "--corpus-dir"
# A longer document may be split between two processes.
_MAX_BOUNDARY_SEARCH_BYTES = 16 << 20


@dataclasses.dataclass(frozen=True)
class TextPart(ByteRange):
    """A text file, or a byte range of an uncompressed one."""

    flag: str = FLAG

    def read(self) -> Iterator[Block]:
        """Yields the part in blocks of about `BLOCK_BYTES`.

        Raises:
            UnreadableError: the file cannot be read or decompressed.
        """
        with (
            naming_file(self.path, self.flag, compression_of(self.path)),
            open(self.path, "rb") as raw,
        ):
            self._check_encoding(uncompressed(raw, self.path))
            raw.seek(self.start)
            text = uncompressed(raw, self.path)
            num_bytes = self.num_disk_bytes if self.is_divisible else None
            yield from read_blocks(text, str(self.path), raw, num_bytes)

    def split(
        self, offset: int, at_documents: bool, whole_documents: bool = False
    ) -> tuple[Self, Self]:
        """Splits the part near `offset`.

        Args:
            offset: position relative to the start of the part; the split is at the first
                document or line boundary after it.
            at_documents: split after a blank line, not after any line.
            whole_documents: split no document, however long; without `at_documents`, the file.

        Returns:
            Both parts; the second one is empty if there is no boundary.

        Raises:
            UnreadableError: the file cannot be read.
        """
        with naming_file(self.path, self.flag, None), open(self.path, "rb") as f:
            boundary = self._boundary(f, self.start + offset, at_documents, whole_documents)
        return self.cut_at(boundary)

    def _boundary(
        self, f: BinaryIO, position: int, at_documents: bool, whole_documents: bool
    ) -> int:
        if whole_documents and not at_documents:
            return self.end
        f.seek(position)
        while not f.readline(MAX_LINE_BYTES).endswith(b"\n") and f.tell() < self.end:
            pass
        boundary = f.tell()
        search_end = min(self.end, boundary + _MAX_BOUNDARY_SEARCH_BYTES)
        if whole_documents:
            boundary = search_end = self.end
        while at_documents and f.tell() < search_end:
            if not f.readline(MAX_LINE_BYTES).strip():
                boundary = f.tell()
                break
        return boundary

    def _check_encoding(self, text: BinaryIO) -> None:
        if text.read(2) in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
            reason = "is UTF-16 (iconv -f UTF-16 -t UTF-8 converts it)"
            raise UnreadableError(FILE, self.path, self.flag, reason)
