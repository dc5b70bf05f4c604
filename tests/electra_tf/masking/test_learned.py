"""Learned masking: what is drawn how often, and what the head learns from."""

import dataclasses

import keras
import numpy as np
import pytest
import tensorflow as tf

from electra_tf.config.choices import OBJECTIVES
from electra_tf.config.hyperparameters import parse_hparams
from electra_tf.masking.learned import (
    MIN_LOSS,
    WINDOW,
    LearnedMasking,
    LearnedMaskingHparams,
    TokenLossHead,
)
from electra_tf.masking.masked_batch import unmask
from electra_tf.model.batch_types import MaskedLMOutput
from electra_tf.model.randomness import Randomness
from electra_tf.model_builder import build_model
from electra_tf.pretraining_model import PretrainingModel
from electra_tf.util.errors import UserError
from tests.electra_tf.masking.test_masking import masked_sets
from tests.electra_tf.objectives.numpy_losses import FACTS, options
from tests.electra_tf.test_pretraining_model import SPECIAL, features, gradients, is_zero

LOSSES = np.array([0.5, 2.0, 6.0])


@pytest.fixture
def make_model(make_config):
    def make(**overrides) -> PretrainingModel:
        keras.utils.set_random_seed(0)
        return build_model(make_config(masking="learned", **overrides), SPECIAL, FACTS)

    return make


@pytest.mark.parametrize("power", [1.0, 0.5])
def test_tokens_are_drawn_in_proportion_to_their_predicted_loss(monkeypatch, power):
    losses = np.ones(20, np.float32)
    losses[5:8] = LOSSES
    strategy = LearnedMasking(LearnedMaskingHparams(power=power), None)
    monkeypatch.setattr(strategy, "predict", lambda ids: tf.gather(losses, ids))
    chosen = masked_sets(strategy, 20_000, wanted=2, ids=[2, 5, 6, 7, 3])
    weights = LOSSES**power / np.sum(LOSSES**power)
    first, second = (np.array([row[i] for row in chosen]) - 1 for i in (0, 1))
    shares = np.bincount(first, minlength=3) / len(chosen)
    np.testing.assert_allclose(shares, weights, atol=0.012)
    # The second is drawn from the rest, in the same proportion.
    after_last = np.bincount(second[first == 2], minlength=3) / np.sum(first == 2)
    np.testing.assert_allclose(after_last, [*(weights[:2] / weights[:2].sum()), 0], atol=0.02)


def test_the_head_learns_the_mean_loss_of_each_token(make_model):
    model = make_model()
    predicted = model.masking.predict(features()["input_ids"])
    # At the beginning, that of a uniform distribution over the vocabulary.
    np.testing.assert_allclose(predicted, np.log(40) + 0.1, rtol=0.02)
    ids = np.tile([2, 5, 6, 7, 3, 0], (64, 1))
    rows = tf.constant(ids, tf.int32)
    given = {"input_ids": rows, "input_mask": tf.cast(rows > 0, tf.int32)}
    given["segment_ids"] = tf.zeros_like(rows)
    optimizer = keras.optimizers.Adam(2e-2)
    variables = model.masking_head.trainable_variables

    @tf.function(autograph=False)
    def step(index: tf.Tensor, noise: tf.Tensor) -> None:
        inputs = model.prepare(given, randomness=Randomness(0, index))
        means = tf.gather(tf.constant(LOSSES, tf.float32), inputs.masked_lm_ids - 5)
        output = MaskedLMOutput(None, means * noise, None, None)
        with tf.GradientTape() as tape:
            loss = model.masking_terms(inputs, output)["masking"].loss
        optimizer.apply(tape.gradient(loss, [v.value for v in variables]), variables)

    generator = np.random.default_rng(0)
    for index in range(150):
        noise = generator.exponential(size=(64, model.config.max_predictions_per_seq))
        step(tf.constant(index), tf.constant(noise, tf.float32))
    predicted = model.masking.predict(rows)[0, 1:4].numpy()
    np.testing.assert_allclose(predicted, LOSSES, rtol=0.25)


