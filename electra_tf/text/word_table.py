"""A table of words and their ids, which looks up all words of a text at once."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

# Words of up to this many bytes are looked up by NumPy, as two integers; longer ones in a
# dictionary.
_KEY_BYTES = 16
_HALF = 8
_SPACE = ord(" ")
# Odd constants that spread the bits of a key.
_FACTORS = tuple(
    np.uint64(factor) for factor in (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9)
)
# Masks of the lowest n bytes of an integer, by n.
_MASKS = np.array([(1 << 8 * n) - 1 for n in range(_HALF + 1)], np.uint64)
_FIRST_BITS = 10
_FIRST_CAPACITY = 1024
# Minimum number of slots per word: with 8, about one word in 8 shares its slot.
_SLOTS_PER_WORD = 8


class WordIds(NamedTuple):
    """The ids of consecutive words, int32 [ids], and how many each has, int64 [words]."""

    ids: np.ndarray
    counts: np.ndarray


class _Keys(NamedTuple):
    """Words as integers: their first and next eight bytes, uint64, and lengths, int64."""

    first: np.ndarray
    second: np.ndarray
    lengths: np.ndarray

    def hashes(self) -> np.ndarray:
        """Returns 64 bits each, the upper ones of which are well mixed."""
        mixed = self.first * _FACTORS[0]
        mixed ^= (self.second + self.lengths.astype(np.uint64)) * _FACTORS[1]
        mixed ^= mixed >> np.uint64(29)
        return mixed * _FACTORS[2]


class _Column:
    """An array that grows at its end."""

    def __init__(self, dtype: type) -> None:
        self._content = np.zeros(_FIRST_CAPACITY, dtype)
        self.values = self._content[:0]

    def extend(self, values: np.ndarray) -> None:
        size = len(self.values) + len(values)
        if size > len(self._content):
            self._content = np.concatenate([self._content, np.zeros(size, self._content.dtype)])
        self._content[len(self.values) : size] = values
        self.values = self._content[:size]


class WordTable:
    """Words and their ids.

    A word is looked up in a table of slots, by a hash of its bytes, and all of its bytes are
    compared. Words that are long or new, or whose slot another word occupies, are looked up one
    by one in a dictionary.

    Attributes:
        num_bytes: size of all words.
    """

    def __init__(self) -> None:
        self._numbers: dict[bytes, int] = {}
        self._bits = _FIRST_BITS
        self._slots = np.full(1 << _FIRST_BITS, -1, np.int32)
        # For each word, its key and the location of its ids.
        self._key_columns = _Column(np.uint64), _Column(np.uint64), _Column(np.int64)
        self._starts, self._counts = _Column(np.int64), _Column(np.int64)
        self._ids = _Column(np.int32)
        self.num_bytes = 0

    def __len__(self) -> int:
        return len(self._numbers)

    def look_up(
        self, text: bytes, tokenize: Callable[[Sequence[bytes]], tuple[np.ndarray, np.ndarray]]
    ) -> WordIds:
        """Returns the ids of the words of a text, which spaces separate.

        Args:
            text: UTF-8.
            tokenize: returns the ids of new words, int32 [ids], and their splits,
                int64 [words + 1]. If it raises, no new word has been added.
        """
        padded = np.frombuffer(text + b" " + bytes(2 * _KEY_BYTES), np.uint8)
        ends = np.flatnonzero(padded[: len(text) + 1] == _SPACE)
        starts = np.concatenate([[0], ends[:-1] + 1])
        keys = _keys(padded, starts, ends)
        numbers = self._slots[self._slot_of(keys)]
        if len(self):
            is_same = (numbers >= 0) & (keys.lengths <= _KEY_BYTES)
            for mine, theirs in zip(self._keys, keys, strict=True):
                is_same &= mine[numbers] == theirs
            others = np.flatnonzero(~is_same)
        else:
            others = np.arange(len(starts))
        known, new = self._numbers, {}
        found = []
        for start, end in zip(starts[others].tolist(), ends[others].tolist(), strict=True):
            word = text[start:end]
            number = known.get(word)
            if number is None:
                number = new.setdefault(word, len(known) + len(new))
            found.append(number)
        numbers[others] = found
        if new:
            self._add(list(new), *tokenize(list(new)))
        counts = self._counts.values[numbers]
        # Positions of the ids of every word, one after the other.
        offsets = self._starts.values[numbers] - np.cumsum(counts) + counts
        positions = np.repeat(offsets, counts)
        positions += np.arange(len(positions))
        return WordIds(self._ids.values[positions], counts)

    @property
    def _keys(self) -> _Keys:
        return _Keys(*(column.values for column in self._key_columns))

    def _add(self, words: Sequence[bytes], ids: np.ndarray, splits: np.ndarray) -> None:
        text = b" ".join(words)
        lengths = np.array([len(word) for word in words])
        starts = np.cumsum(lengths + 1) - lengths - 1
        padded = np.frombuffer(text + bytes(2 * _KEY_BYTES), np.uint8)
        keys = _keys(padded, starts, starts + lengths)
        first_new = len(self._numbers)
        self._starts.extend(splits[:-1] + len(self._ids.values))
        self._counts.extend(np.diff(splits))
        self._ids.extend(ids)
        for column, values in zip(self._key_columns, keys, strict=True):
            column.extend(values)
        self._numbers.update(zip(words, range(first_new, first_new + len(words)), strict=True))
        self.num_bytes += int(lengths.sum())
        if len(self._numbers) * _SLOTS_PER_WORD > len(self._slots):
            self._bits = (len(self._numbers) * 2 * _SLOTS_PER_WORD - 1).bit_length()
            self._slots = np.full(1 << self._bits, -1, np.int32)
            first_new, keys = 0, self._keys
        slots = self._slot_of(keys)
        numbers = np.arange(first_new, len(self._numbers), dtype=np.int32)
        # Among words with the same slot, the first gets it: it is likely to be more frequent.
        is_free = (self._slots[slots] < 0) & (keys.lengths <= _KEY_BYTES)
        self._slots[slots[is_free][::-1]] = numbers[is_free][::-1]

    def _slot_of(self, keys: _Keys) -> np.ndarray:
        return (keys.hashes() >> np.uint64(64 - self._bits)).astype(np.intp)


def _keys(padded: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> _Keys:
    """Returns the keys of slices of `padded`, whose last 2 * 16 bytes are padding."""
    integers = np.ndarray(len(padded) - _HALF + 1, "<u8", padded, strides=(1,))
    lengths = ends - starts
    return _Keys(
        integers[starts] & _MASKS[np.minimum(lengths, _HALF)],
        integers[starts + _HALF] & _MASKS[np.clip(lengths - _HALF, 0, _HALF)],
        lengths,
    )
