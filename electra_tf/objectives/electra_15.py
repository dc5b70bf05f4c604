"""ELECTRA 15 %: the discriminator's loss covers the masked tokens only (section 3.5)."""

import tensorflow as tf

from electra_tf.config.choices import ELECTRA_15
from electra_tf.config.pretraining import PretrainingConfig
from electra_tf.masking.masked_batch import masked_positions
from electra_tf.model.batch_types import PretrainInputs
from electra_tf.pretraining_model import PretrainingModel
from electra_tf.util.console import warn_once


class MaskedTokensDetection(PretrainingModel):
    """The inputs of ELECTRA, with as many predicted tokens as BERT.

    The paper sums the discriminator's loss over the masked positions m instead of all n
    positions. m includes positions that were drawn for masking but kept their token: they are
    sampled, too. A sample that equals the original is labeled real. The loss is

        L_Disc = sum over t in m of the cross-entropy of token t / |m|

    over all rows of the global batch: a mean over tokens, not over rows. The paper writes sums;
    the authors' code divides each loss by its number of tokens (`1e-6 + sum(weights)` in
    `_get_discriminator_output`). There, the weights are always the input mask; here, they are
    m, so `disc_weight` multiplies a mean in both objectives.
    """

    @classmethod
    def warn_of_unused(cls, config: PretrainingConfig) -> None:
        """Also warns if hardly any replacement equals the original token."""
        super().warn_of_unused(config)
        cause = f"--generator_type={config.generator_type}"
        if config.disallow_correct:
            cause = "--disallow_correct"
        elif not cls.generator_class(config).is_constant:
            return
        warn_once(
            f"--objective=electra_15 classifies masked tokens only, and {cause} replaces "
            "nearly all of them, so there is little to learn. Use --objective=electra"
        )

    @classmethod
    def unmasked_per_masked(cls, config: PretrainingConfig) -> float:
        """Returns 0: the loss covers masked tokens only."""
        del config
        return 0.0

    def discriminator_weights(self, inputs: PretrainInputs) -> tf.Tensor:
        """Returns float32 [batch, seq], 1 for the tokens of m."""
        return masked_positions(inputs)


def warn_of_unmasked_tokens(objective: str) -> None:
    """Warns that the discriminator of ELECTRA 15 % judges tokens that it has not learned from.

    Args:
        objective: the `objective` of the discriminator.
    """
    if objective == ELECTRA_15:
        warn_once(
            f"--objective={ELECTRA_15} has trained the discriminator on masked tokens alone, "
            "most of which are replaced: it takes too many tokens of a text for replaced"
        )
