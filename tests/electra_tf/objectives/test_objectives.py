"""Every objective: its losses in NumPy, and where their gradients go."""

import dataclasses
import math

import keras
import numpy as np
import pytest
import tensorflow as tf

from electra_tf.config.choices import OBJECTIVES
from electra_tf.generators.span_boundary import run_boundaries
from electra_tf.masking.base import TokenStatistics
from electra_tf.model.randomness import Randomness
from electra_tf.model_builder import build_model, model_class
from electra_tf.objectives.adversarial import policy_losses
from electra_tf.objectives.all_tokens_mlm import copy_loss
from electra_tf.pretraining_model import PretrainingModel
from electra_tf.pretraining_optimizer import create_optimizer
from electra_tf.util.console import warn_once
from electra_tf.util.errors import UserError
from tests.electra_tf.test_pretraining_model import SPECIAL, features, gradients, is_zero

pytestmark = pytest.mark.usefixtures("unfused")

FACTS = TokenStatistics(np.zeros(40, bool), np.arange(40, dtype=np.int64))
WITHOUT_DROPOUT = Randomness(0, 0, dropout=False)
TINY_SHAPE = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 1,
    "intermediate_size": 64,
    "max_position_embeddings": 16,
}
NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
TWO_STAGE = {
    "objective": "two_stage",
    "embedding_sharing": "none",
    "embedding_size": 16,
    "generator_hidden_size": 1.0,
    # The generator has the heads and intermediate size of its width.
    "model_hparam_overrides": TINY_SHAPE,
}


@pytest.fixture
def make_model(make_config):
    def make(**overrides) -> PretrainingModel:
        keras.utils.set_random_seed(0)
        return build_model(make_config(**overrides), SPECIAL, FACTS)

    return make


def options(objective: str) -> dict:
    return TWO_STAGE if objective == "two_stage" else {"objective": objective}


def log_softmax(logits) -> np.ndarray:
    logits = np.asarray(logits, np.float64)
    logits = logits - logits.max(axis=-1, keepdims=True)
    return logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))


def at(log_probs: np.ndarray, ids) -> np.ndarray:
    return np.take_along_axis(log_probs, np.asarray(ids)[..., None], axis=-1)[..., 0]


def binary_cross_entropy(logits, labels) -> np.ndarray:
    logits, labels = np.asarray(logits, np.float64), np.asarray(labels)
    return np.log1p(np.exp(-np.where(labels > 0, logits, -logits)))


def mean(values, weights) -> float:
    return float(np.sum(np.asarray(values) * weights) / np.sum(weights))


def original_ids(inputs) -> np.ndarray:
    ids = inputs.input_ids.numpy().copy()
    for row, positions in enumerate(inputs.masked_lm_positions.numpy()):
        for slot, position in enumerate(positions):
            if inputs.masked_lm_weights[row, slot] > 0:
                ids[row, position] = inputs.masked_lm_ids[row, slot]
    return ids


def masked_mask(inputs) -> np.ndarray:
    mask = np.zeros(inputs.input_ids.shape)
    for row, positions in enumerate(inputs.masked_lm_positions.numpy()):
        for slot, position in enumerate(positions):
            mask[row, position] += inputs.masked_lm_weights[row, slot]
    return mask


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


def test_electra_15_learns_from_the_masked_tokens_alone(make_model):
    model = make_model(objective="electra_15")
    output = model(features(), randomness=WITHOUT_DROPOUT)
    labels = output.fake_data.is_fake_tokens
    losses = binary_cross_entropy(output.discriminator.logits, labels)
    expected = mean(losses, masked_mask(output.inputs))
    assert float(output.losses["disc"]) == pytest.approx(expected, rel=1e-5)


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


