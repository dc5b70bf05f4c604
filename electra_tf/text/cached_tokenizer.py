"""Tokenizes a corpus: the in-graph tokenizer behind a cache of words."""

from array import array
from collections.abc import Sequence
from itertools import chain

import numpy as np

from electra_tf.text.tokenizer import Tokenizer
from electra_tf.text.vocabulary import Vocabulary

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


class CachedTokenizer:
    """Tokenizes many texts at once, each word only once.

    Attributes:
        vocabulary: of the pre-trained model.
        tokenizer: the in-graph tokenizer that exported models hold too.
    """

    def __init__(
        self, vocabulary: Vocabulary, do_lower_case: bool = True, strip_accents: bool = True
    ) -> None:
        self.vocabulary = vocabulary
        self.tokenizer = Tokenizer(vocabulary, do_lower_case, strip_accents)
        self._cached = CorpusTokenizer(self.tokenizer)

    def tokenize(self, texts: Sequence[str]) -> list[np.ndarray]:
        """Returns the int32 ids of each text, without [CLS] and [SEP]."""
        return [
            np.frombuffer(ids, np.int32).copy() if len(ids) else np.zeros(0, np.int32)
            for ids in self._cached.tokenize(list(texts))
        ]

    def tokens(self, ids: Sequence[int]) -> list[str]:
        """Returns the token strings of ids."""
        return [self.vocabulary.tokens[i] for i in ids]
