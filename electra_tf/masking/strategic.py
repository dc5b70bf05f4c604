"""Strategic masking: rare tokens are masked more often than frequent ones."""

import dataclasses

import numpy as np
import tensorflow as tf

from electra_tf.masking.base import MaskingOrder, MaskingStrategy
from electra_tf.model import randomness

# Relative to the largest weight. Smaller ones would give priorities that are not finite in
# float32, and lower than those of tokens that are never masked.
_MIN_WEIGHT = np.float32(1e-30)


@dataclasses.dataclass(frozen=True)
class StrategicMaskingHparams:
    """`power`: a token of relative frequency f has weight f ** -power; 0 is uniform."""

    power: float = 0.5


class StrategicMasking(MaskingStrategy):
    """Samples positions without replacement, weighted by inverse token frequency.

    The paper (appendix H) tried masking rare tokens more often but gives no formula. The
    weight here is a power of the relative frequency; the default of 1/2 is the inverse of
    word2vec's subsampling of frequent words (Mikolov et al. 2013, section 2.3).
    """

    Hparams = StrategicMaskingHparams
    is_uniform = False
    needs_counts = True

    def order(
        self,
        input_ids: tf.Tensor,
        candidates: tf.Tensor,
        key: tf.Tensor,
        first_example: tf.Tensor | int,
    ) -> MaskingOrder:
        """Returns log(u) / weight; the k largest are k weighted draws without replacement.

        See Efraimidis and Spirakis 2006, "Weighted random sampling with a reservoir", whose
        keys are u ** (1 / weight).
        """
        log_weights = -self.hparams.power * self.tokens.log_frequencies()
        # Only the ratios of weights matter; scale the largest to 1.
        weights = np.maximum(np.exp(log_weights - log_weights.max()), _MIN_WEIGHT)
        counters = randomness.counters(tf.shape(input_ids), first_example)
        noise = tf.math.log(randomness.uniform(key, counters))
        return MaskingOrder(noise / tf.gather(tf.constant(weights), input_ids))
