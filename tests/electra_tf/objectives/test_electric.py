"""Electric: noise-contrastive estimation, with the probabilities of the two towers."""

import math

import numpy as np
import pytest
import tensorflow as tf

from electra_tf.model.randomness import Randomness
from electra_tf.model_builder import model_class
from electra_tf.util.console import warn_once
from tests.electra_tf.objectives.numpy_losses import (
    NO_DROPOUT,
    TINY_SHAPE,
    WITHOUT_DROPOUT,
    at,
    binary_cross_entropy,
    log_softmax,
    masked_mask,
    mean,
    original_ids,
)
from tests.electra_tf.test_pretraining_model import SPECIAL, features

pytestmark = pytest.mark.usefixtures("unfused")


@pytest.mark.parametrize("temperature", [1.0, 1.5])
def test_electric_is_noise_contrastive_estimation_with_the_towers_probabilities(
    make_model, temperature
):
    model = make_model(objective="electric", mask_prob=0.2, temperature=temperature)
    output = model(features(), randomness=WITHOUT_DROPOUT)
    inputs, fake = output.inputs, output.fake_data
    originals = original_ids(inputs)
    towers = model.two_tower(
        tf.constant(originals),
        inputs.input_mask,
        inputs.segment_ids,
        randomness=WITHOUT_DROPOUT,
    )
    log_q = log_softmax(towers.logits)
    corrupted = fake.inputs.input_ids
    sequence = model.electra(corrupted, inputs.input_mask, inputs.segment_ids).sequence_output
    energy = model.discriminator_predictions(sequence).numpy()
    noise = log_softmax(towers.logits / temperature)
    logits = energy + at(noise, corrupted) + math.log(0.2 / 0.8)
    labels = masked_mask(inputs)
    losses = binary_cross_entropy(logits, labels)
    expected = mean(losses, inputs.input_mask.numpy())
    assert float(output.losses["disc"]) == pytest.approx(expected, rel=1e-4)
    candidates = inputs.input_mask.numpy() * ~np.isin(originals, SPECIAL)
    expected = mean(-at(log_q, originals), candidates)
    assert float(output.losses["gen"]) == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize(
    ("step", "dropout", "rate"), [(0, True, 0.15), (50, True, 0.3), (50, False, 0.15)]
)
def test_electrics_noise_odds_are_those_of_the_step(make_model, step, dropout, rate):
    """Evaluation, without dropout, masks as many tokens as the first step."""
    model = make_model(
        objective="electric",
        mask_prob=0.15,
        mask_prob_end=0.45,
        num_train_steps=100,
        model_hparam_overrides={**TINY_SHAPE, **NO_DROPOUT},
    )
    output = model(features(), randomness=Randomness(0, step, dropout=dropout))
    corrupted = output.fake_data.inputs
    energy = model.discriminator_predictions(
        model.electra(corrupted.input_ids, corrupted.input_mask, corrupted.segment_ids)[1]
    )
    log_q = at(log_softmax(output.masked_lm.cloze.logits), corrupted.input_ids)
    np.testing.assert_allclose(
        output.discriminator.logits, energy + log_q + math.log(rate / (1 - rate)), atol=1e-4
    )


def test_electrics_noise_odds_are_computed_in_the_graph_of_a_step(make_model):
    model = make_model(
        objective="electric", mask_prob=0.15, mask_prob_end=0.45, num_train_steps=100
    )
    type(model).check(model.config)  # as before there is a model

    @tf.function
    def log_odds(step: tf.Tensor) -> tf.Tensor:
        return model._log_noise_odds(Randomness(0, step))

    for step, rate in ((0, 0.15), (50, 0.3)):
        expected = math.log(rate / (1 - rate))
        assert float(log_odds(tf.constant(step))) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize(
    ("masking", "warns"),
    [("token", False), ("span", True), ("strategic", True), ("learned", True)],
)
def test_noise_that_favors_some_tokens_is_warned_of(make_config, masking, warns, capsys):
    warn_once.cache_clear()
    config = make_config(objective="electric", masking=masking)
    model_class(config).warn_of_unused(config)
    assert (f"--masking={masking} draws noise more often" in capsys.readouterr().err) == warns


@pytest.mark.parametrize(("most", "warns"), [(2, False), (1, True)])
def test_less_noise_than_the_loss_assumes_is_warned_of(make_config, most, warns, capsys):
    warn_once.cache_clear()
    config = make_config(objective="electric", max_predictions_per_seq=most)  # of 16 tokens
    model_class(config).warn_of_unused(config)
    warned = f"--max_predictions_per_seq={most} draws less noise than --mask_prob=0.15"
    assert (warned in capsys.readouterr().err) == warns
