"""Tokenizers for large amounts of text: the in-graph tokenizer behind a word cache."""

from array import array
from collections.abc import Sequence

import numpy as np

from electra_tf.text.tokenizer import Tokenizer
from electra_tf.text.vocabulary import Vocabulary

# Type code of id arrays: C int.
ID_TYPE = "i"
# About 150 MB of memory, including the words and the dictionary.
DEFAULT_MAX_CACHED_WORDS = 1_000_000
# Text without spaces is cached as long "words".
MAX_CACHED_CHARACTERS = 64_000_000


class CorpusTokenizer:
    """Returns the ids of `Tokenizer` at the speed of dictionary lookups.

    BERT's tokenization never looks across a space, so the ids of a line are the
    concatenated ids of its space-separated parts. Most parts are cached; the others are
    tokenized in one call per block of text.
    """

    def __init__(self, tokenizer: Tokenizer, max_cached_words: int = DEFAULT_MAX_CACHED_WORDS):
        """Starts with an empty cache.

        Args:
            tokenizer: tokenizes uncached words.
            max_cached_words: size at which the cache is cleared.
        """
        self._tokenizer = tokenizer
        self._max_cached_words = max_cached_words
        # Joining bytes is several times faster than chaining lists of ids.
        self._ids_of = _Cache()
        self._num_characters = 0

    def tokenize(self, lines: list[str]) -> list[array]:
        """Tokenizes lines.

        Args:
            lines: texts without LF.

        Returns:
            The ids of each line, without [CLS] and [SEP], as arrays of `ID_TYPE`.
        """
        if (
            len(self._ids_of) > self._max_cached_words
            or self._num_characters > MAX_CACHED_CHARACTERS
        ):
            self._ids_of.clear()
            self._num_characters = 0
        look_up = self._ids_of.__getitem__
        rows = [list(map(look_up, line.split(" "))) for line in lines]
        if self._ids_of.missing:
            self._complete()
        join = b"".join
        return [array(ID_TYPE, join(row)) for row in rows]

    def _complete(self) -> None:
        """Tokenizes the words that were missing, and fills in what stands for their ids."""
        missing = self._ids_of.missing
        try:
            words = list(missing)
            ragged_ids = self._tokenizer.tokenize([word.encode() for word in words])
            ids = ragged_ids.values.numpy().astype(ID_TYPE).tobytes()
            ends = (ragged_ids.row_splits.numpy() * array(ID_TYPE).itemsize).tolist()
            for word, start, end in zip(words, ends, ends[1:], strict=False):
                missing[word][:] = ids[start:end]
                self._ids_of[word] = ids[start:end]
        except BaseException:
            self._ids_of.clear()
            raise
        finally:
            missing.clear()
        self._num_characters += sum(map(len, words))


class _Cache(dict):
    """The ids of words, as bytes.

    A word that is not there gets an empty bytearray, to be filled in: a word is looked up only
    once, however often it occurs, and lines with new words are joined as the others are.

    Attributes:
        missing: the bytearrays of new words, in order.
    """

    def __init__(self) -> None:
        super().__init__()
        self.missing: dict[str, bytearray] = {}

    def __missing__(self, word: str) -> bytearray:
        ids = self[word] = self.missing[word] = bytearray()
        return ids


class CachedTokenizer:
    """Tokenizes the texts of tasks, each distinct word only once.

    Attributes:
        vocabulary: vocabulary of the pre-trained model.
        tokenizer: the in-graph tokenizer, which exported models embed.
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
