"""Finds near-duplicate documents by MinHash signatures and an LSH index (`datasketch`).

Documents are compared as sets of shingles, which are runs of consecutive words, by the
Jaccard similarity of the sets, as Lee et al. (ACL 2022) do to deduplicate training data.
"""

import functools
import hashlib
import itertools
import re
import sys
import types
import unicodedata

import numpy as np

from electra_tf.util.errors import UserError
from electra_tf.util.extras import import_extra

THRESHOLD_FLAG = "--near_duplicate_threshold"
WORDS_FLAG = "--near_duplicate_words"
PERMUTATIONS_FLAG = "--near_duplicate_permutations"

# Kana and ideographs are words of their own: they are written without spaces.
_UNSPACED = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
_ASCII_WORD = re.compile(r"\w+", re.ASCII)  # six times as fast as others
# Maximum length of shingles and signatures: more than is useful, but fits in memory.
_MAX_LENGTH = 1 << 16
_SCHEME = "affine32"
_RECALL = 0.95
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_WORDS_AT_ONCE = 1 << 12
_MAX_CACHED_WORDS = 1 << 20
_MAX_WORD_CHARACTERS = 1 << 20


def check_near_duplicates(threshold: float, num_words: int, num_permutations: int) -> None:
    """Raises UserError if a setting is impossible, or the package is missing."""
    if not 0 < threshold <= 1:
        raise UserError(f"{THRESHOLD_FLAG} must be above 0 and at most 1, not {threshold}")
    for flag, least, number in (
        (WORDS_FLAG, 1, num_words),
        (PERMUTATIONS_FLAG, 2, num_permutations),
    ):
        if number < least:
            raise UserError(f"{flag} must be at least {least}, not {number}")
        if number > _MAX_LENGTH:
            raise UserError(f"{flag} must be at most {_MAX_LENGTH:,}, not {number:,}")
    _datasketch()


@functools.cache
def _word_pattern() -> re.Pattern[str]:
    """Returns the pattern of a word, of letters, digits, "_" and marks.

    The vowel signs of Hindi, for example, are marks. One character class is fastest to match.
    """
    unspaced, word = re.compile(f"[{_UNSPACED}]"), re.compile(r"\w")
    characters = map(chr, range(sys.maxunicode + 1))
    inside = [
        (word.match(c) or unicodedata.category(c)[0] == "M") and not unspaced.match(c)
        for c in characters
    ]
    ranges, start = [], 0
    for is_inside, run in itertools.groupby(inside, bool):
        end = start + len(list(run))
        if is_inside:
            ranges.append(f"{re.escape(chr(start))}-{re.escape(chr(end - 1))}")
        start = end
    return re.compile(f"[{_UNSPACED}]|[{''.join(ranges)}]+")


class DocumentSigner:
    """Computes the signatures of documents from their lines, in bounded memory.

    Case, punctuation, white space and ends of lines are ignored.
    """

    def __init__(self, num_words: int, num_permutations: int):
        """Initializes the signer.

        Args:
            num_words: length of a shingle. A shorter document is a single shingle.
            num_permutations: length of a signature.
        """
        self._num_words = num_words
        # The shingles are hashed here.
        self._minhash = _datasketch().MinHash(num_permutations, scheme=_SCHEME, hashfunc=int)
        self._hash_of = _WordHashes()
        self._start_document()

    def add_line(self, line: str, complete: bool = True) -> None:
        """Adds a line; `complete` is false if the next call continues it."""
        text = self._unfinished + line.lower()
        self._unfinished = ""
        pattern = _ASCII_WORD if text.isascii() else _word_pattern()
        words = list(pattern.finditer(text))
        if not complete and words and words[-1].end() == len(text):
            last = words[-1]
            if last.end() - last.start() < _MAX_WORD_CHARACTERS:
                self._unfinished = words.pop().group()
        self._hashes += [self._hash_of[word.group()] for word in words]
        if len(self._hashes) >= _WORDS_AT_ONCE:
            self._add_shingles()

    def end_document(self) -> np.ndarray | None:
        """Returns the signature, uint32 [num_permutations]; None if there are no words."""
        if self._unfinished:
            self.add_line("")
        if self._is_short and 0 < len(self._hashes) < self._num_words:
            self._hashes += [0] * (self._num_words - len(self._hashes))
        self._add_shingles()
        signature = None if self._is_short else self._minhash.digest()
        self._minhash.clear()
        self._start_document()
        return signature

    def _start_document(self) -> None:
        # Hashes of the last words, which are not in a shingle yet or begin the next ones.
        self._hashes: list[int] = []
        self._unfinished = ""
        self._is_short = True

    def _add_shingles(self) -> None:
        num_shingles = len(self._hashes) - self._num_words + 1
        if num_shingles < 1:
            return
        self._is_short = False
        hashes = np.array(self._hashes, np.uint64)
        shingles = np.zeros(num_shingles, np.uint64)
        for i in range(self._num_words):
            shingles = shingles * _MULTIPLIER + hashes[i : i + num_shingles]
            shingles ^= shingles >> np.uint64(29)
        self._minhash.update_batch((shingles >> np.uint64(32)).tolist())
        del self._hashes[:num_shingles]


class _WordHashes(dict[str, int]):
    """Hashes of words, the same in every process."""

    def __missing__(self, word: str) -> int:
        if len(self) >= _MAX_CACHED_WORDS:
            self.clear()
        digest = hashlib.blake2b(word.encode(), digest_size=8).digest()
        self[word] = value = int.from_bytes(digest, "little")
        return value


def find_near_duplicates(signatures: np.ndarray, threshold: float) -> np.ndarray:
    """Returns which documents are near-duplicates of an earlier kept one, bool [documents].

    Args:
        signatures: uint32 [documents, num_permutations], in order.
        threshold: least Jaccard similarity of the sets of shingles, as estimated by the share
            of equal values of two signatures. The index finds `_RECALL` of the pairs of that
            similarity, and nearly all of more similar ones.
    """
    datasketch = _datasketch()
    num_permutations = signatures.shape[1]
    index = datasketch.MinHashLSH(
        num_perm=num_permutations, params=choose_bands(threshold, num_permutations)
    )
    is_duplicate = np.zeros(len(signatures), bool)
    for i, signature in enumerate(signatures):
        minhash = datasketch.LeanMinHash(seed=1, hashvalues=signature, scheme=_SCHEME)
        candidates = index.query(minhash)
        similarity = (signatures[candidates] == signature).mean(axis=1) if candidates else ()
        if np.max(similarity, initial=0.0) >= threshold:
            is_duplicate[i] = True
        else:
            index.insert(i, minhash, check_duplication=False)
    return is_duplicate


def choose_bands(threshold: float, num_permutations: int) -> tuple[int, int]:
    """Returns the number of bands of the index, and the number of values in each.

    Documents of similarity s share a band of r values with probability s^r, and one of b bands
    with 1 - (1 - s^r)^b (Leskovec et al., Mining of Massive Datasets, 3.4.2). This chooses the
    longest bands that find `_RECALL` of the documents at the threshold.
    """
    for length in range(num_permutations // 2, 1, -1):
        num_bands = num_permutations // length
        if 1 - (1 - threshold**length) ** num_bands >= _RECALL:
            return num_bands, length
    return num_permutations, 1


def _datasketch() -> types.ModuleType:
    return import_extra("datasketch", "corpus", "--deduplicate=near")
