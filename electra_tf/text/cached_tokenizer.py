"""Tokenizers for large amounts of text: the in-graph tokenizer behind a word cache."""

import threading
from array import array
from collections.abc import Sequence

import numpy as np

from electra_tf.text.tokenizer import Tokenizer
from electra_tf.text.vocabulary import Vocabulary
from electra_tf.text.word_table import WordTable
from electra_tf.util.errors import UserError, refuse_single_string

# Type code of id arrays: C int.
ID_TYPE = "i"
# About 150 MB of memory, including the words and the dictionary.
DEFAULT_MAX_CACHED_WORDS = 1_000_000
# Text without spaces is cached as long "words".
MAX_CACHED_BYTES = 128_000_000
# Held while a table is read and extended. All tokenizers share it, so that they can be pickled.
_lock = threading.Lock()


class CorpusTokenizer:
    """Returns the ids of `Tokenizer` at the speed of table lookups.

    BERT's tokenization never looks across a space, so the ids of a line are the
    concatenated ids of its space-separated parts. Most parts are cached; the others are
    tokenized in one call per block of text. Threads may share a tokenizer; they take turns.
    """

    def __init__(self, tokenizer: Tokenizer, max_cached_words: int = DEFAULT_MAX_CACHED_WORDS):
        """Starts with an empty cache.

        Args:
            tokenizer: tokenizes uncached words.
            max_cached_words: size at which the cache is cleared.
        """
        self._tokenizer = tokenizer
        self._max_cached_words = max_cached_words
        self._table = WordTable()

    def tokenize(self, lines: list[str]) -> list[array]:
        """Tokenizes lines.

        Args:
            lines: texts without LF.

        Returns:
            The ids of each line, without [CLS] and [SEP], as arrays of `ID_TYPE`.
        """
        if not lines:
            return []
        text = " ".join(lines).encode()
        with _lock:
            is_full = len(self._table) > self._max_cached_words
            if is_full or self._table.num_bytes > MAX_CACHED_BYTES:
                self._table = WordTable()
            ids, counts = self._table.look_up(text, self._tokenize_words)
        last_words = np.cumsum([line.count(" ") + 1 for line in lines]) - 1
        ends = (np.cumsum(counts)[last_words] * array(ID_TYPE).itemsize).tolist()
        content = ids.astype(ID_TYPE).tobytes()
        return [
            array(ID_TYPE, content[start:end])
            for start, end in zip([0, *ends], ends, strict=False)
        ]

    def _tokenize_words(self, words: Sequence[bytes]) -> tuple[np.ndarray, np.ndarray]:
        rows = self._tokenizer.tokenize(words)
        return rows.values.numpy(), rows.row_splits.numpy()


class CachedTokenizer:
    """Tokenizes the texts of tasks, each distinct word only once.

    Args:
        vocabulary: vocabulary of the pre-trained model.
        do_lower_case, strip_accents: settings of its tokenizer.

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
        """Returns the int32 ids of each text, without [CLS] and [SEP].

        Raises:
            UserError: `texts` is a single string, whose characters would be the texts.
        """
        refuse_single_string("texts", texts)
        return [
            np.frombuffer(ids, np.int32).copy() if len(ids) else np.zeros(0, np.int32)
            for ids in self._cached.tokenize(list(texts))
        ]

    def tokens(self, ids: Sequence[int]) -> list[str]:
        """Returns the token strings of ids.

        Raises:
            UserError: an id is outside of the vocabulary.
        """
        largest = self.vocabulary.size - 1
        for i in ids:
            if not 0 <= i <= largest:
                raise UserError(f"ids must be from 0 to {largest}, not {i}")
        return [self.vocabulary.tokens[i] for i in ids]