def test_in_mixed_precision_the_bias_of_a_prediction_is_float32(make_model):
    config = make_model().encoder_config
    head = TokenLossHead(8, config, dtype="mixed_bfloat16", name="masking_head")
    head.dense_1.kernel.assign(tf.zeros_like(head.dense_1.kernel))
    bias = 0.7  # between two numbers of bfloat16
    head.dense_1.bias.assign([bias])
    predicted = head(tf.ones([1, 2, WINDOW * 8]))
    expected = MIN_LOSS + np.log(config.vocab_size) * np.exp(bias)
    np.testing.assert_allclose(predicted, np.full([1, 2], expected), rtol=1e-6)


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_the_head_alone_learns_from_its_loss(make_model, objective):
    model = make_model(**options(objective))
    of_head = gradients(model, "masking")
    for path, gradient in of_head.items():
        assert is_zero(gradient) != path.startswith("masking_head/"), path
    other = next(
        name
        for name in ("gen", "policy")
        if name in model.term_weights(model.prepare(features(), randomness=Randomness(0, 0)))
    )
    for path, gradient in gradients(model, other).items():
        assert is_zero(gradient) or not path.startswith("masking_head/"), path


def test_the_loss_is_that_of_the_masked_tokens_and_their_neighbors(make_model):
    model = make_model(masking_hparams={"head_weight": 0.25})
    output = model(features(), randomness=Randomness(0, 0, dropout=False))
    inputs = output.inputs
    original = unmask(inputs).input_ids
    np.testing.assert_array_equal(original, features()["input_ids"])
    everywhere = model.masking.predict(original).numpy()
    at_masked = np.take_along_axis(everywhere, inputs.masked_lm_positions.numpy(), axis=1)
    losses = output.masked_lm.per_example_loss / at_masked + np.log(at_masked)
    weights = inputs.masked_lm_weights.numpy()
    term = output.terms["masking"]
    assert float(term.loss) == pytest.approx(np.sum(losses * weights) / weights.sum(), rel=1e-5)
    assert (float(term.weight), term.coefficient) == (weights.sum(), 0.25)
    # A neighbor changes the prediction, and a token two places away does not.
    changed = original.numpy().copy()
    changed[1, 7] = 39 if changed[1, 7] != 39 else 38
    model.masking_head.dense.kernel.assign(10 * model.masking_head.dense.kernel)
    before, after = model.masking.predict(original), model.masking.predict(changed)
    assert np.flatnonzero(np.any(before != after, axis=0)).tolist() == [6, 7, 8]


def test_a_generator_that_does_not_read_the_text_is_refused(make_model):
    with pytest.raises(UserError, match=r"--masking=learned .*--generator_type=uniform"):
        make_model(generator_type="uniform")


def test_the_head_has_the_shape_of_saved_models(make_model):
    model = make_model()
    embedding = model.electra.embeddings.config.embedding_size
    shapes = {variable.name: variable.shape for variable in model.masking_head.dense.variables}
    assert shapes == {"kernel": (3 * embedding, 128), "bias": (128,)}


def test_defaults_and_bounds_of_hyperparameters():
    assert LearnedMaskingHparams() == LearnedMaskingHparams(power=1.0, head_weight=1.0)
    with pytest.raises(UserError, match=r"head_weight .* must be at least 0, not -0\.5"):
        parse_hparams(LearnedMaskingHparams, {"head_weight": -0.5}, "--masking_hparams")
    assert parse_hparams(LearnedMaskingHparams, {"head_weight": 0.0}, "x").head_weight == 0


def test_hyperparameters_cannot_be_changed_in_a_run():
    with pytest.raises(dataclasses.FrozenInstanceError):
        LearnedMaskingHparams().power = 2.0
