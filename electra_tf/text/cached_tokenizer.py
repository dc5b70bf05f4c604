"""Tokenizers for large amounts of text: the in-graph tokenizer behind a word cache."""

from array import array
from collections.abc import Mapping, Sequence

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
        self._bytes_of = _Cache()
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
        look_up, new_words, join = self._bytes_of.__getitem__, self._bytes_of.missing, b"".join
        new_words.clear()
        bytes_of_lines: list[bytes] = []
        incomplete: dict[int, list[bytes | None]] = {}
        num_new = 0
        for line in lines:
            pieces = list(map(look_up, line.split(" ")))
            if len(new_words) > num_new:
                num_new = len(new_words)
                incomplete[len(bytes_of_lines)] = pieces
                bytes_of_lines.append(b"")
            else:
                bytes_of_lines.append(join(pieces))
        if incomplete:
            self._complete(bytes_of_lines, incomplete)
        return [array(ID_TYPE, ids) for ids in bytes_of_lines]

    def _complete(
        self, bytes_of_lines: list[bytes], incomplete: Mapping[int, list[bytes | None]]
    ) -> None:
        """Fills in the lines with new words: their numbers, and the ids of their words."""
        self._add(list(dict.fromkeys(self._bytes_of.missing)))
        new_words = iter(self._bytes_of.missing)
        for i, pieces in incomplete.items():
            for position in [j for j, piece in enumerate(pieces) if piece is None]:
                pieces[position] = self._bytes_of[next(new_words)]
            bytes_of_lines[i] = b"".join(pieces)

    def _add(self, new_words: list[str]) -> None:
        self._num_characters += sum(map(len, new_words))
        ragged_ids = self._tokenizer.tokenize([word.encode() for word in new_words])
        ids = ragged_ids.values.numpy().astype(ID_TYPE).tobytes()
        ends = (ragged_ids.row_splits.numpy() * array(ID_TYPE).itemsize).tolist()
        self._bytes_of.update(
            (word, ids[start:end])
            for word, start, end in zip(new_words, ends, ends[1:], strict=False)
        )


class _Cache(dict):
    """The ids of words, as bytes; None for a word that is not there.

    Attributes:
        missing: the words that were looked up and not there, in order.
    """

    def __init__(self) -> None:
        super().__init__()
        self.missing: list[str] = []

    def __missing__(self, word: str) -> None:
        self.missing.append(word)


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
