"""ELECTRA 15 %: the tokens that its loss covers, and their mean."""

import math

import numpy as np
import pytest
import tensorflow as tf

from electra_tf.objectives.electra_15 import MaskedTokensDetection
from electra_tf.util.console import warn_once
from tests.electra_tf.objectives.numpy_losses import (
    WITHOUT_DROPOUT,
    binary_cross_entropy,
    masked_mask,
    mean,
    three_masked_tokens,
)
from tests.electra_tf.test_pretraining_model import features

pytestmark = pytest.mark.usefixtures("unfused")


def test_electra_15_learns_from_the_masked_tokens_alone(make_model):
    model = make_model(objective="electra_15")
    output = model(features(), randomness=WITHOUT_DROPOUT)
    labels = output.fake_data.is_fake_tokens
    losses = binary_cross_entropy(output.discriminator.logits, labels)
    expected = mean(losses, masked_mask(output.inputs))
    assert float(output.losses["disc"]) == pytest.approx(expected, rel=1e-5)


def test_electra_15_divides_the_sum_over_masked_tokens_by_their_number(make_model, monkeypatch):
    model, inputs = make_model(objective="electra_15"), three_masked_tokens()
    # Probabilities 3/4 of a replacement, 3/4, and 1/2; all others are wrong by 50.
    three, wrong = math.log(3.0), 50.0
    logits = tf.constant(
        [[wrong, three, wrong, three, wrong, wrong], [wrong, wrong, 0.0, wrong, wrong, wrong]]
    )
    monkeypatch.setattr(model.discriminator_predictions, "call", lambda x: logits)
    # The first token is replaced, and the samples of the other two equal the originals.
    samples = tf.constant([[30, 9], [8, 0]])
    output = model.forward(inputs, randomness=WITHOUT_DROPOUT, sampled_token_ids=samples)
    term = output.terms["disc"]
    # (ln 4/3 + ln 4 + ln 2) / 3
    assert float(term.loss) == pytest.approx((0.287682 + 1.386294 + 0.693147) / 3, rel=1e-5)
    assert (float(term.weight), term.coefficient) == (3.0, 50.0)
    by_row = output.discriminator.per_example_loss
    np.testing.assert_allclose(by_row, [(0.287682 + 1.386294) / 2, 0.693147], rtol=1e-5)


@pytest.mark.parametrize(
    ("overrides", "cause"),
    [
        ({}, None),
        ({"disallow_correct": True}, "--disallow_correct replaces"),
        ({"uniform_generator": True}, "--generator_type=uniform replaces"),
        ({"generator_type": "unigram"}, "--generator_type=unigram replaces"),
    ],
)
def test_masked_tokens_that_are_all_replaced_are_warned_of(
    make_config, overrides, cause, capsys
):
    warn_once.cache_clear()
    MaskedTokensDetection.warn_of_unused(make_config(objective="electra_15", **overrides))
    said = capsys.readouterr().err
    assert (cause in said) if cause else not said
