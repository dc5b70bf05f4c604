"""All-Tokens MLM: the mixture of copies and the softmax."""

import numpy as np
import pytest
import tensorflow as tf

from electra_tf.objectives.all_tokens_mlm import copy_loss
from tests.electra_tf.objectives.numpy_losses import (
    WITHOUT_DROPOUT,
    at,
    log_softmax,
    mean,
    original_ids,
)
from tests.electra_tf.test_pretraining_model import features

pytestmark = pytest.mark.usefixtures("unfused")


def test_all_tokens_mlm_mixes_copies_and_the_softmax(make_model):
    model = make_model(objective="all_tokens_mlm")
    output = model(features(), randomness=WITHOUT_DROPOUT)
    inputs, corrupted = output.inputs, output.fake_data.inputs.input_ids
    sequence = model.electra(corrupted, inputs.input_mask, inputs.segment_ids).sequence_output
    table = model.electra.embeddings.word_embeddings
    probs = np.exp(log_softmax(model.full_size_predictions(sequence, table)))
    copy = 1 / (1 + np.exp(-model.copy_predictions(sequence).numpy().astype(np.float64)))
    originals = original_ids(inputs)
    p = (1 - copy) * at(probs, originals) + copy * (corrupted.numpy() == originals)
    expected = mean(-np.log(p), inputs.input_mask.numpy())
    assert float(output.losses["replace"]) == pytest.approx(expected, rel=1e-4)


def test_copies_stay_finite_where_one_way_is_impossible():
    losses = tf.constant([[200.0, 200.0, 0.0]])
    copies = tf.constant([[100.0, 100.0, -100.0]])
    is_input = tf.constant([[True, False, True]])
    np.testing.assert_allclose(
        copy_loss(losses, copies, is_input), [[0.0, 300.0, 0.0]], atol=1e-4
    )
