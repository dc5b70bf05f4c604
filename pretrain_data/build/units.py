"""Divides a corpus into units, each of which has a random stream of its own.

A unit's examples depend on its text, the settings and its number, so those of a corpus do not
depend on the number of processes or machines.
"""

import dataclasses
import math
import random
from collections.abc import Sequence

from pretrain_data.build.config import CorpusBuildConfig
from pretrain_data.corpus.partition import CorpusPart, divide, shuffled

# Expected bytes of text. Files that cannot be split may make larger units.
_UNIT_BYTES = 1 << 20
# Small corpora have smaller units, so that several processes can share them.
_MIN_UNIT_BYTES = 4 << 10
_NUM_SMALL_UNITS = 16
# Splitting a file takes a read, which is slow on a remote file system.
_MAX_UNITS = 4096


@dataclasses.dataclass(frozen=True)
class Unit:
    """Text whose examples do not depend on the rest of the corpus.

    Attributes:
        index: position in the corpus, from 0.
        parts: the text, in the order of reading; documents are whole, except very long ones.
    """

    index: int
    parts: tuple[CorpusPart, ...]

    @property
    def weight(self) -> int:
        """Expected bytes of text."""
        return sum(part.weight for part in self.parts)

    def rng(self, seed: int, *, held_out: bool = False) -> random.Random:
        """Returns the random stream of the unit's examples, or of its held-out ones."""
        if held_out:
            return random.Random(f"held out {self.index} {seed}")
        # The first unit makes the same draws as the authors' builder after random.seed(seed).
        return random.Random(f"unit {self.index} {seed}" if self.index else seed)


def find_units(parts: Sequence[CorpusPart], config: CorpusBuildConfig) -> list[Unit]:
    """Divides a corpus into units, whose number depends on its size alone.

    Args:
        parts: the files, sorted by path.
        config: `shuffle_files` and `seed` order them.
    """
    if config.shuffle_files:
        parts = shuffled(parts, config.seed)
    shares = divide(
        parts,
        _num_units(sum(part.weight for part in parts)),
        config.blanks_separate_docs,
        whole_documents=config.selects_documents,
    )
    return [Unit(index, tuple(share)) for index, share in enumerate(shares)]


def divide_units(units: Sequence[Unit], num_processes: int) -> list[list[Unit]]:
    """Divides units about evenly, in their order; empty shares are dropped."""
    total = max(1, sum(unit.weight for unit in units))
    shares: list[list[Unit]] = [[] for _ in range(num_processes)]
    done = 0
    for unit in units:
        middle = (done + unit.weight / 2) / total
        shares[min(num_processes - 1, int(middle * num_processes))].append(unit)
        done += unit.weight
    return [share for share in shares if share]


def _num_units(num_bytes: int) -> int:
    small = min(_NUM_SMALL_UNITS, math.ceil(num_bytes / _MIN_UNIT_BYTES))
    return max(1, small, min(_MAX_UNITS, math.ceil(num_bytes / _UNIT_BYTES)))
