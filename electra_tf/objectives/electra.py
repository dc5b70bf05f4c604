"""ELECTRA: replaced-token detection with a generator trained beside it (paper, section 2)."""

from typing import TYPE_CHECKING

import tensorflow as tf

from electra_tf.config.model_parts import ModelPart, discriminator_part, generator_parts
from electra_tf.config.pretraining import PretrainingConfig
from electra_tf.model import metrics
from electra_tf.model.batch_types import LossTerm, PretrainingOutput, PretrainInputs
from electra_tf.model.metrics import discriminator_sums, masked_lm_sums, sampling_sums
from electra_tf.model.randomness import Randomness
from electra_tf.objective import Objective

if TYPE_CHECKING:
    from electra_tf.pretraining_model import PretrainingModel


class ReplacedTokenDetection(Objective):
    """gen_weight * L_MLM + disc_weight * L_Disc (paper, end of section 2.1)."""

    def forward(
        self,
        model: "PretrainingModel",
        inputs: PretrainInputs,
        randomness: Randomness,
        sampled_token_ids: tf.Tensor | None,
    ) -> PretrainingOutput:
        """Returns both losses; no gradient flows through the samples."""
        masked_lm, fake = self.corrupt(model, inputs, randomness, sampled_token_ids)
        weights = self.discriminator_weights(inputs)
        discriminator = model._get_discriminator_output(
            fake.inputs, fake.is_fake_tokens, randomness, weights
        )
        weight = tf.reduce_sum(weights)
        terms = {
            **self.generator_terms(inputs, masked_lm),
            "disc": LossTerm(discriminator.loss, self.config.disc_weight, weight),
        }
        return PretrainingOutput(terms, inputs, masked_lm, fake, discriminator)

    def discriminator_weights(self, inputs: PretrainInputs) -> tf.Tensor:
        """Returns float32 [batch, seq], 1 on the tokens of the discriminator's loss."""
        return tf.cast(inputs.input_mask, tf.float32)

    def term_weights(self, inputs: PretrainInputs) -> dict[str, tf.Tensor]:
        """Returns the numbers of tokens of the generator's and the discriminator's loss."""
        disc = tf.reduce_sum(self.discriminator_weights(inputs))
        return {**self.generator_weights(inputs), "disc": disc}

    def metric_sums(self, output: PretrainingOutput) -> metrics.MetricSums:
        """Returns the sums of both models."""
        return {
            **masked_lm_sums(output.inputs, output.masked_lm),
            **sampling_sums(output.inputs, output.fake_data),
            **discriminator_sums(output.fake_data, output.discriminator),
        }

    @classmethod
    def parts(cls, config: PretrainingConfig) -> list[ModelPart]:
        """Returns generator and discriminator."""
        return [*generator_parts(config), discriminator_part(config)]
