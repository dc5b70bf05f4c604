"""Reads the text files of a corpus, whole or in parts."""

import dataclasses
from collections.abc import Iterator
from typing import BinaryIO, Self

from electra_tf.util.paths import open_binary
from pretrain_data.corpus.blocks import MAX_LINE_BYTES, Block, read_blocks
from pretrain_data.corpus.readers.byte_range import ByteRange
from pretrain_data.corpus.readers.compression import compression_of, uncompressed
from pretrain_data.corpus.readers.content import check_utf8
from pretrain_data.corpus.unreadable import naming_file

CORPUS_FLAG = "--corpus-dir"
# A longer document may be split.
_MAX_DOCUMENT_BYTES = 16 << 20


@dataclasses.dataclass(frozen=True)
class TextPart(ByteRange):
    """A text file, or a byte range of an uncompressed one."""

    flag: str = CORPUS_FLAG

    def read(self) -> Iterator[Block]:
        """Yields the part in blocks of about `BLOCK_BYTES`.

        Raises:
            UnreadableError: the file cannot be read or decompressed.
        """
        with (
            naming_file(self.path, self.flag, compression_of(self.path)),
            open_binary(self.path) as raw,
        ):
            check_utf8(uncompressed(raw, self.path), self.path, self.flag)
            raw.seek(self.start)
            text = uncompressed(raw, self.path)
            num_bytes = self.num_disk_bytes if self.is_divisible else None
            yield from read_blocks(text, str(self.path), raw, num_bytes)

    def split(
        self, offset: int, at_documents: bool, whole_documents: bool = False
    ) -> tuple[Self, Self]:
        """Splits the part near `offset`.

        Args:
            offset: position relative to the start of the part; the split is at the first end
                of a document after it, or of a line if the document continues for
                `_MAX_DOCUMENT_BYTES`.
            at_documents: whether blank lines end documents; otherwise the file is one.
            whole_documents: never split a document, however long.

        Returns:
            Both parts; the second one is empty if there is no boundary.

        Raises:
            UnreadableError: the file cannot be read.
        """
        with naming_file(self.path, self.flag, None), open_binary(self.path) as f:
            boundary = self._boundary(f, self.start + offset, at_documents, whole_documents)
        return self.cut_at(boundary)

    def _boundary(
        self, f: BinaryIO, position: int, at_documents: bool, whole_documents: bool
    ) -> int:
        last = self.end if whole_documents else min(self.end, position + _MAX_DOCUMENT_BYTES)
        if at_documents:
            f.seek(position)
            self._end_line(f)
            starts_line = True
            # The file may have become shorter since it was found.
            while f.tell() < last and (piece := f.readline(MAX_LINE_BYTES)):
                # The last piece of a long line may be blank.
                ends_line = piece.endswith(b"\n")
                if starts_line and ends_line and not piece.strip():
                    return f.tell()
                starts_line = ends_line
        if last == self.end:
            return last
        f.seek(last)
        self._end_line(f)
        return f.tell()

    def _end_line(self, f: BinaryIO) -> None:
        while (piece := f.readline(MAX_LINE_BYTES)) and f.tell() < self.end:
            if piece.endswith(b"\n"):
                break
