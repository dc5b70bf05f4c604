"""Divides a corpus among processes."""

import random
from collections.abc import Sequence

from pretrain_data.corpus.archives import ArchivePart
from pretrain_data.corpus.text_files import TextPart

CorpusPart = TextPart | ArchivePart


def shuffled(parts: Sequence[CorpusPart], seed: int) -> list[CorpusPart]:
    """Returns the files in random order; independent of the example builder's stream."""
    order = list(parts)
    random.Random(f"file order {seed}").shuffle(order)
    return order


def divide(
    parts: Sequence[CorpusPart], num_processes: int, split_at_documents: bool
) -> list[list[CorpusPart]]:
    """Divides the text about evenly among processes, in the order of `parts`.

    A plain text file that crosses the end of a share is split there, after a blank line (or
    any line, without `split_at_documents`). Compressed files and archives are not split;
    each goes to the process whose share contains its middle.

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
        if not isinstance(part, TextPart) or part.is_compressed:
            shares[share_of(done + part.weight / 2)].append(part)
            done += part.weight
            continue
        rest = part
        while rest is not None:
            index = share_of(done)
            room = -(-total * (index + 1) // num_processes) - done
            piece, rest = rest, None
            if piece.num_disk_bytes > room and index + 1 < num_processes:
                piece, rest = piece.split(max(0, room - 1), split_at_documents)
                rest = rest if rest.num_disk_bytes else None
            shares[index].append(piece)
            done += piece.num_disk_bytes
    return [share for share in shares if share]
