"""ELECTRA 15 %: the discriminator learns from the masked tokens alone (section 3.5)."""

import tensorflow as tf

from electra_tf.model.batch_types import PretrainInputs
from electra_tf.pretrain_helpers import masked_positions
from electra_tf.pretraining_model import PretrainingModel


class MaskedTokensDetection(PretrainingModel):
    """Sees the same text as ELECTRA, and learns from as many tokens as BERT."""

    def discriminator_weights(self, inputs: PretrainInputs) -> tf.Tensor:
        """Returns float32 [batch, seq], 1 on the masked tokens."""
        return masked_positions(inputs)
