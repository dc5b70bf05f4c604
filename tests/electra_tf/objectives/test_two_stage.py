"""Two stages: which terms each has, how many steps, and what the second starts from."""

import dataclasses

import keras
import numpy as np
import pytest
import tensorflow as tf

from electra_tf.config.phases import Stage
from electra_tf.model.batch_types import PretrainingOutput
from electra_tf.model.randomness import Randomness
from electra_tf.model_builder import build_model
from electra_tf.objectives.two_stage import TwoStage, TwoStageHparams
from electra_tf.pretraining_model import PretrainingModel
from electra_tf.util.console import warn_once
from electra_tf.util.errors import UserError
from tests.electra_tf.objectives.numpy_losses import TWO_STAGE, binary_cross_entropy, mean
from tests.electra_tf.test_pretraining_model import SPECIAL, features, gradients, is_zero

NUM_STEPS = 10


pytestmark = pytest.mark.usefixtures("unfused")


@pytest.fixture
def make_model(make_config):
    def make(**overrides) -> PretrainingModel:
        keras.utils.set_random_seed(0)
        given = {"num_train_steps": NUM_STEPS, "num_warmup_steps": 1, **TWO_STAGE, **overrides}
        return build_model(make_config(**given), SPECIAL)

    return make


def test_the_steps_are_divided_by_the_generators_share(make_model):
    model = make_model()
    assert model.stages() == [Stage("generator", 5), Stage("discriminator", 5)]
    for share, (first, second) in {0.1: (1, 9), 0.26: (3, 7), 0.9: (9, 1)}.items():
        hparams = {"generator_share": share}
        config = dataclasses.replace(model.config, objective_hparams=hparams)
        TwoStage.check(config)
        stages = [Stage("generator", first), Stage("discriminator", second)]
        assert TwoStage.stages_of(config) == stages


@pytest.mark.parametrize("share", [-0.5, 0.04, 0.96, 1.0, 1.5])
def test_a_share_that_leaves_a_stage_without_steps_is_refused(make_model, share):
    with pytest.raises(UserError, match=rf"generator_share={share} .*--num_train_steps=10"):
        make_model(objective_hparams={"generator_share": share})


@pytest.mark.parametrize("sharing", ["embeddings", "token"])
def test_shared_weights_are_refused(make_model, sharing):
    with pytest.raises(UserError, match=f"pass --embedding_sharing=none, not {sharing}$"):
        make_model(embedding_sharing=sharing)


def test_every_difference_of_the_shapes_is_named(make_model):
    with pytest.raises(UserError) as caught:
        make_model(generator_hidden_size=0.5, generator_layers=0.5)
    message = str(caught.value)
    assert "hidden_size is 8 in the generator and 16 in the discriminator" in message
    assert "num_hidden_layers is 1 in the generator and 2 in the discriminator" in message
    assert "--generator_hidden_size=1" in message
    assert "vocab_size" not in message  # the two have the same


def test_the_terms_and_metrics_are_those_of_the_stage(make_model):
    model, tokens = make_model(disc_weight=7.0, gen_weight=3.0), 16 + 16 + 10
    randomness = Randomness(0, 0)
    first = model(features(), randomness=randomness)
    (name, term), *others = first.terms.items()
    masked = float(tf.reduce_sum(first.inputs.masked_lm_weights))
    assert (name, term.coefficient, float(term.weight), others) == ("gen", 3.0, masked, [])
    assert first.fake_data is None
    assert first.discriminator is None
    assert {k: float(v) for k, v in model.term_weights(first.inputs).items()} == {"gen": masked}
    assert set(model.metric_sums(first)) == {"masked_lm_loss", "masked_lm_accuracy"}

    model.stage = 1
    second = model(features(), randomness=randomness)
    (name, term), *others = second.terms.items()
    assert (name, term.coefficient, float(term.weight), others) == ("disc", 7.0, tokens, [])
    losses = binary_cross_entropy(second.discriminator.logits, second.fake_data.is_fake_tokens)
    expected = mean(losses, second.inputs.input_mask.numpy())
    assert float(term.loss) == pytest.approx(expected, rel=1e-5)
    weights = model.term_weights(second.inputs)
    assert {k: float(v) for k, v in weights.items()} == {"disc": tokens}
    assert {"masked_lm_loss", "disc_accuracy", "sampled_masked_lm_accuracy"} <= set(
        model.metric_sums(second)
    )


