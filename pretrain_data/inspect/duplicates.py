"""Counts repeated rows in bounded memory."""

import hashlib

import numpy as np

MAX_HASHES = 2_000_000
_HASH_BITS = 64


class DuplicateCounter:
    """Counts rows that equal an earlier one.

    The 64-bit hashes of the distinct rows are kept. If there are more than `max_hashes`, those
    in the upper half of the range of hashes are dropped and no longer looked up, and each
    repetition found counts as two; then as four, and so on. The count is exact until then,
    and an unbiased estimate afterwards (adaptive sampling; Flajolet 1990).

    Args:
        max_hashes: maximum number of hashes in memory, about 100 bytes each.
    """

    def __init__(self, max_hashes: int = MAX_HASHES) -> None:
        self._max_hashes = max_hashes
        self._hashes: set[int] = set()
        self._level = 0

    @property
    def is_exact(self) -> bool:
        """Whether all rows so far were compared."""
        return not self._level

    def add(self, rows: np.ndarray) -> int:
        """Adds rows, uint8 [n, bytes]; returns how many of them equal an earlier one."""
        repeated = 0
        for row in np.ascontiguousarray(rows):
            digest = hashlib.blake2b(row, digest_size=_HASH_BITS // 8).digest()
            number = int.from_bytes(digest, "little")
            if number >> (_HASH_BITS - self._level):
                continue
            if number in self._hashes:
                repeated += 1 << self._level
                continue
            self._hashes.add(number)
            if len(self._hashes) > self._max_hashes:
                self._level += 1
                limit = 1 << (_HASH_BITS - self._level)
                self._hashes = {kept for kept in self._hashes if kept < limit}
        return repeated
