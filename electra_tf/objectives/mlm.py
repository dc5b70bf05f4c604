"""Masked language modeling with the full-size encoder (`electra_objective=false`)."""

import tensorflow as tf

from electra_tf.config.model_parts import ModelPart
from electra_tf.config.pretraining import PretrainingConfig, discriminator_config
from electra_tf.generators.span_boundary import boundary_inputs
from electra_tf.model import metrics
from electra_tf.model.batch_types import PretrainingOutput, PretrainInputs
from electra_tf.model.metrics import masked_lm_sums
from electra_tf.model.randomness import Randomness
from electra_tf.pretraining_model import PretrainingModel


class MaskedLanguageModel(PretrainingModel):
    """BERT's objective without next-sentence prediction (Devlin et al. 2019)."""

    has_generator = False
    has_discriminator = False

    def forward(
        self,
        inputs: PretrainInputs,
        *,
        randomness: Randomness,
        sampled_token_ids: tf.Tensor | None = None,
    ) -> PretrainingOutput:
        """Computes gen_weight * (masked-LM loss); nothing is sampled."""
        masked_lm = self._get_masked_lm_output(inputs, randomness)
        return PretrainingOutput(self.masked_lm_terms(inputs, masked_lm), inputs, masked_lm)

    def term_weights(self, inputs: PretrainInputs) -> dict[str, tf.Tensor]:
        """Returns the number of masked tokens."""
        return self.masked_lm_term_weights(inputs)

    def metric_sums(self, output: PretrainingOutput) -> metrics.MetricSums:
        """Returns the metric sums of the masked language model."""
        return masked_lm_sums(output.inputs, output.masked_lm)

    @classmethod
    def parts(cls, config: PretrainingConfig) -> list[ModelPart]:
        """Returns the full-size encoder with the heads of its masked language model."""
        shape = discriminator_config(config)
        return [
            ModelPart(
                "masked LM",
                shape,
                vocabulary_positions=config.max_predictions_per_seq,
                boundary_inputs=boundary_inputs(config, shape),
            )
        ]
