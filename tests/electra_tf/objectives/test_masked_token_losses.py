"""Losses of the masked tokens: what is summed and by what it is divided, computed by hand."""

import math

import numpy as np
import pytest
import tensorflow as tf

from electra_tf.model.batch_types import PretrainInputs
from electra_tf.model.randomness import Randomness
from electra_tf.model_builder import build_model
from electra_tf.pretraining_model import PretrainingModel
from tests.electra_tf.test_pretraining_model import SPECIAL

WITHOUT_DROPOUT = Randomness(0, 0, dropout=False)


@pytest.fixture
def make_model(make_config):
    def make(**overrides) -> PretrainingModel:
        return build_model(make_config(**overrides), SPECIAL)

    return make


def three_masked_tokens() -> PretrainInputs:
    """Two rows of six tokens; masked are 1 and 3 of the first, and 2 of the second."""
    ids = [[2, 7, 8, 9, 10, 3], [2, 7, 8, 3, 0, 0]]
    mask = [[1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 0, 0]]
    return PretrainInputs(
        input_ids=tf.constant(ids),
        input_mask=tf.constant(mask),
        segment_ids=tf.zeros([2, 6], tf.int32),
        masked_lm_positions=tf.constant([[1, 3], [2, 0]]),
        masked_lm_ids=tf.constant([[7, 9], [8, 0]]),
        masked_lm_weights=tf.constant([[1.0, 1.0], [1.0, 0.0]]),
    )


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
