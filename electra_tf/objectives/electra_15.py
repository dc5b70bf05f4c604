"""ELECTRA 15 %: the discriminator learns from the masked tokens alone (section 3.5)."""

import tensorflow as tf

from electra_tf.objectives import electra
from electra_tf.outputs import LossTerm, PretrainingOutput, Randomness
from electra_tf.pretrain_helpers import PretrainInputs, masked_positions


class MaskedTokensDetection(electra.ReplacedTokenDetection):
    """Sees the same text as ELECTRA, and learns from as many tokens as BERT."""

    def forward(
        self,
        model: "electra.PretrainingModel",
        inputs: PretrainInputs,
        randomness: Randomness,
        sampled_token_ids: tf.Tensor | None,
    ) -> PretrainingOutput:
        """Returns both losses; the discriminator's is a mean over masked tokens."""
        masked_lm = model.get_generator_output(inputs, randomness)
        fake = model._get_fake_data(inputs, masked_lm.logits, randomness, sampled_token_ids)
        weights = masked_positions(inputs)
        discriminator = model._get_discriminator_output(
            fake.inputs, fake.is_fake_tokens, randomness, weights
        )
        terms = {
            **self.generator_terms(inputs, masked_lm),
            "disc": LossTerm(
                discriminator.loss, self.config.disc_weight, tf.reduce_sum(weights)
            ),
        }
        return PretrainingOutput(terms, inputs, masked_lm, fake, discriminator)

    def term_weights(self, inputs: PretrainInputs) -> dict[str, tf.Tensor]:
        """Returns the number of masked tokens, for both terms."""
        disc = tf.reduce_sum(masked_positions(inputs))
        return {**self.generator_weights(inputs), "disc": disc}
