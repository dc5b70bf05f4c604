"""Tokenizes a corpus: the in-graph tokenizer behind a cache of words."""

from array import array
from itertools import chain

from pretrain_data.tokenizer import Tokenizer

# Type code of the arrays that hold ids: a C int.
ID_TYPE = "i"
# With the words themselves and the dictionary, about 150 MB of memory.
DEFAULT_MAX_CACHED_WORDS = 1_000_000


class CorpusTokenizer:
    """Gives the ids of `Tokenizer` for many lines at Python's dictionary speed.

    BERT's tokenization does not look across a space, so the ids of a line are the ids
    of its parts between spaces, one after the other. Most of them were seen before;
    the others are tokenized in one call per block of text.
    """

    def __init__(self, tokenizer: Tokenizer, max_cached_words: int = DEFAULT_MAX_CACHED_WORDS):
        """Starts with an empty cache.

        Args:
            tokenizer: tokenizes what is not in the cache.
            max_cached_words: the cache is emptied once it holds more.
        """
        self._tokenizer = tokenizer
        self._max_cached_words = max_cached_words
        # Joining the bytes of arrays is several times as fast as chaining lists of ids.
        self._bytes_of: dict[str, bytes] = {}

    def tokenize(self, lines: list[str]) -> list[array]:
        """Tokenizes each line.

        Args:
            lines: texts without LF.

        Returns:
            The ids of each line, without [CLS] and [SEP], as arrays of `ID_TYPE`.
        """
        if len(self._bytes_of) > self._max_cached_words:
            self._bytes_of.clear()
        ids_of_lines: list[array | None] = []
        incomplete = []
        for line in lines:
            try:
                ids_of_lines.append(self._look_up(line))
            except KeyError:
                incomplete.append(len(ids_of_lines))
                ids_of_lines.append(None)
        words = chain.from_iterable(lines[i].split(" ") for i in incomplete)
        self._add(set(words) - self._bytes_of.keys())
        for i in incomplete:
            ids_of_lines[i] = self._look_up(lines[i])
        return ids_of_lines

    def _look_up(self, line: str) -> array:
        return array(ID_TYPE, b"".join(map(self._bytes_of.__getitem__, line.split(" "))))

    def _add(self, words: set[str]) -> None:
        if not words:
            return
        new_words = list(words)
        ragged_ids = self._tokenizer.tokenize([word.encode() for word in new_words])
        ids = ragged_ids.values.numpy().astype(ID_TYPE).tobytes()
        ends = (ragged_ids.row_splits.numpy() * array(ID_TYPE).itemsize).tolist()
        self._bytes_of.update(
            (word, ids[start:end])
            for word, start, end in zip(new_words, ends, ends[1:], strict=False)
        )
