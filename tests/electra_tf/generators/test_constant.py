"""Generators without weights: the frequencies of their samples."""

import numpy as np
import pytest
import tensorflow as tf

from tests.electra_tf.objectives.numpy_losses import WITHOUT_DROPOUT
from tests.electra_tf.test_pretraining_model import SPECIAL, features

pytestmark = pytest.mark.usefixtures("unfused")


def test_a_unigram_generator_draws_by_frequency_and_never_special_tokens(make_model):
    model = make_model(generator_type="unigram", num_train_steps=1)
    given = {name: tf.tile(x, [400, 1]) for name, x in features().items()}
    output = model(given, randomness=WITHOUT_DROPOUT)
    used = output.inputs.masked_lm_weights.numpy() > 0
    counts = np.bincount(output.fake_data.sampled_token_ids.numpy()[used], minlength=40)
    assert not np.any(counts[list(SPECIAL)])
    weights = np.arange(40.0) + 1
    weights[list(SPECIAL)] = 0
    expected = counts.sum() * weights / weights.sum()
    likely = expected > 0
    statistic = np.sum((counts - expected)[likely] ** 2 / expected[likely])
    assert statistic < 68  # chi-square with 36 degrees of freedom, 0.1 %
