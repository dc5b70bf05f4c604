"""Replace MLM: the loss of the full-size model, and its mean."""

import math

import numpy as np
import pytest
import tensorflow as tf

from tests.electra_tf.objectives.numpy_losses import (
    WITHOUT_DROPOUT,
    at,
    log_softmax,
    masked_mask,
    mean,
    original_ids,
    three_masked_tokens,
)
from tests.electra_tf.test_pretraining_model import SPECIAL, features

pytestmark = pytest.mark.usefixtures("unfused")


def test_replace_mlm_predicts_masked_words_from_sampled_text(make_model):
    model = make_model(objective="replace_mlm", objective_hparams={"replace_weight": 2.0})
    output = model(features(), randomness=WITHOUT_DROPOUT)
    inputs = output.inputs
    sequence = model.electra(
        output.fake_data.inputs.input_ids, inputs.input_mask, inputs.segment_ids
    ).sequence_output
    table = model.electra.embeddings.word_embeddings
    log_probs = log_softmax(model.full_size_predictions(sequence, table))
    losses = -at(log_probs, original_ids(inputs))
    expected = mean(losses, masked_mask(inputs))
    assert float(output.losses["replace"]) == pytest.approx(expected, rel=1e-4)
    total = float(output.losses["gen"]) + 2 * expected
    assert float(output.losses["total"]) == pytest.approx(total, rel=1e-4)
    assert not np.any(output.fake_data.inputs.input_ids.numpy() == SPECIAL.mask)


def test_replace_mlm_divides_the_sum_over_masked_tokens_by_their_number(
    make_model, monkeypatch
):
    model = make_model(objective="replace_mlm", objective_hparams={"replace_weight": 2.0})
    inputs = three_masked_tokens()
    # Probabilities 1/2, 1/4 and 1/4 of three tokens.
    rows = [[7, 8, 9], [7, 8, 9], [8, 7, 9], [7, 8, 9]]
    logits = np.full((4, 40), -50.0, np.float32)
    for row, tokens in zip(logits, rows, strict=True):
        row[tokens] = [math.log(2.0), 0.0, 0.0]
    logits = tf.reshape(logits, [2, 2, 40])
    monkeypatch.setattr(
        model.full_size_predictions, "call", lambda x, table, float32=False: logits
    )
    samples = tf.constant([[30, 9], [31, 0]])
    output = model.forward(inputs, randomness=WITHOUT_DROPOUT, sampled_token_ids=samples)
    np.testing.assert_array_equal(
        output.fake_data.inputs.input_ids, [[2, 30, 8, 9, 10, 3], [2, 7, 31, 3, 0, 0]]
    )
    term = output.terms["replace"]
    # -ln 1/2 of 7, -ln 1/4 of 9, and -ln 1/2 of 8; the unused slot does not count.
    assert float(term.loss) == pytest.approx(4 / 3 * math.log(2.0), rel=1e-5)
    assert (float(term.weight), term.coefficient) == (3.0, 2.0)
