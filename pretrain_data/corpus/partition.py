"""Divides a corpus among processes."""

import pathlib
import random
from collections.abc import Iterator, Sequence
from typing import Protocol

from pretrain_data.corpus.blocks import Block


class CorpusPart(Protocol):
    """A file of the corpus, or a piece of one; it is sent to another process.

    Attributes:
        path: the file.
        is_divisible: whether it is a `DivisiblePart`, which processes can share.
        num_disk_bytes: size on disk.
        weight: expected bytes of text.
    """

    path: pathlib.Path

    @property
    def is_divisible(self) -> bool: ...

    @property
    def num_disk_bytes(self) -> int: ...

    @property
    def weight(self) -> int: ...

    def read(self) -> Iterator[Block]: ...


class DivisiblePart(CorpusPart, Protocol):
    """A part that can be split."""

    def split(
        self, offset: int, at_documents: bool, whole_documents: bool
    ) -> tuple[CorpusPart, CorpusPart]:
        """Splits the part at the first boundary after `offset`.

        Args:
            offset: position in the part, in the units of `weight`.
            at_documents: blank lines of plain text end documents; otherwise the file is one.
            whole_documents: split no document of plain text, however long.

        Returns:
            Both parts; the second one has weight 0 if there is no boundary.
        """


def shuffled(parts: Sequence[CorpusPart], seed: int) -> list[CorpusPart]:
    """Returns the files in random order; independent of the example builder's stream."""
    order = list(parts)
    random.Random(f"file order {seed}").shuffle(order)
    return order


def divide(
    parts: Sequence[CorpusPart],
    num_processes: int,
    split_at_documents: bool,
    whole_documents: bool = False,
) -> list[list[CorpusPart]]:
    """Divides the text about evenly among processes, in the order of `parts`.

    A divisible file that crosses the end of a share is split there, after a document. Others,
    such as compressed files, are not split; each goes to the share that contains its middle.

    Args:
        parts: the text.
        num_processes: number of shares.
        split_at_documents: a blank line of plain text ends a document, not only the file.
        whole_documents: split no document of plain text, however long.

    Returns:
        The parts of each process. Empty shares are dropped, so there may be fewer than
        `num_processes`.
    """
    shares: list[list[CorpusPart]] = [[] for _ in range(num_processes)]
    total = max(1, sum(part.weight for part in parts))
    done = 0

    def share_of(position: float) -> int:
        return min(num_processes - 1, int(position * num_processes / total))

    for part in parts:
        if not part.is_divisible:
            shares[share_of(done + part.weight / 2)].append(part)
            done += part.weight
            continue
        rest = part
        while rest is not None:
            index = share_of(done)
            room = -(-total * (index + 1) // num_processes) - done
            piece, rest = rest, None
            if piece.weight > room and index + 1 < num_processes:
                piece, rest = piece.split(max(0, room - 1), split_at_documents, whole_documents)
                rest = rest if rest.weight else None
            shares[index].append(piece)
            done += piece.weight
    return [share for share in shares if share]
