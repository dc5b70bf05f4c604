"""Tokenized contexts with character offsets, in the graph.

The equivalent in Python is `finetune.tasks.qa.examples.Context`, the featurizer and
`FinalText`. The contexts of a batch are concatenated: indices of pieces, words and characters
count through the batch.
"""

from typing import NamedTuple

import tensorflow as tf
import tensorflow_text as tf_text

from electra_tf.text.tokenizer import Tokenizer, split_words

# Separators of words in a context; see `finetune.tasks.qa.examples`.
_SEPARATORS = " \t\r\n\u202f"


class ContextPieces(NamedTuple):
    """The concatenated pieces of all contexts of a batch.

    `texts` string [batch], valid UTF-8; `ids` and `words` (index of the word) int32
    [pieces]; `splits` int32 [batch + 1], the first piece of each context. The others map
    pieces to characters: cumulative counts of normalized characters by piece, `normalized`
    [pieces + 1], and by word, `word_normalized` [words + 1]; of original characters by word,
    `word_original` [words + 1]; of [UNK]s by piece, `unknown` [pieces + 1]; and `positions`
    [characters], the position in its text of every character that is not a separator.
    """

    texts: tf.Tensor
    ids: tf.Tensor
    words: tf.Tensor
    splits: tf.Tensor
    normalized: tf.Tensor
    word_normalized: tf.Tensor
    word_original: tf.Tensor
    unknown: tf.Tensor
    positions: tf.Tensor

    def character_span(self, first: tf.Tensor, last: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the start and end (exclusive) of spans in code points, int32 [n].

        Normalized characters are mapped to original ones if the words of the span have as
        many of each and no piece is [UNK]; otherwise the span is extended to all these words.

        Args:
            first, last: int32 [n], pieces of the same context.
        """
        first_word = tf.gather(self.words, first)
        behind_word = tf.gather(self.words, last) + 1
        before = tf.gather(self.word_original, first_word)
        behind = tf.gather(self.word_original, behind_word)
        normalized_before = tf.gather(self.word_normalized, first_word)
        normalized_behind = tf.gather(self.word_normalized, behind_word)
        num_unknown = tf.gather(self.unknown, last + 1) - tf.gather(self.unknown, first)
        is_aligned = behind - before == normalized_behind - normalized_before
        is_aligned &= num_unknown == 0
        shift = before - normalized_before
        start = tf.where(is_aligned, tf.gather(self.normalized, first) + shift, before)
        end = tf.where(is_aligned, tf.gather(self.normalized, last + 1) + shift, behind)
        return tf.gather(self.positions, start), tf.gather(self.positions, end - 1) + 1


def context_pieces(tokenizer: Tokenizer, contexts: tf.Tensor) -> ContextPieces:
    """Tokenizes contexts, string [batch]; invalid UTF-8 becomes U+FFFD."""
    texts = tf.strings.unicode_transcode(contexts, "UTF-8", "UTF-8", errors="replace")
    # TensorFlow Text ends a text at NUL. Both are characters that the tokenizer drops.
    separable = tf.strings.regex_replace(texts, "\x00", "\ufffd")
    words = tf_text.regex_split(separable, f"[{_SEPARATORS}]+")  # (batch, words)
    tokens = split_words(words.values, tokenizer.do_lower_case, tokenizer.strip_accents)
    pieces = tokenizer.cut_words(tokens.values)  # (all tokens, pieces)
    word_splits = tf.gather(pieces.row_splits, tokens.row_splits)

    vocabulary = tokenizer.vocabulary
    is_unknown = pieces.values == vocabulary.unk_id
    token_lengths = tf.gather(_num_characters(tokens.values), pieces.value_rowids())
    lengths = _num_characters(tf.gather(tf.constant(vocabulary.tokens), pieces.values))
    within_token = tf.ragged.range(pieces.row_lengths()).values
    lengths -= len("##") * tf.cast(within_token > 0, tf.int32)
    # An [UNK] stands for a whole token.
    normalized = _counts_before(tf.where(is_unknown, token_lengths, lengths))

    characters = tf.strings.unicode_decode(texts, "UTF-8")
    is_separator = tf.reduce_any(
        characters.values[:, None] == [ord(separator) for separator in _SEPARATORS], axis=1
    )
    positions = tf.ragged.range(tf.cast(characters.row_lengths(), tf.int32)).values
    return ContextPieces(
        texts=texts,
        ids=pieces.values,
        words=tf.cast(tf.gather(tokens.value_rowids(), pieces.value_rowids()), tf.int32),
        splits=tf.cast(tf.gather(word_splits, words.row_splits), tf.int32),
        normalized=normalized,
        word_normalized=tf.gather(normalized, word_splits),
        word_original=_counts_before(_num_characters(words.values)),
        unknown=_counts_before(tf.cast(is_unknown, tf.int32)),
        positions=tf.boolean_mask(positions, ~is_separator),
    )


def _num_characters(texts: tf.Tensor) -> tf.Tensor:
    return tf.strings.length(texts, unit="UTF8_CHAR")


def _counts_before(counts: tf.Tensor) -> tf.Tensor:
    """Returns the cumulative sums of counts [n], starting with 0: int32 [n + 1]."""
    return tf.concat([[0], tf.cumsum(counts)], axis=0)
