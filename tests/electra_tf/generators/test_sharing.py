"""What generator and discriminator share, and where gradients go."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from electra_tf.interop.variable_names import assign_arrays, named_variables, variable_arrays
from electra_tf.model.randomness import Randomness
from electra_tf.model_builder import build_model
from electra_tf.pretraining_model import PretrainingModel
from tests.electra_tf.test_pretraining_model import SPECIAL, features, gradients, is_zero

TABLES = ("word_embeddings", "position_embeddings", "token_type_embeddings")


@pytest.fixture
def make_model(make_config):
    def make(**overrides) -> PretrainingModel:
        keras.utils.set_random_seed(0)
        return build_model(make_config(**overrides), SPECIAL)

    return make


def test_the_authors_flags_and_ours_ask_for_the_same_models(make_model):
    for theirs, ours in (
        ({}, "embeddings"),
        ({"untied_generator": False}, "all"),
        ({"untied_generator_embeddings": True}, "none"),
    ):
        paths = [v.path for v in make_model(**theirs).variables]
        assert paths == [v.path for v in make_model(embedding_sharing=ours).variables]


def test_sharing_tokens_shares_one_table(make_model):
    model = make_model(embedding_sharing="token")
    ours, theirs = model.electra.embeddings, model.generator.embeddings
    assert theirs.word_embeddings is ours.word_embeddings
    assert theirs.position_embeddings is not ours.position_embeddings
    paths = [variable.path for variable in model.trainable_variables]
    assert sum(path.endswith("word_embeddings") for path in paths) == 1
    assert sum(path.endswith("position_embeddings") for path in paths) == 2
    of_disc, of_gen = gradients(model, "disc"), gradients(model, "gen")
    for path in paths:
        shared = path.endswith("word_embeddings")
        assert is_zero(of_disc[path]) == (path.startswith("generator") and not shared), path
        assert is_zero(of_gen[path]) == (not path.startswith("generator") and not shared), path


def test_sharing_tables_shares_tokens_and_positions(make_model):
    model = make_model(embedding_sharing="es")
    ours, theirs = model.electra.embeddings, model.generator.embeddings
    assert theirs.word_embeddings is ours.word_embeddings
    assert theirs.position_embeddings is ours.position_embeddings
    assert theirs.token_type_embeddings is not ours.token_type_embeddings
    assert theirs.norm is not ours.norm
    assert model.generator.embeddings_project is not model.electra.embeddings_project
    of_disc, of_gen = gradients(model, "disc"), gradients(model, "gen")
    for path in of_disc:
        shared = path.endswith(TABLES[:2])
        assert is_zero(of_disc[path]) == (path.startswith("generator") and not shared), path
        assert is_zero(of_gen[path]) == (not path.startswith("generator") and not shared), path
    # The gradient of the objective in a shared table is the sum of both.
    name = "electra/embeddings/position_embeddings"
    expected = of_gen[name] + 50 * of_disc[name]
    np.testing.assert_allclose(gradients(model, "total")[name], expected, atol=1e-5)


def test_disentangled_sharing_sends_no_gradient_into_the_generator(make_model):
    model = make_model(embedding_sharing="gdes")
    of_disc, of_gen = gradients(model, "disc"), gradients(model, "gen")
    for path in of_disc:
        assert is_zero(of_disc[path]) == path.startswith("generator"), path
        assert is_zero(of_gen[path]) != path.startswith("generator"), path


def test_disentangled_tables_are_the_generators_plus_differences_from_zero(make_model):
    model = make_model(embedding_sharing="gdes")
    ours, theirs = model.electra.embeddings, model.generator.embeddings
    for name in TABLES:
        np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name))
    ours.word_difference.assign(tf.fill(ours.word_difference.shape, 0.25))
    np.testing.assert_allclose(
        ours.word_embeddings, theirs.word_embeddings.numpy() + 0.25, rtol=1e-6
    )


@pytest.mark.parametrize("term", ["disc", "gen"])
def test_gradients_of_disentangled_sharing_equal_finite_differences(make_model, term):
    model = make_model(embedding_sharing="gdes")
    randomness = Randomness(0, 0, dropout=False)
    fixed = model(features(), randomness=randomness)

    def loss() -> float:
        output = model(
            features(),
            randomness=randomness,
            masked_inputs=fixed.inputs,
            sampled_token_ids=fixed.fake_data.sampled_token_ids,
        )
        return float(output.losses[term])

    with tf.GradientTape() as tape:
        output = model(
            features(),
            randomness=randomness,
            masked_inputs=fixed.inputs,
            sampled_token_ids=fixed.fake_data.sampled_token_ids,
        )
        value = output.losses[term]
    table = (
        model.electra.embeddings.word_difference
        if term == "disc"
        else model.generator.embeddings.word_embeddings
    )
    gradient = tf.convert_to_tensor(tape.gradient(value, table.value)).numpy()
    row, column = np.unravel_index(np.argmax(np.abs(gradient)), gradient.shape)
    before, step = table.numpy(), 3e-3
    differences = []
    for sign in (1, -1):
        moved = before.copy()
        moved[row, column] += sign * step
        table.assign(moved)
        differences.append(loss())
    table.assign(before)
    estimate = (differences[0] - differences[1]) / (2 * step)
    assert gradient[row, column] == pytest.approx(estimate, rel=2e-2)


@pytest.mark.parametrize("sharing", ["none", "token", "es", "embeddings", "all", "gdes"])
def test_weights_come_back_by_the_authors_names(make_model, sharing):
    model = make_model(embedding_sharing=sharing)
    for variable in model.variables:
        noise = np.random.default_rng(1).normal(size=tuple(variable.shape))
        variable.assign(variable.numpy() + noise.astype(np.float32))
    arrays = variable_arrays(named_variables(model))
    assert "electra/embeddings/word_embeddings" in arrays
    np.testing.assert_allclose(
        arrays["electra/embeddings/word_embeddings"], model.electra.embeddings.word_embeddings
    )
    other = make_model(embedding_sharing=sharing)
    assign_arrays(arrays, named_variables(other), "test", list(arrays))
    for ours, theirs in zip(other.variables, model.variables, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-6)
