"""All-Tokens MLM: Replace MLM over every token, with a copy mechanism (section 3.5)."""

import tensorflow as tf

from electra_tf.config.model_parts import ModelPart
from electra_tf.config.pretraining import PretrainingConfig, discriminator_config
from electra_tf.masking.masked_batch import masked_positions, num_real_tokens, unmask
from electra_tf.model import metrics
from electra_tf.model.batch_types import LossTerm, PretrainingOutput, PretrainInputs
from electra_tf.model.heads import DiscriminatorHead
from electra_tf.model.metrics import masked_lm_sums, sampling_sums
from electra_tf.model.randomness import Randomness
from electra_tf.objectives.replace_mlm import ReplaceMLM


class AllTokensMLM(ReplaceMLM):
    """The full-size model predicts the original of every token, replaced or not.

    The predicted distribution is D for copying the input token, plus (1 - D) times the
    softmax over the vocabulary; D is the output of a separate sigmoid layer (section 3.5).
    """

    def create_layers(self) -> None:
        """Creates the vocabulary head and the copy layer."""
        # Created first but assigned last, which fixes initial weights and checkpoint keys.
        copy = DiscriminatorHead(
            self.encoder_config, dtype=self.dtype_policy, name="copy_predictions"
        )
        super().create_layers()
        self.copy_predictions = copy

    def forward(
        self,
        inputs: PretrainInputs,
        *,
        randomness: Randomness,
        sampled_token_ids: tf.Tensor | None = None,
    ) -> PretrainingOutput:
        """Computes both losses; the full-size model's covers all non-padding tokens."""
        masked_lm = self._get_masked_lm_output(inputs, randomness)
        fake = self._get_fake_data(inputs, masked_lm.logits, randomness, sampled_token_ids)
        sequence = self.encode(fake.inputs, randomness)
        original = unmask(inputs).input_ids
        weights = tf.cast(inputs.input_mask, tf.float32)
        full_size = self.predict_tokens(sequence, original, weights)
        losses = copy_loss(
            full_size.per_example_loss,
            self.copy_predictions(sequence),
            tf.equal(fake.inputs.input_ids, original),
        )
        total = tf.reduce_sum(weights)
        loss = tf.math.divide_no_nan(tf.reduce_sum(weights * losses), total)
        full_size = full_size._replace(per_example_loss=losses, loss=loss)
        terms = {
            **self.masked_lm_terms(inputs, masked_lm),
            "replace": LossTerm(loss, self.hparams.replace_weight, total),
        }
        return PretrainingOutput(terms, inputs, masked_lm, fake, full_size_lm=full_size)

    def term_weights(self, inputs: PretrainInputs) -> dict[str, tf.Tensor]:
        """Returns the numbers of masked and non-padding tokens."""
        return {**self.masked_lm_term_weights(inputs), "replace": num_real_tokens(inputs)}

    def metric_sums(self, output: PretrainingOutput) -> metrics.MetricSums:
        """Returns the metric sums of both models; `full_size_masked_lm_*` cover masked tokens.

        Their accuracy is that of the softmax, without copying.
        """
        full_size, masked = output.full_size_lm, masked_positions(output.inputs)
        original = unmask(output.inputs).input_ids
        mask = tf.cast(output.inputs.input_mask, tf.float32)
        return {
            **masked_lm_sums(output.inputs, output.masked_lm),
            **sampling_sums(output.inputs, output.fake_data),
            "full_size_loss": metrics.mean_sums(full_size.per_example_loss, mask),
            "full_size_masked_lm_loss": metrics.mean_sums(full_size.per_example_loss, masked),
            "full_size_masked_lm_accuracy": metrics.mean_sums(
                tf.equal(full_size.preds, original), masked
            ),
        }

    @classmethod
    def parts(cls, config: PretrainingConfig) -> list[ModelPart]:
        """Returns the generator, and the full-size encoder with both heads at all positions."""
        full_size = ModelPart(
            "full-size masked LM",
            discriminator_config(config),
            vocabulary_positions=config.max_seq_length,
            binary_positions=config.max_seq_length,
            samples=config.max_predictions_per_seq,
        )
        return [*cls.generator_class(config).parts(config), full_size]


def copy_loss(
    token_losses: tf.Tensor, copy_logits: tf.Tensor, is_input: tf.Tensor
) -> tf.Tensor:
    """Returns -log(D * [original is the input token] + (1 - D) * softmax probability).

    Args:
        token_losses: float32 [batch, seq], -log softmax of the originals.
        copy_logits: float32 [batch, seq], the logits of D.
        is_input: bool [batch, seq], whether the original is the input token.
    """
    generated = -token_losses - tf.nn.softplus(copy_logits)
    copied = -tf.nn.softplus(-copy_logits)
    return -tf.where(is_input, _log_add(generated, copied), generated)


def _log_add(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    """Returns log(exp(x) + exp(y))."""
    larger = tf.maximum(x, y)
    return larger + tf.math.log1p(tf.exp(tf.minimum(x, y) - larger))
