"""Byte ranges of the files whose text is read from a stream of bytes."""

import dataclasses
import pathlib
from typing import Self

from pretrain_data.corpus.readers.compression import COMPRESSION_RATIO, compression_of


@dataclasses.dataclass(frozen=True)
class ByteRange:
    """A file, or the bytes [`start`, `end`) of an uncompressed one.

    Attributes:
        path: the file.
        start, end: range of bytes; both are ends of lines.
        flag: flag to name in errors.
    """

    path: pathlib.Path
    start: int
    end: int
    flag: str = "--input"

    @property
    def is_divisible(self) -> bool:
        return compression_of(self.path) is None

    @property
    def num_disk_bytes(self) -> int:
        return self.end - self.start

    @property
    def weight(self) -> int:
        """Expected bytes of text."""
        return self.num_disk_bytes * (1 if self.is_divisible else COMPRESSION_RATIO)

    def cut_at(self, boundary: int) -> tuple[Self, Self]:
        """Returns the bytes before and after a position in the file."""
        boundary = min(boundary, self.end)
        return (
            dataclasses.replace(self, end=boundary),
            dataclasses.replace(self, start=boundary),
        )
