"""Electric: an energy-based cloze model trained by noise-contrastive estimation.

Clark et al. 2020, "Pre-Training Transformers as Energy-Based Cloze Models". The full-size
encoder assigns every token an energy E(x)_t, and exp(-E(x)_t) estimates the probability of the
token given all others. It is trained to distinguish the original tokens from noise tokens
(sections 2.2 and 2.3, Algorithm 2) sampled from a two-tower model q (section 2.4):

    p(noise | x, t) = sigmoid(E(x)_t + log q(x_t | rest) + log(k / (1 - k)))

with k the fraction of noise positions: the masking rate of the step.
"""

import math

import tensorflow as tf

from electra_tf.config.choices import TWO_TOWER
from electra_tf.config.pretraining import PretrainingConfig
from electra_tf.generators.sampling import sampling_logits
from electra_tf.masking.base import masking_class
from electra_tf.model.batch_types import PretrainingOutput, PretrainInputs
from electra_tf.model.heads import softmax_cross_entropy
from electra_tf.model.kernels import fused
from electra_tf.model.randomness import Randomness
from electra_tf.model.schedules import mask_prob_of, temperature_of
from electra_tf.pretraining_model import PretrainingModel
from electra_tf.util.console import warn_once
from electra_tf.util.errors import UserError


class NoiseContrastiveCloze(PretrainingModel):
    """gen_weight * (loss of q) + disc_weight * (loss of the energies).

    The energies are the logits of the discriminator's head. A sampled token counts as noise
    even if it equals the original. The noise distribution is q at `temperature`.
    """

    generator_types = (TWO_TOWER,)
    needs_samples = True

    @classmethod
    def check(cls, config: PretrainingConfig) -> None:
        """Rejects noise that excludes the correct tokens."""
        super().check(config)
        if config.disallow_correct:
            raise UserError(
                "--disallow_correct excludes the original tokens from the noise, but "
                "--objective=electric needs their noise probability"
            )

    @classmethod
    def warn_of_unused(cls, config: PretrainingConfig) -> None:
        """Also warns if the rate of noise differs from the one that the loss assumes."""
        super().warn_of_unused(config)
        if not masking_class(config).is_uniform:
            warn_once(
                f"--masking={config.masking} draws noise more often at some tokens than at "
                "others, but the loss of --objective=electric assumes the same rate "
                "everywhere, so the energies are biased. Use --masking=token"
            )
        limit, rate = config.max_predictions_per_seq, config.mask_prob
        if limit < int(rate * config.max_seq_length):
            warn_once(
                f"--max_predictions_per_seq={limit} draws less noise than "
                f"--mask_prob={rate:g}, which the loss of --objective=electric assumes, so the "
                "energies are biased"
            )

    @classmethod
    def unmasked_per_masked(cls, config: PretrainingConfig) -> None:
        """Returns None: the logits are energies, plus the log-probabilities of the noise."""
        del config

    def forward(
        self,
        inputs: PretrainInputs,
        *,
        randomness: Randomness,
        sampled_token_ids: tf.Tensor | None = None,
    ) -> PretrainingOutput:
        """Computes both losses; q is constant in the loss of the energies."""
        masked_lm = self._get_masked_lm_output(inputs, randomness)
        fake = self._get_fake_data(inputs, masked_lm.logits, randomness, sampled_token_ids)
        fake = fake._replace(is_fake_tokens=fake.written)
        log_probs = noise_log_probs(
            tf.stop_gradient(masked_lm.cloze.logits),
            fake.inputs.input_ids,
            tf.convert_to_tensor(temperature_of(self.config, randomness), tf.float32),
        )
        log_odds = self._log_noise_odds(randomness)
        discriminator = self._get_discriminator_output(
            fake.inputs,
            fake.is_fake_tokens,
            randomness,
            logit_offset=log_probs + log_odds,
        )
        terms = {
            **self.masked_lm_terms(inputs, masked_lm),
            **self.discriminator_terms(discriminator),
        }
        return PretrainingOutput(terms, inputs, masked_lm, fake, discriminator)

    def replaced_logits(
        self, input_ids: tf.Tensor, input_mask: tf.Tensor, segment_ids: tf.Tensor
    ) -> tf.Tensor:
        """Returns the logits of p(noise | x, t), from the energies and q."""
        energies = super().replaced_logits(input_ids, input_mask, segment_ids)
        randomness = Randomness(self.config.seed, 0, dropout=False)
        cloze = self.two_tower(input_ids, input_mask, segment_ids, randomness=randomness)
        noise = sampling_logits(cloze.logits, temperature_of(self.config, randomness))
        log_probs = tf.nn.log_softmax(tf.cast(noise, tf.float32))
        # Unlike `noise_log_probs`, uses only operations that all export formats support.
        log_probs = tf.gather(log_probs, input_ids, batch_dims=2)
        return energies + log_probs + self._log_noise_odds(randomness)

    def _log_noise_odds(self, randomness: Randomness) -> tf.Tensor | float:
        """Returns log(k / (1 - k)); with `--mask_prob_end`, k depends on the step."""
        share = mask_prob_of(self.config, randomness)
        odds = share / (1 - share)
        return tf.math.log(odds) if tf.is_tensor(odds) else math.log(odds)


@fused()
def noise_log_probs(
    logits: tf.Tensor, token_ids: tf.Tensor, temperature: tf.Tensor
) -> tf.Tensor:
    """Returns float32 [batch, seq], log softmax(logits / temperature) at each token.

    Args:
        logits: [batch, seq, vocab].
        token_ids: int32 [batch, seq].
        temperature: float32 scalar.
    """
    return -softmax_cross_entropy(sampling_logits(logits, temperature), token_ids)
