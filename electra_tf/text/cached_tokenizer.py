"""Tokenizers for large amounts of text: the in-graph tokenizer behind a word cache."""

from array import array
from collections.abc import Sequence
from itertools import chain

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
        self._bytes_of: dict[str, bytes] = {}
        self._num_characters = 0

    def tokenize(self, lines: list[str]) -> list[array]:
        """Tokenizes lines.

        Args:
            lines: texts without LF.

        Returns:
            The ids of each line, without [CLS] and [SEP], as arrays of `ID_TYPE`.
        """
        if (
            len(self._bytes_of) > self._max_cached_words
            or self._num_characters > MAX_CACHED_CHARACTERS
        ):
            self._bytes_of.clear()
            self._num_characters = 0
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
        self._num_characters += sum(map(len, new_words))
        ragged_ids = self._tokenizer.tokenize([word.encode() for word in new_words])
        ids = ragged_ids.values.numpy().astype(ID_TYPE).tobytes()
        ends = (ragged_ids.row_splits.numpy() * array(ID_TYPE).itemsize).tolist()
        self._bytes_of.update(
            (word, ids[start:end])
            for word, start, end in zip(new_words, ends, ends[1:], strict=False)
        )


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
