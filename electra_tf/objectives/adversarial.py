"""Adversarial ELECTRA: the generator is trained to fool the discriminator (appendix F).

Sampling cannot be differentiated, so the generator learns by policy gradient (Williams 1992).
"""

import dataclasses

import tensorflow as tf

from electra_tf.config.choices import MASKED_LM
from electra_tf.config.pretraining import PretrainingConfig, generator_config
from electra_tf.model import metrics
from electra_tf.model.batch_types import LossTerm, PretrainingOutput, PretrainInputs
from electra_tf.model.heads import softmax_cross_entropy
from electra_tf.model.layers import Linear
from electra_tf.model.randomness import Randomness
from electra_tf.pretrain_helpers import (
    gather_positions,
    num_masked_tokens,
    num_real_tokens,
    sampling_logits,
)
from electra_tf.pretraining_model import PretrainingModel
from electra_tf.util.errors import UserError


@dataclasses.dataclass(frozen=True)
class AdversarialHparams:
    """Weights beside `disc_weight`, and `gen_weight`, which is that of the policy gradient.

    `baseline_weight` is of its baseline; `masked_lm_weight` adds the generator's likelihood,
    which the paper leaves out.
    """

    baseline_weight: float = 1.0
    masked_lm_weight: float = 0.0


class Adversarial(PretrainingModel):
    """The reward of a sample is the discriminator's loss on it.

    For each masked position t with sample s, reward R = -log D(what s is) and baseline
    b = -log sigmoid(w . h_t), from the generator's output h_t, the generator minimizes
    -(R - b) log p(s), with R and b as constants and p what s is drawn from, which a
    temperature or leaving out the correct token changes. The baseline learns R by the
    cross-entropy between exp(-R), what the discriminator gives the right answer, and
    sigmoid(w . h_t).
    """

    Hparams = AdversarialHparams
    generator_types = (MASKED_LM,)

    @classmethod
    def check(cls, config: PretrainingConfig) -> None:
        """Refuses the span-boundary objective, which needs the likelihood."""
        super().check(config)
        if config.span_boundary_weight:
            raise UserError(
                "--span_boundary_weight goes with a masked language model's loss, which "
                "--objective=adversarial replaces"
            )

    def create_layers(self) -> None:
        """Adds the baseline's weights."""
        shape = generator_config(self.config)
        self.generator_baseline = Linear(
            shape.hidden_size, 1, shape, dtype=self.dtype_policy, name="generator_baseline"
        )

    def forward(
        self,
        inputs: PretrainInputs,
        *,
        randomness: Randomness,
        sampled_token_ids: tf.Tensor | None = None,
    ) -> PretrainingOutput:
        """Returns the losses of discriminator, policy and baseline."""
        masked_lm = self._get_masked_lm_output(inputs, randomness)
        fake = self._get_fake_data(inputs, masked_lm.logits, randomness, sampled_token_ids)
        discriminator = self._get_discriminator_output(
            fake.inputs, fake.is_fake_tokens, randomness
        )
        positions, weights = inputs.masked_lm_positions, inputs.masked_lm_weights
        rewards = tf.nn.sigmoid_cross_entropy_with_logits(
            labels=tf.cast(gather_positions(fake.is_fake_tokens, positions), tf.float32),
            logits=gather_positions(discriminator.logits, positions),
        )
        # The encoder learns from the policy alone, as it would without a baseline.
        states = tf.stop_gradient(masked_lm.states)
        baseline = tf.cast(self.generator_baseline(states), tf.float32)[..., 0]
        drawn_from = sampling_logits(
            masked_lm.logits, self.config.temperature, self._disallowed(inputs)
        )
        sample_losses = softmax_cross_entropy(drawn_from, fake.sampled_token_ids)
        policy, baseline_losses = policy_losses(rewards, baseline, sample_losses)
        count = num_masked_tokens(inputs)

        def mean(losses: tf.Tensor) -> tf.Tensor:
            return tf.math.divide_no_nan(tf.reduce_sum(weights * losses), count)

        hparams = self.hparams
        terms = {
            "policy": LossTerm(mean(policy), self.config.gen_weight, count),
            "baseline": LossTerm(mean(baseline_losses), hparams.baseline_weight, count),
            "disc": LossTerm(
                discriminator.loss, self.config.disc_weight, num_real_tokens(inputs)
            ),
        }
        if hparams.masked_lm_weight:
            terms["gen"] = LossTerm(masked_lm.loss, hparams.masked_lm_weight, count)
        extra = {
            "reward": metrics.mean_sums(rewards, weights),
            "baseline_loss": metrics.mean_sums(baseline_losses, weights),
        }
        return PretrainingOutput(terms, inputs, masked_lm, fake, discriminator, extra=extra)

    def term_weights(self, inputs: PretrainInputs) -> dict[str, tf.Tensor]:
        """Returns the numbers of masked and of real tokens."""
        count = num_masked_tokens(inputs)
        weights = {"policy": count, "baseline": count, "disc": num_real_tokens(inputs)}
        return {**weights, "gen": count} if self.hparams.masked_lm_weight else weights

    def metric_sums(self, output: PretrainingOutput) -> metrics.MetricSums:
        """Returns ELECTRA's sums, and the reward's and the baseline's."""
        return {**super().metric_sums(output), **output.extra}


def policy_losses(
    rewards: tf.Tensor, baseline_logits: tf.Tensor, sample_losses: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the losses whose gradients train the policy, and the baseline.

    Args:
        rewards: float32 [batch, n], each at least 0; constants.
        baseline_logits: float32 [batch, n], w . h.
        sample_losses: float32 [batch, n], -log p(sample).

    Returns:
        Two float32 [batch, n]; the first reaches `sample_losses` alone, and the second
        `baseline_logits`.
    """
    rewards = tf.stop_gradient(rewards)
    baseline = tf.nn.softplus(-baseline_logits)  # -log sigmoid
    policy = tf.stop_gradient(rewards - baseline) * sample_losses
    baseline_losses = tf.nn.sigmoid_cross_entropy_with_logits(
        labels=tf.exp(-rewards), logits=baseline_logits
    )
    return policy, baseline_losses
