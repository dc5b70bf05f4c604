"""What a model has of each objective: its layers, the weights of its terms, and its parts."""

import dataclasses

import keras
import numpy as np
import pytest

from electra_tf.config.choices import OBJECTIVES
from electra_tf.config.hyperparameters import parse_hparams
from electra_tf.model.randomness import Randomness
from electra_tf.model_builder import build_model, model_class
from electra_tf.objectives.adversarial import AdversarialHparams
from electra_tf.objectives.replace_mlm import ReplaceMLMHparams
from electra_tf.util.console import warn_once
from electra_tf.util.errors import UserError
from tests.electra_tf.objectives.numpy_losses import FACTS, options
from tests.electra_tf.test_pretraining_model import SPECIAL, features

ENCODERS = {"electra", "generator", "generator_ltr", "generator_rtl"}
# The other layers, by objective.
GENERATOR, DISCRIMINATOR = "generator_predictions", "discriminator_predictions"
LAYERS = {
    "adversarial": {GENERATOR, DISCRIMINATOR, "generator_baseline"},
    "all_tokens_mlm": {GENERATOR, "full_size_predictions", "copy_predictions"},
    "electra": {GENERATOR, DISCRIMINATOR},
    "electra_15": {GENERATOR, DISCRIMINATOR},
    "electric": {"cloze_predictions", DISCRIMINATOR},
    "mlm": {GENERATOR},
    "replace_mlm": {GENERATOR, "full_size_predictions"},
    "sentence_contrastive": {GENERATOR, DISCRIMINATOR, "sentence_predictions"},
    "two_stage": {GENERATOR, DISCRIMINATOR},
}


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_models_have_the_layers_of_their_objective(make_config, objective):
    keras.utils.set_random_seed(0)
    model = build_model(make_config(**options(objective)), SPECIAL, FACTS)
    folders = {variable.path.partition("/")[0] for variable in model.variables}
    assert folders - ENCODERS == LAYERS[objective]
    assert (model.generator is model.electra) == (objective == "mlm")


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_weights_of_terms_are_known_before_the_forward_pass(make_config, objective):
    """With fused kernels, as in a training."""
    keras.utils.set_random_seed(0)
    model = build_model(make_config(**options(objective)), SPECIAL, FACTS)
    for stage in range(len(model.stages())):
        model.stage = stage
        output = model(features(), randomness=Randomness(0, 0))
        weights = model.term_weights(model.prepare(features(), randomness=Randomness(0, 0)))
        assert set(weights) == set(output.terms)
        for name, term in output.terms.items():
            assert float(weights[name]) == float(term.weight) > 0
            assert np.isfinite(float(term.loss))
        assert all(x.shape[0] == 2 for x in model.metric_sums(output).values())


@pytest.mark.parametrize(
    "objective", [name for name in OBJECTIVES if DISCRIMINATOR in LAYERS[name]]
)
def test_other_weights_of_tokens_reach_the_discriminators_term(
    make_config, monkeypatch, objective
):
    model = build_model(make_config(**options(objective)), SPECIAL, FACTS)
    model.stage = len(model.stages()) - 1
    whole = model(features(), randomness=Randomness(0, 0)).terms["disc"].weight
    weights = model.discriminator_weights
    monkeypatch.setattr(model, "discriminator_weights", lambda inputs: 0.5 * weights(inputs))
    output = model(features(), randomness=Randomness(0, 0))
    expected = {"disc": 0.5 * float(whole)}
    assert {"disc": float(output.terms["disc"].weight)} == expected
    assert {"disc": float(model.term_weights(output.inputs)["disc"])} == expected


@pytest.mark.parametrize(
    ("hparams", "name"),
    [
        (AdversarialHparams, "baseline_weight"),
        (AdversarialHparams, "masked_lm_weight"),
        (ReplaceMLMHparams, "replace_weight"),
    ],
)
def test_weights_of_terms_are_zero_or_more(hparams, name):
    for value in (0.0, 0.25):
        given = parse_hparams(hparams, {name: value}, "--objective_hparams")
        assert getattr(given, name) == value
    with pytest.raises(UserError, match=rf"{name} .* must be at least 0, not -0\.25"):
        parse_hparams(hparams, {name: -0.25}, "--objective_hparams")
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(given, name, 1.0)


def test_weights_of_terms_by_default():
    assert AdversarialHparams() == AdversarialHparams(baseline_weight=1.0, masked_lm_weight=0.0)
    assert ReplaceMLMHparams() == ReplaceMLMHparams(replace_weight=1.0)


@pytest.mark.parametrize(
    ("objective", "names", "vocabulary", "binary"),
    [
        ("adversarial", ["generator", "discriminator"], 0, 16),
        ("all_tokens_mlm", ["generator", "full-size masked LM"], 16, 16),
        ("electra_15", ["generator", "discriminator"], 0, 16),
        ("mlm", ["masked LM"], 3, 0),
        ("replace_mlm", ["generator", "full-size masked LM"], 3, 0),
    ],
)
def test_the_full_size_part_predicts_what_its_loss_needs(
    make_config, objective, names, vocabulary, binary
):
    config = make_config(objective=objective, max_predictions_per_seq=3)
    parts = model_class(config).parts(config)
    assert [part.name for part in parts] == names
    full_size = parts[-1]
    assert (full_size.vocabulary_positions, full_size.binary_positions) == (vocabulary, binary)
    assert full_size.encoder.hidden_size == 16
    assert full_size.samples == (0 if objective == "mlm" else 3)


@pytest.mark.parametrize(
    ("settings", "warned"),
    [
        ({"gen_weight": 0.0}, "--gen_weight=0 does not train the generator"),
        ({"objective": "adversarial", "gen_weight": 0.0}, "--gen_weight=0 does not train"),
        (
            {
                "objective": "adversarial",
                "gen_weight": 0.0,
                "objective_hparams": {"masked_lm_weight": 1.0},
            },
            "",
        ),
        (
            {"masking": "learned", "masking_hparams": {"head_weight": 0.0}},
            "head_weight=0 of --masking_hparams does not train the head",
        ),
        ({"masking": "learned"}, ""),
        (
            {
                "objective": "sentence_contrastive",
                "objective_hparams": {"unchanged_share": 0.0},
            },
            "unchanged_share=0 of --objective_hparams leaves hardly any input unmodified",
        ),
    ],
)
def test_parts_that_nothing_trains_are_warned_of(make_config, settings, warned, capsys):
    warn_once.cache_clear()
    config = make_config(**settings)
    model_class(config).check_loss_weights(config)
    model_class(config).warn_of_unused(config)
    error = capsys.readouterr().err
    assert warned in error
    assert bool(error) == bool(warned)
