"""Progress and errors that the processes of a build report to their parent."""

from typing import NamedTuple, Self


class BuildCounts(NamedTuple):
    """Progress of one process; tokens are without [CLS] and [SEP], words are those written."""

    disk_bytes: int = 0
    text_bytes: int = 0
    lines: int = 0
    documents: int = 0
    examples: int = 0
    tokens_read: int = 0
    tokens_written: int = 0
    padding: int = 0
    unknown: int = 0
    words: int = 0

    def plus(self, other: Self) -> Self:
        """Returns the sums."""
        return BuildCounts(*(a + b for a, b in zip(self, other, strict=True)))


class WorkerError(RuntimeError):
    """Unexpected failure of a build process; the message names the corpus file."""
