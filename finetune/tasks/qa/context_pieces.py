"""Tokenized contexts with character offsets, in the graph.

The equivalents in Python are `finetune.tasks.qa.examples.Context`, the featurizer and, for
built-in tasks, `FinalText`. The contexts of a batch are concatenated: pieces, words and
characters have indices in the whole batch.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf
import tensorflow_text as tf_text

from electra_tf.text.tokenizer import Tokenizer, split_words
from electra_tf.text.vocabulary import CONTINUATION
from finetune.tasks.qa.examples import SEPARATORS, Context

_CHARACTERS_PER_CALL = 1_000_000
# Marks and joiners, which belong to the character before them (Unicode's UAX #29).
_ATTACHED = r"[\p{M}\x{200C}\x{200D}]"


class ContextPieces(NamedTuple):
    """The concatenated pieces of all contexts of a batch.

    `texts` string [batch], valid UTF-8; `ids` and `words` (index of the word) int32
    [pieces]; `splits` int32 [batch + 1], the first piece of each context; `starts` and `ends`
    (exclusive) int32 [pieces], the code points of each piece in its text.

    The other fields are for `authors_character_span`: cumulative counts of normalized
    characters by piece, `normalized` [pieces + 1], and by word, `word_normalized` [words + 1];
    of original characters by word, `word_original` [words + 1]; of [UNK]s by piece, `unknown`
    [pieces + 1]; and `positions` [characters], the position in its text of every character that
    is not a separator.
    """

    texts: tf.Tensor
    ids: tf.Tensor
    words: tf.Tensor
    splits: tf.Tensor
    starts: tf.Tensor
    ends: tf.Tensor
    normalized: tf.Tensor
    word_normalized: tf.Tensor
    word_original: tf.Tensor
    unknown: tf.Tensor
    positions: tf.Tensor

    def character_span(self, first: tf.Tensor, last: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the start and end (exclusive) of spans in code points, int32 [n].

        Args:
            first, last: int32 [n], pieces of the same context.
        """
        return tf.gather(self.starts, first), tf.gather(self.ends, last)

    def authors_character_span(
        self, first: tf.Tensor, last: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the same by the rule of the authors' `get_final_text`.

        If the words of the span have as many normalized as original characters, and no piece is
        [UNK], characters are mapped one to one; otherwise the span is extended to whole words.
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


class PiecePlaces:
    """The characters of all pieces of contexts.

    Args:
        tokenizer: tokenizer of the model.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._places: dict[Context, tuple[np.ndarray, np.ndarray]] = {}

    def prepare(self, contexts: Iterable[Context]) -> None:
        """Tokenizes many contexts at once, much faster than one by one."""
        part, size = [], 0
        for context in dict.fromkeys(contexts):
            if context in self._places:
                continue
            if part and size + len(context.text) > _CHARACTERS_PER_CALL:
                self._place(part)
                part, size = [], 0
            part.append(context)
            size += len(context.text)
        if part:
            self._place(part)

    def _place(self, contexts: Sequence[Context]) -> None:
        pieces = context_pieces(self._tokenizer, tf.constant([c.text for c in contexts]))
        starts, ends = pieces.starts.numpy(), pieces.ends.numpy()
        splits = pieces.splits.numpy().tolist()
        for context, first, behind in zip(contexts, splits, splits[1:], strict=False):
            self._places[context] = starts[first:behind], ends[first:behind]

    def __getitem__(self, context: Context) -> tuple[np.ndarray, np.ndarray]:
        """Returns the start and end (exclusive) character of each piece, int32 [pieces]."""
        self.prepare([context])
        return self._places[context]


def context_pieces(tokenizer: Tokenizer, contexts: tf.Tensor) -> ContextPieces:
    """Tokenizes contexts, string [batch]; invalid UTF-8 becomes U+FFFD."""
    texts = tf.strings.unicode_transcode(contexts, "UTF-8", "UTF-8", errors="replace")
    # TensorFlow Text ends a text at NUL. Both are characters that the tokenizer drops.
    separable = tf.strings.regex_replace(texts, "\x00", "\ufffd")
    words = tf_text.regex_split(separable, f"[{SEPARATORS}]+")  # (batch, words)
    tokens = split_words(words.values, tokenizer.do_lower_case, tokenizer.strip_accents)
    pieces = tokenizer.cut_words(tokens.values)  # (all tokens, pieces)
    word_splits = tf.gather(pieces.row_splits, tokens.row_splits)

    vocabulary = tokenizer.vocabulary
    is_unknown = pieces.values == vocabulary.unk_id
    token_lengths = tf.gather(_num_characters(tokens.values), pieces.value_rowids())
    lengths = _num_characters(tf.gather(tf.constant(vocabulary.tokens), pieces.values))
    within_token = tf.ragged.range(pieces.row_lengths()).values
    lengths -= len(CONTINUATION) * tf.cast(within_token > 0, tf.int32)
    # [UNK] stands for a whole token.
    normalized = _counts_before(tf.where(is_unknown, token_lengths, lengths))

    characters = tf.strings.unicode_decode(separable, "UTF-8")
    is_separator = tf.reduce_any(
        characters.values[:, None] == [ord(separator) for separator in SEPARATORS], axis=1
    )
    positions = tf.ragged.range(tf.cast(characters.row_lengths(), tf.int32)).values
    first, behind = _piece_characters(tokenizer, characters.values, positions, normalized)
    return ContextPieces(
        texts=texts,
        ids=pieces.values,
        words=tf.cast(tf.gather(tokens.value_rowids(), pieces.value_rowids()), tf.int32),
        splits=tf.cast(tf.gather(word_splits, words.row_splits), tf.int32),
        starts=tf.gather(positions, first),
        ends=tf.gather(positions, behind - 1) + 1,
        normalized=normalized,
        word_normalized=tf.gather(normalized, word_splits),
        word_original=_counts_before(_num_characters(words.values)),
        unknown=_counts_before(tf.cast(is_unknown, tf.int32)),
        positions=tf.boolean_mask(positions, ~is_separator),
    )


def _piece_characters(
    tokenizer: Tokenizer, characters: tf.Tensor, positions: tf.Tensor, normalized: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the first character of each piece, and the first one after it, int32 [pieces].

    Normalization maps every character to zero or more characters, whose number does not depend
    on its neighbors (the lower case of a final sigma is one letter, too). So these numbers
    locate the original of every normalized character. Characters after a piece that are
    `_ATTACHED` to it, and are dropped by normalization, belong to it.

    Args:
        tokenizer: tokenizer of the model.
        characters: int32 [characters], code points.
        positions: int32 [characters], their positions in their texts.
        normalized: int32 [pieces + 1], cumulative counts of normalized characters.
    """
    distinct, index = tf.unique(characters)
    texts = tf.strings.unicode_encode(distinct[:, tf.newaxis], "UTF-8")
    tokens = split_words(texts, tokenizer.do_lower_case, tokenizer.strip_accents)
    counts = tf.reduce_sum(tokens.with_values(_num_characters(tokens.values)), axis=1)
    is_attached = (counts == 0) & tf.strings.regex_full_match(texts, _ATTACHED)

    size = tf.size(characters)
    sources = tf.repeat(tf.range(size), tf.gather(counts, index))  # (normalized characters)
    first = tf.gather(sources, normalized[:-1])
    last = tf.gather(sources, normalized[1:] - 1)
    # Characters that are not attached to the one before them.
    begins = ~tf.gather(is_attached, index) | (positions == 0)
    begins = tf.concat([tf.boolean_mask(tf.range(size), begins), [size]], axis=0)
    behind = tf.gather(begins, tf.searchsorted(begins, last, side="right"))
    return first, behind


def _num_characters(texts: tf.Tensor) -> tf.Tensor:
    return tf.strings.length(texts, unit="UTF8_CHAR")


def _counts_before(counts: tf.Tensor) -> tf.Tensor:
    """Returns the cumulative sums of counts [n], starting with 0: int32 [n + 1]."""
    return tf.concat([[0], tf.cumsum(counts)], axis=0)
