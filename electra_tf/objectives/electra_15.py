"""ELECTRA 15 %: the discriminator's loss covers the masked tokens only (section 3.5)."""

import tensorflow as tf

from electra_tf.model.batch_types import PretrainInputs
from electra_tf.pretrain_helpers import masked_positions
from electra_tf.pretraining_model import PretrainingModel


class MaskedTokensDetection(PretrainingModel):
    """The inputs of ELECTRA, with as many predicted tokens as BERT."""

    def discriminator_weights(self, inputs: PretrainInputs) -> tf.Tensor:
        """Returns float32 [batch, seq], 1 for masked tokens."""
        return masked_positions(inputs)
