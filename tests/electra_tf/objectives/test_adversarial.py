"""Adversarial training: the policy gradient, its rewards and its baseline."""

import math

import numpy as np
import pytest
import tensorflow as tf

from electra_tf.objectives.adversarial import policy_losses
from tests.electra_tf.objectives.numpy_losses import (
    WITHOUT_DROPOUT,
    at,
    binary_cross_entropy,
    log_softmax,
    masked_mask,
    mean,
)
from tests.electra_tf.test_pretraining_model import features, gradients, is_zero

pytestmark = pytest.mark.usefixtures("unfused")


def test_adversarial_policy_gradient_is_reinforce():
    logits = tf.Variable([[[0.5, -1.0, 0.3]]])
    samples = tf.constant([[2]])
    rewards, baseline = tf.constant([[1.3]]), tf.Variable([[0.4]])
    with tf.GradientTape(persistent=True) as tape:
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(samples, logits)
        policy, baseline_loss = policy_losses(rewards, baseline, losses)
    softmax = np.exp(log_softmax(logits))
    b = -math.log(1 / (1 + math.exp(-0.4)))
    # d/dlogits of -(R - b) log p(sample)
    expected = (1.3 - b) * (softmax - np.eye(3)[2])
    np.testing.assert_allclose(tape.gradient(policy, logits), expected, rtol=1e-5)
    assert tape.gradient(policy, baseline) is None
    assert tape.gradient(baseline_loss, logits) is None
    np.testing.assert_allclose(
        tape.gradient(baseline_loss, baseline),
        [[1 / (1 + math.exp(-0.4)) - math.exp(-1.3)]],
        rtol=1e-5,
    )


def test_adversarial_rewards_are_the_discriminators_losses_on_samples(make_model):
    model = make_model(objective="adversarial", embedding_sharing="none")
    output = model(features(), randomness=WITHOUT_DROPOUT)
    losses = binary_cross_entropy(output.discriminator.logits, output.fake_data.is_fake_tokens)
    total, count = output.extra["reward"].numpy()
    assert total / count == pytest.approx(mean(losses, masked_mask(output.inputs)), rel=1e-4)
    assert set(output.terms) == {"policy", "baseline", "disc"}
    of_policy = gradients(model, "policy")
    for path, gradient in of_policy.items():
        trained = path.startswith(("generator/", "generator_predictions"))
        assert is_zero(gradient) != trained, path
    of_baseline = gradients(model, "baseline")
    for path, gradient in of_baseline.items():
        assert is_zero(gradient) != path.startswith("generator_baseline"), path


def test_adversarial_policy_is_what_replacements_are_drawn_from(make_model):
    model = make_model(
        objective="adversarial",
        embedding_sharing="none",
        temperature=2.0,
        disallow_correct=True,
    )
    output = model(features(), randomness=WITHOUT_DROPOUT)
    inputs, samples = output.inputs, output.fake_data.sampled_token_ids.numpy()
    logits = output.masked_lm.logits.numpy() / 2
    np.put_along_axis(logits, inputs.masked_lm_ids.numpy()[..., None], -np.inf, axis=-1)
    states = output.masked_lm.states.numpy()
    positions = inputs.masked_lm_positions.numpy()
    losses = binary_cross_entropy(output.discriminator.logits, output.fake_data.is_fake_tokens)
    rewards = np.take_along_axis(losses, positions, axis=1)
    baseline = binary_cross_entropy(model.generator_baseline(states)[..., 0], [[1]])
    policy = -(rewards - baseline) * at(log_softmax(logits), samples)
    expected = mean(policy, inputs.masked_lm_weights.numpy())
    assert float(output.losses["policy"]) == pytest.approx(expected, rel=1e-3)


def test_adversarial_training_may_keep_some_of_the_likelihood(make_model):
    weights = {"masked_lm_weight": 0.25, "baseline_weight": 2.0}
    model = make_model(objective="adversarial", objective_hparams=weights, gen_weight=3.0)
    type(model).check(model.config)  # as before there is a model
    output = model(features(), randomness=WITHOUT_DROPOUT)
    coefficients = {name: term.coefficient for name, term in output.terms.items()}
    assert coefficients == {"policy": 3.0, "baseline": 2.0, "disc": 50.0, "gen": 0.25}
    assert set(model.term_weights(output.inputs)) == set(coefficients)
    assert float(output.terms["gen"].loss) == float(output.masked_lm.loss)
