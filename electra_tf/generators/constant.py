"""Generators without weights: the same distribution at every position."""

import numpy as np
import tensorflow as tf

from electra_tf.generators.base import Generator
from electra_tf.generators.sampling import DISALLOWED_LOGIT
from electra_tf.model.batch_types import MaskedLMOutput, PretrainInputs
from electra_tf.model.heads import get_softmax_output
from electra_tf.model.randomness import Randomness


class UniformGenerator(Generator):
    """All tokens are equally likely (the authors' `uniform_generator`)."""

    is_constant = True

    def token_logits(self) -> np.ndarray:
        """Returns float32 [vocab], the logits at every position."""
        return np.zeros(self.config.vocab_size, np.float32)

    def __call__(self, inputs: PretrainInputs, randomness: Randomness) -> MaskedLMOutput:
        """Returns the same prediction at every position; the loss is constant."""
        vocab_size = self.config.vocab_size
        shape = tf.concat([tf.shape(inputs.masked_lm_ids), [vocab_size]], axis=0)
        logits = tf.broadcast_to(tf.constant(self.token_logits()), shape)
        logits = tf.ensure_shape(logits, [None, None, vocab_size])
        return get_softmax_output(logits, inputs.masked_lm_ids, inputs.masked_lm_weights)


class UnigramGenerator(UniformGenerator):
    """Token probabilities are their frequencies in the records, without special tokens."""

    needs_counts = True

    def token_logits(self) -> np.ndarray:
        """Returns float32 [vocab], log frequencies."""
        logits = self.tokens.log_frequencies()
        logits[list(self.special)] -= DISALLOWED_LOGIT
        return logits