@pytest.mark.parametrize("temperature", [1.0, 1.5])
def test_electric_is_noise_contrastive_estimation_with_the_towers_probabilities(
    make_model, temperature
):
    model = make_model(objective="electric", mask_prob=0.2, temperature=temperature)
    output = model(features(), randomness=WITHOUT_DROPOUT)
    inputs, fake = output.inputs, output.fake_data
    originals = original_ids(inputs)
    towers = model.two_tower(
        tf.constant(originals),
        inputs.input_mask,
        inputs.segment_ids,
        randomness=WITHOUT_DROPOUT,
    )
    log_q = log_softmax(towers.logits)
    corrupted = fake.inputs.input_ids
    sequence = model.electra(corrupted, inputs.input_mask, inputs.segment_ids).sequence_output
    energy = model.discriminator_predictions(sequence).numpy()
    noise = log_softmax(towers.logits / temperature)
    logits = energy + at(noise, corrupted) + math.log(0.2 / 0.8)
    labels = masked_mask(inputs)
    losses = binary_cross_entropy(logits, labels)
    expected = mean(losses, inputs.input_mask.numpy())
    assert float(output.losses["disc"]) == pytest.approx(expected, rel=1e-4)
    candidates = inputs.input_mask.numpy() * ~np.isin(originals, SPECIAL)
    expected = mean(-at(log_q, originals), candidates)
    assert float(output.losses["gen"]) == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize(
    ("step", "dropout", "rate"), [(0, True, 0.15), (50, True, 0.3), (50, False, 0.15)]
)
def test_electrics_noise_odds_are_those_of_the_step(make_model, step, dropout, rate):
    """Evaluation, without dropout, masks as many tokens as the first step."""
    model = make_model(
        objective="electric",
        mask_prob=0.15,
        mask_prob_end=0.45,
        num_train_steps=100,
        model_hparam_overrides={**TINY_SHAPE, **NO_DROPOUT},
    )
    output = model(features(), randomness=Randomness(0, step, dropout=dropout))
    corrupted = output.fake_data.inputs
    energy = model.discriminator_predictions(
        model.electra(corrupted.input_ids, corrupted.input_mask, corrupted.segment_ids)[1]
    )
    log_q = at(log_softmax(output.masked_lm.cloze.logits), corrupted.input_ids)
    np.testing.assert_allclose(
        output.discriminator.logits, energy + log_q + math.log(rate / (1 - rate)), atol=1e-4
    )


@pytest.mark.parametrize(
    ("masking", "warns"), [("token", False), ("strategic", True), ("learned", True)]
)
def test_noise_that_favors_some_tokens_is_warned_of(make_config, masking, warns, capsys):
    warn_once.cache_clear()
    config = make_config(objective="electric", masking=masking)
    model_class(config).warn_of_unused(config)
    assert (f"--masking={masking} draws noise more often" in capsys.readouterr().err) == warns


def test_a_tower_sees_nothing_of_the_token_it_predicts(make_model):
    model = make_model(generator_type="two_tower")
    given = features()
    changed = {**given, "input_ids": given["input_ids"].numpy().copy()}
    changed["input_ids"][1, 7] = 39

    def logits(x: dict) -> np.ndarray:
        names = ("input_ids", "input_mask", "segment_ids")
        tensors = (tf.constant(np.asarray(x[name])) for name in names)
        return model.two_tower(*tensors, randomness=WITHOUT_DROPOUT).logits.numpy()

    difference = np.abs(logits(given) - logits(changed)).max(axis=-1)
    assert difference[1, 7] == 0
    assert np.all(difference[1, [1, 6, 8, 14]] > 0)
    assert np.all(difference[[0, 2]] == 0)


def test_adversarial_policy_gradient_is_reinforce():
    logits = tf.Variable([[[0.5, -1.0, 0.3]]])
    samples = tf.constant([[2]])
    rewards, baseline = tf.constant([[1.3]]), tf.Variable([[0.4]])
    with tf.GradientTape(persistent=True) as tape:
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(samples, logits)
        policy, baseline_loss = policy_losses(rewards, baseline, losses)
    softmax = np.exp(log_softmax(logits))
    b = -math.log(1 / (1 + math.exp(-0.4)))
    # d/dlogits of -(R - b) log p(sample)
    expected = (1.3 - b) * (softmax - np.eye(3)[2])
    np.testing.assert_allclose(tape.gradient(policy, logits), expected, rtol=1e-5)
    assert tape.gradient(policy, baseline) is None
    assert tape.gradient(baseline_loss, logits) is None
    np.testing.assert_allclose(
        tape.gradient(baseline_loss, baseline),
        [[1 / (1 + math.exp(-0.4)) - math.exp(-1.3)]],
        rtol=1e-5,
    )


