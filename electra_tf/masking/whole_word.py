"""Whole-word masking: all pieces of a word or none (Devlin et al., May 2019 update)."""

import tensorflow as tf

from electra_tf.masking.base import MaskingOrder, MaskingStrategy, TokenStatistics
from electra_tf.model import randomness


class WholeWordMasking(MaskingStrategy):
    """Every word is equally likely, regardless of its number of pieces.

    As in BERT's data generation, a word that would exceed the number of tokens to mask is
    skipped, and shorter ones after it are still masked. If every word would exceed it, the
    first is masked in part, so that a row is never without a masked token.
    """

    def order(
        self,
        input_ids: tf.Tensor,
        candidates: tf.Tensor,
        key: tf.Tensor,
        first_example: tf.Tensor | int,
    ) -> MaskingOrder:
        """Returns uniform noise per word, and the words as units."""
        words = number_words(input_ids, candidates, self.tokens)
        counters = randomness.counters(tf.shape(input_ids), first_example)
        noise = randomness.uniform(key, counters)
        return MaskingOrder(tf.gather(noise, words, batch_dims=1), words)


def number_words(
    input_ids: tf.Tensor, candidates: tf.Tensor, tokens: TokenStatistics | None
) -> tf.Tensor:
    """Returns the index of each position's word within its row, int32 [batch, seq].

    A word starts at every piece without `##` that is not inside of a word of `--word_list`, and
    at the boundaries of candidates.

    Args:
        input_ids: int32 [batch, seq].
        candidates: bool [batch, seq].
        tokens: token statistics with `continues_word`.
    """
    continues = tf.gather(tf.constant(tokens.continues_word), input_ids)
    if tokens.words is not None:
        continues |= tokens.words.continues_word(input_ids)
    inside = candidates[:, 1:] & candidates[:, :-1] & continues[:, 1:]
    begins = tf.pad(~inside, [[0, 0], [1, 0]])  # the first position has number 0
    return tf.cumsum(tf.cast(begins, tf.int32), axis=-1)
