"""What all objectives have in common: gradients, schedules, and refused settings."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from electra_tf.config.choices import OBJECTIVES
from electra_tf.model.randomness import Randomness
from electra_tf.model_builder import build_model
from electra_tf.pretraining_optimizer import create_optimizer
from electra_tf.util.errors import UserError
from tests.electra_tf.objectives.numpy_losses import (
    FACTS,
    NO_DROPOUT,
    TINY_SHAPE,
    options,
)
from tests.electra_tf.test_pretraining_model import SPECIAL, features, gradients, is_zero

pytestmark = pytest.mark.usefixtures("unfused")


@pytest.mark.parametrize(
    "objective",
    [name for name in OBJECTIVES if name not in ("mlm", "adversarial", "two_stage")],
)
def test_the_full_size_models_loss_does_not_reach_the_generator(make_model, objective):
    model = make_model(objective=objective, embedding_sharing="none")
    term = "replace" if "mlm" in objective else "disc"
    for path, gradient in gradients(model, term).items():
        generator = path.startswith(("generator", "cloze", "two_tower"))
        if generator:
            assert is_zero(gradient), path
        elif path.startswith("electra"):
            assert not is_zero(gradient), path
    for path, gradient in gradients(model, "gen").items():
        if path.startswith("electra"):
            assert is_zero(gradient), path


def test_a_mask_percentage_schedule_follows_the_step(make_model):
    model = make_model(
        mask_prob=0.15, mask_prob_end=0.45, num_train_steps=100, max_predictions_per_seq=8
    )

    def masked(step: int, **more) -> float:
        inputs = model.prepare(features(), randomness=Randomness(0, step, **more))
        return float(tf.reduce_sum(inputs.masked_lm_weights[1:], axis=-1)[0])

    assert [masked(step) for step in (0, 50, 100, 200)] == [2, 5, 7, 7]
    assert masked(100, dropout=False) == 2


@pytest.mark.parametrize("objective", ["electra", "adversarial", "electric"])
def test_a_temperature_schedule_follows_the_step(make_model, objective):
    """At each step, all is as at a constant temperature of that value."""
    shape = {**TINY_SHAPE, **NO_DROPOUT}
    given = {"objective": objective, "num_train_steps": 100, "model_hparam_overrides": shape}
    scheduled = make_model(temperature=4.0, temperature_end=1.0, **given)
    for step, dropout, temperature in ((0, True, 4.0), (60, True, 2.2), (60, False, 4.0)):
        constant = make_model(temperature=temperature, **given)
        ours, theirs = (
            model(features(), randomness=Randomness(0, step, dropout=dropout))
            for model in (scheduled, constant)
        )
        np.testing.assert_array_equal(
            ours.fake_data.sampled_token_ids, theirs.fake_data.sampled_token_ids
        )
        assert ours.terms.keys() == theirs.terms.keys()
        for name, term in theirs.terms.items():
            np.testing.assert_allclose(ours.terms[name].loss, term.loss, rtol=1e-5)


def test_options_that_would_have_no_effect_are_refused(make_model, make_config):
    with pytest.raises(UserError, match="--span_boundary_weight"):
        make_model(objective="adversarial", span_boundary_weight=1.0)
    with pytest.raises(UserError, match="--masking_with_replacement masks some tokens twice"):
        make_model(objective="adversarial", masking_with_replacement=True)
    with pytest.raises(UserError, match="a masked language model, not --generator_type=unig"):
        make_model(generator_type="unigram", span_boundary_weight=1.0)
    with pytest.raises(UserError, match="disallow_correct"):
        make_model(objective="electric", disallow_correct=True)
    for overrides in ({"embedding_sharing": "all"}, {"generator_type": "uniform"}):
        model = make_model(generator_learning_rate=1e-4, **overrides)
        with pytest.raises(UserError, match="--generator_learning_rate"):
            create_optimizer(model.config, model)
    with pytest.raises(UserError, match="--embedding_sharing=gdes"):
        make_config(embedding_sharing="gdes", generator_type="unigram")
    with pytest.raises(UserError, match="--embedding_sharing=token"):
        make_config(embedding_sharing="token", objective="mlm")


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_unknown_hyperparameters_are_refused(make_config, objective):
    config = dataclasses.replace(
        make_config(**options(objective)), objective_hparams={"colour": 1}
    )
    with pytest.raises(UserError, match=r"'colour' in --objective_hparams"):
        build_model(config, SPECIAL, FACTS)
