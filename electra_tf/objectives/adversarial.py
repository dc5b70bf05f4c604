"""Adversarial ELECTRA: the generator is trained to fool the discriminator (appendix F).

Sampling is not differentiable, so the generator is trained by policy gradient (REINFORCE,
Williams 1992).
"""

import dataclasses

import tensorflow as tf

from electra_tf.config.choices import MASKED_LM
from electra_tf.config.hyperparameters import within
from electra_tf.config.pretraining import PretrainingConfig, generator_config
from electra_tf.generators.sampling import sampling_logits
from electra_tf.masking.masked_batch import num_masked_tokens
from electra_tf.model import metrics
from electra_tf.model.batch_types import LossTerm, PretrainingOutput, PretrainInputs
from electra_tf.model.heads import softmax_cross_entropy
from electra_tf.model.layers import Linear
from electra_tf.model.positions import gather_positions
from electra_tf.model.randomness import Randomness
from electra_tf.model.schedules import temperature_of
from electra_tf.pretraining_model import PretrainingModel
from electra_tf.util.errors import UserError


@dataclasses.dataclass(frozen=True)
class AdversarialHparams:
    """Loss weights: `baseline_weight` of the baseline, `masked_lm_weight` of the likelihood.

    The paper does not use the likelihood. The weight of the policy gradient is `gen_weight`.
    """

    baseline_weight: float = within(1.0, 0.0)
    masked_lm_weight: float = within(0.0, 0.0)


class Adversarial(PretrainingModel):
    """The reward of a sample is the discriminator's loss on it.

    For each masked position t with sample s, let R = -log D(label of s) be the reward and
    b = -log sigmoid(w . h_t) the baseline, with h_t the generator's output. The generator
    minimizes -(R - b) log p(s), with R and b constant and p the sampling distribution
    (including temperature and `disallow_correct`). The baseline is trained by the
    cross-entropy between exp(-R), the probability of the correct label, and sigmoid(w . h_t).

    A discriminator that predicts the masking rate for every token rewards any wrong sample with
    -log(masking rate), and a correct one with less. A generator that learns faster than its
    discriminator therefore unlearns language modeling (benchmarks/RESULTS.md, "Adversarial
    training"): start from a trained model, with a lower `generator_learning_rate`.
    """

    Hparams = AdversarialHparams
    generator_types = (MASKED_LM,)
    needs_samples = True

    @classmethod
    def check(cls, config: PretrainingConfig) -> None:
        """Rejects the span-boundary objective and positions that are masked twice."""
        super().check(config)
        if config.masking_with_replacement:
            raise UserError(
                "--masking_with_replacement masks some tokens twice, but "
                "--objective=adversarial rewards each sample by the discriminator's prediction "
                "for it: remove one of the flags"
            )
        if config.span_boundary_weight:
            raise UserError(
                "--span_boundary_weight requires the loss of a masked language model, which "
                "--objective=adversarial replaces"
            )

    def create_layers(self) -> None:
        """Creates the baseline's layer."""
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
        """Computes the losses of discriminator, policy and baseline."""
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
        # The baseline's gradient does not reach the encoder.
        states = tf.stop_gradient(masked_lm.states)
        baseline = tf.cast(self.generator_baseline(states), tf.float32)[..., 0]
        temperature = temperature_of(self.config, randomness)
        policy_logits = sampling_logits(masked_lm.logits, temperature, self._disallowed(inputs))
        sample_losses = softmax_cross_entropy(policy_logits, fake.sampled_token_ids)
        policy, baseline_losses = policy_losses(rewards, baseline, sample_losses)
        count = num_masked_tokens(inputs)

        def mean(losses: tf.Tensor) -> tf.Tensor:
            return tf.math.divide_no_nan(tf.reduce_sum(weights * losses), count)

        hparams = self.hparams
        terms = {
            "policy": LossTerm(mean(policy), self.config.gen_weight, count),
            "baseline": LossTerm(mean(baseline_losses), hparams.baseline_weight, count),
            **self.discriminator_terms(discriminator),
        }
        terms |= self.masking_terms(inputs, masked_lm)
        if hparams.masked_lm_weight:
            terms["gen"] = LossTerm(masked_lm.loss, hparams.masked_lm_weight, count)
        extra = {"reward": metrics.mean_sums(rewards, weights)}
        return PretrainingOutput(terms, inputs, masked_lm, fake, discriminator, extra=extra)

    def term_weights(self, inputs: PretrainInputs) -> dict[str, tf.Tensor]:
        """Returns the numbers of masked and non-padding tokens."""
        count = num_masked_tokens(inputs)
        weights = {"policy": count, "baseline": count}
        weights |= self.discriminator_term_weights(inputs) | self.masking.term_weights(inputs)
        return {**weights, "gen": count} if self.hparams.masked_lm_weight else weights

    @classmethod
    def trains_generator(cls, config: PretrainingConfig) -> bool:
        """Whether the policy gradient or the likelihood has a weight."""
        weight = cls.parse_hparams(config).masked_lm_weight
        return super().trains_generator(config) or weight > 0

    @classmethod
    def loss_weights(cls, config: PretrainingConfig) -> dict[str, float]:
        """Returns the weights of all losses that train an encoder."""
        weight = cls.parse_hparams(config).masked_lm_weight
        return super().loss_weights(config) | {
            "masked_lm_weight of --objective_hparams": weight
        }


def policy_losses(
    rewards: tf.Tensor, baseline_logits: tf.Tensor, sample_losses: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the losses of the policy and of the baseline.

    Args:
        rewards: float32 [batch, n], non-negative; treated as constants.
        baseline_logits: float32 [batch, n], w . h.
        sample_losses: float32 [batch, n], -log p(sample).

    Returns:
        Two float32 [batch, n]; the first has gradients only for `sample_losses`, the second
        only for `baseline_logits`.
    """
    rewards = tf.stop_gradient(rewards)
    baseline = tf.nn.softplus(-baseline_logits)  # -log sigmoid
    policy = tf.stop_gradient(rewards - baseline) * sample_losses
    baseline_losses = tf.nn.sigmoid_cross_entropy_with_logits(
        labels=tf.exp(-rewards), logits=baseline_logits
    )
    return policy, baseline_losses