def test_adversarial_rewards_are_the_discriminators_losses_on_samples(make_model):
    model = make_model(objective="adversarial", embedding_sharing="none")
    output = model(features(), randomness=WITHOUT_DROPOUT)
    losses = binary_cross_entropy(output.discriminator.logits, output.fake_data.is_fake_tokens)
    total, count = output.extra["reward"].numpy()
    assert total / count == pytest.approx(mean(losses, masked_mask(output.inputs)), rel=1e-4)
    assert set(output.terms) == {"policy", "baseline", "disc"}
    of_policy = gradients(model, "policy")
    for path, gradient in of_policy.items():
        trained = path.startswith(("generator/", "generator_predictions"))
        assert is_zero(gradient) != trained, path
    of_baseline = gradients(model, "baseline")
    for path, gradient in of_baseline.items():
        assert is_zero(gradient) != path.startswith("generator_baseline"), path


def test_adversarial_policy_is_what_replacements_are_drawn_from(make_model):
    model = make_model(
        objective="adversarial",
        embedding_sharing="none",
        temperature=2.0,
        disallow_correct=True,
    )
    output = model(features(), randomness=WITHOUT_DROPOUT)
    inputs, samples = output.inputs, output.fake_data.sampled_token_ids.numpy()
    logits = output.masked_lm.logits.numpy() / 2
    np.put_along_axis(logits, inputs.masked_lm_ids.numpy()[..., None], -np.inf, axis=-1)
    states = output.masked_lm.states.numpy()
    positions = inputs.masked_lm_positions.numpy()
    losses = binary_cross_entropy(output.discriminator.logits, output.fake_data.is_fake_tokens)
    rewards = np.take_along_axis(losses, positions, axis=1)
    baseline = binary_cross_entropy(model.generator_baseline(states)[..., 0], [[1]])
    policy = -(rewards - baseline) * at(log_softmax(logits), samples)
    expected = mean(policy, inputs.masked_lm_weights.numpy())
    assert float(output.losses["policy"]) == pytest.approx(expected, rel=1e-3)


def test_sentences_are_left_unchanged_and_told_apart(make_model):
    model = make_model(
        objective="sentence_contrastive",
        objective_hparams={"unchanged_share": 0.5, "sentence_weight": 3.0},
    )
    given = {name: tf.tile(x, [20, 1]) for name, x in features().items()}
    output = model(given, randomness=WITHOUT_DROPOUT)
    changed = np.any(
        output.fake_data.inputs.input_ids.numpy() != given["input_ids"].numpy(), axis=1
    )
    assert 0.3 < np.mean(changed) < 0.7
    np.testing.assert_array_equal(
        changed, output.fake_data.is_fake_tokens.numpy().max(axis=1) > 0
    )
    sequence = model.encode(output.fake_data.inputs, WITHOUT_DROPOUT)
    logits = model.sentence_predictions(sequence[:, 0]).numpy()[:, 0]
    expected = np.mean(binary_cross_entropy(logits, changed))
    assert float(output.losses["sentence"]) == pytest.approx(expected, rel=1e-4)
    weights = {name: term.coefficient for name, term in output.terms.items()}
    assert weights["sentence"] == 3.0


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


def test_the_boundaries_of_a_run_are_the_unmasked_tokens_next_to_it(make_model):
    model = make_model(span_boundary_weight=1.0, max_predictions_per_seq=5)
    positions = tf.constant([[4, 5, 6, 0, 0], [1, 3, 4, 14, 0], [2, 0, 0, 0, 0]])
    inputs = model.prepare(features(), randomness=WITHOUT_DROPOUT)._replace(
        masked_lm_positions=positions,
        masked_lm_weights=tf.cast(positions > 0, tf.float32),
    )
    left, right = run_boundaries(inputs)
    np.testing.assert_array_equal(left[0, :3], [3, 3, 3])
    np.testing.assert_array_equal(right[0, :3], [7, 7, 7])
    np.testing.assert_array_equal(left[1, :4], [0, 2, 2, 13])
    np.testing.assert_array_equal(right[1, :4], [2, 5, 5, 15])


