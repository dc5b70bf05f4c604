"""Replacements by the generator's most likely tokens."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from electra_tf.model.randomness import Randomness
from electra_tf.model_builder import build_model, model_class
from electra_tf.pretraining_model import PretrainingModel
from electra_tf.util.console import warn_once
from electra_tf.util.errors import UserError
from tests.electra_tf.test_pretraining_model import SPECIAL, features, gradients, is_zero


@pytest.fixture
def make_model(make_config):
    def make(**overrides) -> PretrainingModel:
        keras.utils.set_random_seed(0)
        return build_model(make_config(replacement="argmax", **overrides), SPECIAL)

    return make


def test_the_most_likely_tokens_replace_the_masked_ones(make_model):
    model = make_model()
    first, second = (model(features(), randomness=Randomness(seed, 0)) for seed in (0, 0))
    tokens = first.fake_data.sampled_token_ids.numpy()
    np.testing.assert_array_equal(tokens, np.argmax(first.masked_lm.logits, axis=-1))
    np.testing.assert_array_equal(tokens, second.fake_data.sampled_token_ids)
    used = first.inputs.masked_lm_weights.numpy() > 0
    corrupted = first.fake_data.inputs.input_ids.numpy()
    positions = first.inputs.masked_lm_positions.numpy()
    at_masked = np.take_along_axis(corrupted, positions, axis=1)
    np.testing.assert_array_equal(at_masked[used], tokens[used])


def test_a_certain_generator_changes_nothing_unless_the_original_is_disallowed(make_model):
    for disallow in (False, True):
        model = make_model(disallow_correct=disallow)
        inputs = model.prepare(features(), randomness=Randomness(0, 0))
        logits = 20.0 * tf.one_hot(inputs.masked_lm_ids, 40) + tf.one_hot(30, 40)
        fake = model._get_fake_data(inputs, logits, Randomness(0, 0))
        masked = int(tf.reduce_sum(inputs.masked_lm_weights))
        assert int(tf.reduce_sum(fake.is_fake_tokens)) == (masked if disallow else 0)


def test_no_gradient_flows_through_the_replacements(make_model):
    model = make_model(embedding_sharing="none")
    for path, gradient in gradients(model, "disc").items():
        assert is_zero(gradient) == path.startswith("generator"), path


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"objective": "mlm"}, "--objective=mlm replaces no token"),
        ({"objective": "electric"}, "--objective=electric assumes sampled tokens"),
        ({"objective": "adversarial"}, "--objective=adversarial assumes sampled tokens"),
        ({"generator_type": "uniform"}, "--generator_type=uniform always has the same one"),
        ({"temperature": 2.0}, "--temperature=2.0 does not change it"),
        ({"temperature_end": 2.0}, "--temperature_end=2.0 does not change it"),
    ],
)
def test_where_it_would_have_no_meaning_it_is_refused(make_model, overrides, message):
    with pytest.raises(UserError, match=f"--replacement=argmax .*{message}"):
        make_model(**overrides)


def test_a_schedule_of_the_temperature_needs_samples(make_config):
    with pytest.raises(UserError, match="--temperature_end: --objective=mlm samples no"):
        build_model(make_config(objective="mlm", temperature_end=1.0), SPECIAL)


def test_a_schedule_of_the_temperature_needs_probabilities_that_differ(make_config):
    with pytest.raises(UserError, match=r"--temperature_end: .* --generator_type=uniform"):
        build_model(make_config(generator_type="uniform", temperature_end=1.0), SPECIAL)


@pytest.mark.parametrize(
    ("settings", "warning"),
    [
        (
            {"objective": "mlm", "temperature": 2.0, "disallow_correct": True},
            "--temperature=2 and --disallow_correct have no effect: --objective=mlm samples no",
        ),
        (
            {"generator_type": "uniform", "temperature": 0.5},
            "--temperature=0.5 has no effect: tokens of --generator_type=uniform are equally",
        ),
        ({"objective": "mlm"}, None),
        ({"temperature": 2.0, "disallow_correct": True}, None),
        ({"generator_type": "uniform", "disallow_correct": True}, None),
        (
            {"generator_type": "uniform", "embedding_sharing": "none"},
            "--embedding_sharing=none has no effect: --generator_type=uniform has no weights",
        ),
        (
            {"objective": "mlm", "embedding_sharing": "all"},
            "--embedding_sharing=all has no effect: --objective=mlm has no generator",
        ),
        (
            {"generator_type": "uniform", "gen_weight": 2.0},
            "--gen_weight=2 does not affect weights: --generator_type=uniform has no weights",
        ),
        ({"objective": "mlm", "gen_weight": 2.0}, None),
        (
            {"objective": "replace_mlm", "disc_weight": 2.0},
            "--disc_weight=2 has no effect: --objective=replace_mlm has no discriminator",
        ),
        ({"disc_weight": 2.0}, None),
        (
            {"objective": "mlm", "generator_hidden_size": 0.5},
            "--generator_hidden_size=0.5 has no effect: --objective=mlm has no generator",
        ),
        (
            {"generator_type": "unigram", "generator_layers": 0.5},
            "--generator_layers=0.5 has no effect: --generator_type=unigram has no weights",
        ),
        (
            {"embedding_sharing": "all", "generator_layers": 0.5},
            "--generator_layers=0.5 has no effect: --embedding_sharing=all has one encoder",
        ),
        ({"embedding_sharing": "all", "generator_hidden_size": 1}, None),
        ({"embedding_sharing": "none", "generator_hidden_size": 0.5}, None),
    ],
)
def test_settings_without_effect_are_warned_of(make_config, settings, warning, capsys):
    warn_once.cache_clear()
    config = make_config(**{"generator_hidden_size": 0.25} | settings)
    model_class(config).check(config)
    assert not capsys.readouterr().err
    model_class(config).warn_of_unused(config)
    said = capsys.readouterr().err
    assert bool(said) == (warning is not None)
    assert (warning or "") in said


@pytest.mark.parametrize(
    ("objective", "name", "metrics"),
    [
        ("electra", "disc_weight", "disc_*"),
        ("replace_mlm", "replace_weight", "full_size_*"),
        ("all_tokens_mlm", "replace_weight", "full_size_*"),
        ("sentence_contrastive", "sentence_weight", "sentence_accuracy"),
    ],
)
def test_metrics_that_no_loss_trains_for_are_warned_of(
    make_config, capsys, objective, name, metrics
):
    for weight in (1.0, 0.0):
        warn_once.cache_clear()
        given = {name: weight}
        if objective != "electra":
            given = {"objective_hparams": given}
        config = make_config(objective=objective, **given)
        model_class(config).warn_of_unused(config)
        said = capsys.readouterr().err
        is_warned = f"{name}=0" in said and "does not train" in said and metrics in said
        assert is_warned == (weight == 0), said
