"""Segments text of languages that are written without spaces, by a list of words.

Forward maximum matching: from left to right, the longest listed word that begins at a position
is taken. Its tokens are masked as a whole, like words in Chinese BERT-wwm (Cui et al. 2019).
"""

import hashlib
import pathlib
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from electra_tf.text.cached_tokenizer import CorpusTokenizer
from electra_tf.text.tokenizer import Tokenizer
from electra_tf.text.vocabulary import Vocabulary
from electra_tf.util.errors import UserError, not_utf8, reason_of
from electra_tf.util.extras import import_extra

JIEBA = "jieba"
_FLAG = "--word_list"
# Longer entries are phrases, which would leave a row with few units to choose from.
MAX_WORD_TOKENS = 8
# Frequency and part of speech in jieba's dictionaries.
_FREQUENCY = re.compile(r"\s+\d+(?:\s+\w+)?$")


class _Level(NamedTuple):
    """Prefixes of words, all of the same number of tokens.

    Attributes:
        keys: int64, sorted: index of the prefix without its last token, times the vocabulary
            size, plus that token.
        is_word: bool, whether the prefix is a word.
    """

    keys: np.ndarray
    is_word: np.ndarray


class WordTrie:
    """A set of words, each a sequence of token ids.

    Args:
        words: words, of two or more tokens each; shorter ones are ignored.
        vocab_size: upper bound of the ids.
    """

    def __init__(self, words: Iterable[Sequence[int]], vocab_size: int) -> None:
        self._vocab_size = vocab_size
        wanted = {tuple(word) for word in words if len(word) > 1}
        self.num_words = len(wanted)
        self._levels: list[_Level] = []
        # The index of a prefix of one token is the token itself.
        prefixes = {(i,): i for i in {word[0] for word in wanted}}
        for length in range(2, max(map(len, wanted), default=1) + 1):
            longer = {word[:length] for word in wanted if len(word) >= length}
            by_key = {prefixes[each[:-1]] * vocab_size + each[-1]: each for each in longer}
            keys = sorted(by_key)
            prefixes = {by_key[key]: i for i, key in enumerate(keys)}
            is_word = np.array([by_key[key] in wanted for key in keys])
            self._levels.append(_Level(np.array(keys, np.int64), is_word))

    def longest_matches(self, input_ids: tf.Tensor) -> tf.Tensor:
        """Returns the tokens of the longest word that begins at each position, 1 if none.

        Args:
            input_ids: int32 [batch, seq].

        Returns:
            int32 [batch, seq].
        """
        length = tf.ones_like(input_ids)
        index = tf.cast(input_ids, tf.int64)
        begins = tf.ones_like(input_ids, tf.bool)
        for offset, level in enumerate(self._levels, start=1):
            following = input_ids[:, offset:]
            missing = _width(input_ids) - _width(following)
            following = tf.pad(following, [[0, 0], [0, missing]])
            key = index * self._vocab_size + tf.cast(following, tf.int64)
            keys = tf.constant(level.keys)
            flat = tf.reshape(key, [-1])
            found = tf.minimum(tf.searchsorted(keys, flat), len(level.keys) - 1)
            begins &= tf.reshape(tf.equal(tf.gather(keys, found), flat), tf.shape(key))
            found = tf.reshape(found, tf.shape(key))
            length = tf.where(begins & tf.gather(level.is_word, found), offset + 1, length)
            index = tf.cast(found, tf.int64)
        return length

    def continues_word(self, input_ids: tf.Tensor) -> tf.Tensor:
        """Returns which tokens are in a word of the list that begins before them.

        Args:
            input_ids: int32 [batch, seq].

        Returns:
            bool [batch, seq].
        """
        batch, length = tf.shape(input_ids)[0], _width(input_ids)
        positions = tf.range(length)[None, :]
        following = tf.minimum(positions + self.longest_matches(input_ids), length)
        # The last column is the end of the row.
        jump = tf.pad(following, [[0, 0], [0, 1]], constant_values=0)
        end = tf.one_hot(length, length + 1, dtype=tf.int32)[None, :]
        jump += end * length
        reached = tf.tile(tf.one_hot(0, length + 1, dtype=tf.int32)[None, :], [batch, 1])
        row = tf.range(batch)[:, None] * (length + 1)
        steps = tf.constant(1)

        def double(steps: tf.Tensor, reached: tf.Tensor, jump: tf.Tensor) -> tuple:
            """Adds the positions that are reached by up to twice as many words."""
            further = tf.math.unsorted_segment_max(reached, row + jump, batch * (length + 1))
            further = tf.reshape(further, tf.shape(reached))
            reached = tf.maximum(reached, further)
            return steps * 2, reached, tf.gather(jump, jump, batch_dims=1)

        _, reached, _ = tf.while_loop(
            lambda steps, *_: steps <= length, double, (steps, reached, jump)
        )
        return reached[:, :-1] == 0


def load_word_list(
    source: str, vocabulary: Vocabulary, *, do_lower_case: bool, strip_accents: bool
) -> WordTrie:
    """Reads a word list, and tokenizes its words.

    Args:
        source: a file with a word per line, perhaps followed by its frequency and part of
            speech, as in jieba's dictionaries; or "jieba" for that of the package.
        vocabulary: vocabulary of the model.
        do_lower_case, strip_accents: as the records were tokenized.

    Raises:
        UserError: the file cannot be read, jieba is not installed, or no word of the list has
            several tokens that the vocabulary knows.
    """
    path = _path(source)
    try:
        text = _read(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UserError(f"{_FLAG}={path}: {not_utf8(error)}") from error
    words = [_FREQUENCY.sub("", line.strip()) for line in text.split("\n")]
    tokenizer = Tokenizer(vocabulary, do_lower_case, strip_accents)
    known = [
        tuple(ids)
        for ids in CorpusTokenizer(tokenizer).tokenize(words)
        if 1 < len(ids) <= MAX_WORD_TOKENS and vocabulary.unk_id not in ids
    ]
    trie = WordTrie(known, vocabulary.size)
    if not trie.num_words:
        raise UserError(
            f"{_FLAG}: none of the {len(words):,} lines of {path} is a word of 2 to "
            f"{MAX_WORD_TOKENS} tokens of the vocabulary. Write one word per line"
        )
    return trie


def word_list_sha256(source: str | None) -> str | None:
    """Returns the SHA-256 of a word list, in hexadecimal; None without one.

    For errors see `load_word_list`.
    """
    if not source:
        return None
    return hashlib.sha256(_read(_path(source))).hexdigest()


def _path(source: str) -> pathlib.Path:
    if source != JIEBA:
        return pathlib.Path(source)
    package = import_extra("jieba", "chinese", f"{_FLAG}={JIEBA}")
    return pathlib.Path(package.__file__).parent / "dict.txt"


def _read(path: pathlib.Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UserError(f"{_FLAG}: {path} cannot be read: {reason_of(error)}") from error


def _width(values: tf.Tensor) -> tf.Tensor | int:
    return values.shape[1] if values.shape[1] is not None else tf.shape(values)[1]
