"""Span masking: spans of whole words, as in SpanBERT (Joshi et al. 2020, section 3.1)."""

import dataclasses
import math

import tensorflow as tf

from electra_tf.config.hyperparameters import within
from electra_tf.masking.base import MaskingOrder, MaskingStrategy
from electra_tf.masking.whole_word import number_words
from electra_tf.model import randomness


@dataclasses.dataclass(frozen=True)
class SpanMaskingHparams:
    """Span lengths in words: geometric with parameter `p`, truncated at `max_words`."""

    p: float = within(0.2, 0.001, 0.999)
    max_words: int = within(10, 1, 10_000)


class SpanMasking(MaskingStrategy):
    """Samples spans until enough tokens are masked.

    A span starts at a uniformly sampled word; its length is 3.8 words on average with the
    default hyperparameters, limited by its segment. Spans may overlap; the last one is cut when
    enough tokens are masked.

    Spans end to the right of their start, so the first words of a segment are masked less
    often. Each token is then replaced by [MASK] or kept as with other strategies; SpanBERT
    draws that once per span.
    """

    Hparams = SpanMaskingHparams
    is_uniform = False

    def order(
        self,
        input_ids: tf.Tensor,
        candidates: tf.Tensor,
        key: tf.Tensor,
        first_example: tf.Tensor | int,
    ) -> MaskingOrder:
        """Returns the negative index of the first span that covers each position.

        One span is sampled per position, enough to cover most of a row; uncovered positions
        come last.
        """
        shape = tf.shape(input_ids)
        words = number_words(input_ids, candidates, self.tokens)
        start_key, length_key = tf.unstack(randomness.split(key, 2))
        counters = randomness.counters(shape, first_example)
        begins = candidates & (words != tf.pad(words, [[0, 0], [1, 0]])[:, :-1])
        num_words = tf.reduce_sum(tf.cast(begins, tf.int32), axis=-1, keepdims=True)
        rank = randomness.uniform(start_key, counters) * tf.cast(num_words, tf.float32)
        rank = tf.minimum(tf.cast(rank, tf.int32), tf.maximum(num_words - 1, 0))
        order = tf.cumsum(tf.cast(begins, tf.int32), axis=-1)
        start = tf.searchsorted(order, rank + 1, side="left")
        start = tf.minimum(start, shape[1] - 1)
        first_word = tf.gather(words, start, batch_dims=1)  # (batch, spans)

        # Inverse of P(length <= n) = (1 - q ** n) / (1 - q ** max_words), with q = 1 - p.
        q = 1.0 - self.hparams.p
        below = randomness.uniform(length_key, counters) * (1.0 - q**self.hparams.max_words)
        length = tf.math.ceil(tf.math.log1p(-below) / math.log(q))
        length = tf.clip_by_value(tf.cast(length, tf.int32), 1, self.hparams.max_words)
        last_word = first_word + length - 1

        # A span ends before the first non-candidate, so it does not cross segments.
        breaks = tf.cumsum(tf.cast(~candidates, tf.int32), axis=-1)
        position_word, position_break = words[:, None], breaks[:, None]
        covered = (  # (batch, spans, seq)
            (position_word >= first_word[..., None])
            & (position_word <= last_word[..., None])
            & (position_break == tf.gather(breaks, start, batch_dims=1)[..., None])
        )
        never = tf.fill(shape, tf.cast(shape[1], tf.int32))
        first = tf.argmax(covered, axis=1, output_type=tf.int32)
        first = tf.where(tf.reduce_any(covered, axis=1), first, never)
        return MaskingOrder(-tf.cast(first, tf.float32))
