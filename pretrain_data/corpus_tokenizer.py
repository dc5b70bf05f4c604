"""Tokenizes a corpus: the in-graph tokenizer behind a cache of words."""

from itertools import chain

from pretrain_data.tokenizer import Tokenizer

# About 200 MB of memory for English words.
DEFAULT_MAX_CACHED_IDS = 2_000_000


class CorpusTokenizer:
    """Gives the ids of `Tokenizer` for many lines at Python's dictionary speed.

    BERT's tokenization does not look across a space, so the ids of a line are the ids
    of its parts between spaces, one after the other. Most of them were seen before;
    the others are tokenized in one call per block of text.
    """

    def __init__(self, tokenizer: Tokenizer, max_cached_ids: int = DEFAULT_MAX_CACHED_IDS):
        """Starts with an empty cache.

        Args:
            tokenizer: tokenizes what is not in the cache.
            max_cached_ids: the cache is emptied once it holds more ids than this.
        """
        self._tokenizer = tokenizer
        self._max_cached_ids = max_cached_ids
        self._cached_ids = 0
        self._ids_of: dict[str, list[int]] = {}
        # One integer object per id, shared by all words that hold it.
        self._shared = list(range(tokenizer.vocabulary.size))

    def tokenize(self, lines: list[str]) -> list[list[int]]:
        """Tokenizes each line.

        Args:
            lines: texts without LF.

        Returns:
            The ids of each line, without [CLS] and [SEP].
        """
        if self._cached_ids > self._max_cached_ids:
            self._ids_of.clear()
            self._cached_ids = 0
        parts_of_lines = [line.split(" ") for line in lines]
        self._add(set(chain.from_iterable(parts_of_lines)) - self._ids_of.keys())
        ids_of = self._ids_of.__getitem__
        return [list(chain.from_iterable(map(ids_of, parts))) for parts in parts_of_lines]

    def _add(self, words: set[str]) -> None:
        if not words:
            return
        new_words = list(words)
        ragged_ids = self._tokenizer.tokenize([word.encode() for word in new_words])
        ids = list(map(self._shared.__getitem__, ragged_ids.values.numpy().tolist()))
        splits = ragged_ids.row_splits.numpy().tolist()
        self._ids_of.update(
            (word, ids[start:end])
            for word, start, end in zip(new_words, splits, splits[1:], strict=False)
        )
        self._cached_ids += len(ids)
