"""ELECTRA: replaced-token detection with a generator trained beside it (paper, section 2)."""

from typing import TYPE_CHECKING

import tensorflow as tf

from electra_tf import metrics
from electra_tf.config import PretrainingConfig
from electra_tf.objectives.objective import (
    Objective,
    masked_lm_sums,
    num_masked_tokens,
    num_real_tokens,
)
from electra_tf.outputs import LossTerm, PretrainingOutput, Randomness
from electra_tf.pretrain_helpers import PretrainInputs

if TYPE_CHECKING:
    from electra_tf.pretraining_model import PretrainingModel


class ReplacedTokenDetection(Objective):
    """gen_weight * L_MLM + disc_weight * L_Disc (paper, end of section 2.1)."""

    trains_generator = True
    has_discriminator = True

    @classmethod
    def selected_by(cls, config: PretrainingConfig) -> bool:
        """Whether `electra_objective` is on and the generator is a model."""
        return config.electra_objective and not config.uniform_generator

    def forward(
        self,
        model: "PretrainingModel",
        inputs: PretrainInputs,
        randomness: Randomness,
        sampled_token_ids: tf.Tensor | None,
    ) -> PretrainingOutput:
        """Returns both losses; no gradient flows through the samples."""
        masked_lm = model._get_masked_lm_output(inputs, randomness)
        fake = model._get_fake_data(inputs, masked_lm.logits, randomness, sampled_token_ids)
        discriminator = model._get_discriminator_output(
            fake.inputs, fake.is_fake_tokens, randomness
        )
        weights = self.term_weights(inputs)
        terms = {
            "gen": LossTerm(masked_lm.loss, self.config.gen_weight, weights["gen"]),
            "disc": LossTerm(discriminator.loss, self.config.disc_weight, weights["disc"]),
        }
        return PretrainingOutput(terms, inputs, masked_lm, fake, discriminator)

    def term_weights(self, inputs: PretrainInputs) -> dict[str, tf.Tensor]:
        """Returns the numbers of masked and of real tokens."""
        return {"gen": num_masked_tokens(inputs), "disc": num_real_tokens(inputs)}

    def metric_sums(self, output: PretrainingOutput) -> metrics.Sums:
        """Returns the sums of both models.

        `disc_loss` is the mean over real tokens, as trained; `disc_loss_per_example`
        and `disc_auc_with_padding` are what the authors' code reports as `disc_loss`
        and `disc_auc`.
        """
        inputs, fake, disc = output.inputs, output.fake_data, output.discriminator
        labels, mask = fake.is_fake_tokens, tf.cast(inputs.input_mask, tf.float32)
        correct = tf.equal(disc.preds, labels)
        token_losses = tf.nn.sigmoid_cross_entropy_with_logits(
            labels=tf.cast(labels, tf.float32), logits=disc.logits
        )
        real_rows = tf.reduce_max(mask, axis=-1)
        return {
            **masked_lm_sums(inputs, output.masked_lm),
            "sampled_masked_lm_accuracy": metrics.mean_sums(
                tf.equal(fake.sampled_token_ids, inputs.masked_lm_ids),
                inputs.masked_lm_weights,
            ),
            "disc_loss": metrics.mean_sums(token_losses, mask),
            "disc_loss_per_example": metrics.mean_sums(disc.per_example_loss, real_rows),
            "disc_accuracy": metrics.mean_sums(correct, mask),
            "disc_precision": metrics.mean_sums(
                correct, tf.cast(disc.preds, tf.float32) * mask
            ),
            "disc_recall": metrics.mean_sums(correct, tf.cast(labels, tf.float32) * mask),
            "replaced_share": metrics.mean_sums(labels, mask),
            **metrics.auc_sums(disc.logits, labels, inputs.input_mask),
        }


class UniformReplacedTokenDetection(ReplacedTokenDetection):
    """ELECTRA whose replacements are drawn uniformly; the MLM loss is a constant."""

    trains_generator = False

    @classmethod
    def selected_by(cls, config: PretrainingConfig) -> bool:
        """Whether `uniform_generator` is on."""
        return config.electra_objective and config.uniform_generator
