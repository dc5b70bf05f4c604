"""Tokens one by one, each alike (paper, section 2.1)."""

import tensorflow as tf

from electra_tf import random_bits
from electra_tf.masking_strategy import MaskingOrder, MaskingStrategy


class TokenMasking(MaskingStrategy):
    """Every candidate is as likely as any other, whatever it is."""

    def order(
        self,
        input_ids: tf.Tensor,
        candidates: tf.Tensor,
        key: tf.Tensor,
        first_example: tf.Tensor | int,
    ) -> MaskingOrder:
        """Returns uniform noise as the priority."""
        counters = random_bits.counters(tf.shape(input_ids), first_example)
        return MaskingOrder(random_bits.uniform(key, counters))
