"""Token masking: single tokens, uniformly (paper, section 2)."""

import tensorflow as tf

from electra_tf.masking.base import MaskingOrder, MaskingStrategy
from electra_tf.model import randomness


class TokenMasking(MaskingStrategy):
    """Every candidate is equally likely."""

    def order(
        self,
        input_ids: tf.Tensor,
        candidates: tf.Tensor,
        key: tf.Tensor,
        first_example: tf.Tensor | int,
    ) -> MaskingOrder:
        """Returns uniform noise as the priority."""
        counters = randomness.counters(tf.shape(input_ids), first_example)
        return MaskingOrder(randomness.uniform(key, counters))