def test_only_the_frozen_generator_predicts_without_dropout(make_model):
    model = make_model()

    def output(stage: int, *, dropout: bool = True) -> PretrainingOutput:
        model.stage = stage
        return model(features(), randomness=Randomness(0, 0, dropout=dropout))

    first, second, without = output(0), output(1), output(1, dropout=False)
    np.testing.assert_array_equal(second.masked_lm.logits, without.masked_lm.logits)
    assert np.any(first.masked_lm.logits != without.masked_lm.logits)
    assert np.any(second.discriminator.logits != without.discriminator.logits)


def test_only_the_second_stage_starts_from_the_generator(make_model):
    model = make_model()
    before = [variable.numpy() for variable in model.electra.variables]
    model.start_stage()
    for variable, was in zip(model.electra.variables, before, strict=True):
        np.testing.assert_array_equal(variable, was)
    model.stage = 1
    model.start_stage()
    ours, theirs = model.electra.variables, model.generator.variables
    for variable, other in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(variable, other)
    assert any(np.any(variable != was) for variable, was in zip(ours, before, strict=True))


def test_initial_weights_that_are_replaced_are_warned_of(make_model, capsys):
    config = make_model().config
    for start, warns in ((None, False), ("bert", True)):
        warn_once.cache_clear()
        TwoStage.warn_of_unused(dataclasses.replace(config, init_checkpoint=start))
        warned = "so only the generator of --init_checkpoint=bert is used, not its encoder"
        assert (warned in capsys.readouterr().err) == warns


def test_flops_are_counted_by_stage(make_config):
    config = make_config(**TWO_STAGE, objective_hparams={"generator_share": 0.3})
    generator, frozen, discriminator = TwoStage.parts(config)
    assert generator.name == "generator"
    assert (generator.is_trained, generator.stage) == (True, 0)
    assert dataclasses.replace(frozen, name="generator", is_trained=True) == (
        dataclasses.replace(generator, stage=1)
    )
    assert (frozen.name, frozen.is_trained) == ("frozen generator", False)
    assert (discriminator.name, discriminator.stage) == ("discriminator", 1)


def test_hyperparameters_cannot_be_changed_in_a_run():
    with pytest.raises(dataclasses.FrozenInstanceError):
        TwoStageHparams().generator_share = 0.9


def test_two_stage_trains_one_model_at_a_time(make_model):
    model = make_model(**TWO_STAGE)
    of_generator = gradients(model, "gen")
    assert all(
        is_zero(gradient) == path.startswith(("electra", "discriminator"))
        for path, gradient in of_generator.items()
    )
    model.stage = 1
    model.start_stage()
    for ours, theirs in zip(model.electra.variables, model.generator.variables, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    of_discriminator = gradients(model, "disc")
    assert all(
        is_zero(gradient) == path.startswith("generator")
        for path, gradient in of_discriminator.items()
    )


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"embedding_sharing": "embeddings"}, "--embedding_sharing=none"),
        ({"generator_hidden_size": 0.5, "embedding_size": 8}, "hidden_size is 8"),
        ({"objective_hparams": {"generator_share": 0.0}}, "generator_share"),
        ({"generator_type": "uniform"}, "--generator_type=masked_lm"),
    ],
)
def test_two_stage_checks_what_it_copies(make_model, given, message):
    with pytest.raises(UserError, match=message):
        make_model(**{**TWO_STAGE, **given})