def test_the_span_boundary_objective_predicts_from_both_ends_of_a_run(make_model):
    """y = f(x_{s-1}, x_{e+1}, p_{i-s+1}), in NumPy, with weights far from symmetric ones."""
    model = make_model(
        span_boundary_weight=0.5,
        masking="span",
        mask_prob=0.4,
        max_predictions_per_seq=8,
        embedding_sharing="none",
    )
    head = model.generator_span_boundary
    generator = np.random.default_rng(0)
    # At these scales, every input of the head and every token makes a difference.
    for variable in head.trainable_variables:
        variable.assign(generator.normal(0, 0.5, variable.shape))
    head.place_embeddings.assign(generator.normal(0, 0.1, head.place_embeddings.shape))
    words = model.generator.trainable_variables[0]
    assert words.path.endswith("word_embeddings")
    words.assign(generator.normal(0, 1, words.shape))
    output = model(features(), randomness=WITHOUT_DROPOUT)
    inputs = output.inputs
    sequence = model.generator(
        inputs.input_ids, inputs.input_mask, inputs.segment_ids
    ).sequence_output.numpy()
    masked = masked_mask(inputs) > 0

    def boundary_logits(row: int, position: int) -> np.ndarray:
        start = end = position
        while masked[row, start]:
            start -= 1
        while masked[row, end]:
            end += 1
        place = head.place_embeddings.numpy()[position - start - 1]
        x = np.concatenate([sequence[row, start], sequence[row, end], place])
        for dense, norm in ((head.dense, head.norm), (head.dense_1, head.norm_1)):
            x = x @ dense.kernel.numpy() + dense.bias.numpy()
            x = x * (1 + np.vectorize(math.erf)(x / math.sqrt(2))) / 2
            x = (x - x.mean()) / np.sqrt(x.var() + model.generator.config.layer_norm_epsilon)
            x = x * norm.gamma.numpy() + norm.beta.numpy()
        table = model.generator.embeddings.word_embeddings.numpy()
        return table @ x + head.output_bias.numpy()

    ids = original_ids(inputs)
    places = np.argwhere(masked)
    losses = [-log_softmax(boundary_logits(*place))[ids[tuple(place)]] for place in places]
    assert len(losses) > 8
    assert any(masked[row, position + 1] for row, position in places)  # a run of several
    assert float(output.losses["span_boundary"]) == pytest.approx(np.mean(losses), rel=1e-4)
    term = output.terms["span_boundary"]
    assert (term.coefficient, float(term.weight)) == (0.5, len(losses))
    of_boundary = gradients(model, "span_boundary")
    assert not is_zero(of_boundary["generator_span_boundary/place_embeddings"])
    assert is_zero(of_boundary["generator_predictions/dense/kernel"])


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


def test_adversarial_training_may_keep_some_of_the_likelihood(make_model):
    weights = {"masked_lm_weight": 0.25, "baseline_weight": 2.0}
    model = make_model(objective="adversarial", objective_hparams=weights, gen_weight=3.0)
    type(model).check(model.config)  # as before there is a model
    output = model(features(), randomness=WITHOUT_DROPOUT)
    coefficients = {name: term.coefficient for name, term in output.terms.items()}
    assert coefficients == {"policy": 3.0, "baseline": 2.0, "disc": 50.0, "gen": 0.25}
    assert set(model.term_weights(output.inputs)) == set(coefficients)
    assert float(output.terms["gen"].loss) == float(output.masked_lm.loss)


def test_electrics_noise_odds_are_computed_in_the_graph_of_a_step(make_model):
    model = make_model(
        objective="electric", mask_prob=0.15, mask_prob_end=0.45, num_train_steps=100
    )
    type(model).check(model.config)  # as before there is a model

    @tf.function
    def log_odds(step: tf.Tensor) -> tf.Tensor:
        return model._log_noise_odds(Randomness(0, step))

    for step, rate in ((0, 0.15), (50, 0.3)):
        expected = math.log(rate / (1 - rate))
        assert float(log_odds(tf.constant(step))) == pytest.approx(expected, rel=1e-5)
