"""Whole words: all pieces of a word are masked, or none (Devlin et al., update of 2019)."""

import tensorflow as tf

from electra_tf.masking.base import MaskingOrder, MaskingStrategy, TokenStatistics
from electra_tf.model import randomness


class WholeWordMasking(MaskingStrategy):
    """Every word is as likely as any other, however many pieces it has.

    The last word is left out where it would exceed the number of tokens to mask.
    """

    def order(
        self,
        input_ids: tf.Tensor,
        candidates: tf.Tensor,
        key: tf.Tensor,
        first_example: tf.Tensor | int,
    ) -> MaskingOrder:
        """Returns noise that the pieces of a word share, and the words as units."""
        words = number_words(input_ids, candidates, self.tokens)
        counters = randomness.counters(tf.shape(input_ids), first_example)
        noise = randomness.uniform(key, counters)
        return MaskingOrder(tf.gather(noise, words, batch_dims=1), words)


def number_words(
    input_ids: tf.Tensor, candidates: tf.Tensor, tokens: TokenStatistics | None
) -> tf.Tensor:
    """Returns int32 [batch, seq], the number of each position's word within its row, from 0.

    A word begins with a piece that continues none, and around tokens that are no candidates.

    Args:
        input_ids: int32 [batch, seq].
        candidates: bool [batch, seq].
        tokens: whose `continues_word` is used.
    """
    continues = tf.gather(tf.constant(tokens.continues_word), input_ids)
    inside = candidates[:, 1:] & candidates[:, :-1] & continues[:, 1:]
    begins = tf.pad(~inside, [[0, 0], [1, 0]])  # the first position has number 0
    return tf.cumsum(tf.cast(begins, tf.int32), axis=-1)
