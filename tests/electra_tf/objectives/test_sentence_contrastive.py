"""The sentence objective: which rows stay as they are, and the loss of telling them apart."""

import dataclasses
import math

import keras
import numpy as np
import pytest
import tensorflow as tf

from electra_tf.config.hyperparameters import parse_hparams
from electra_tf.model.randomness import Randomness
from electra_tf.model_builder import build_model
from electra_tf.objectives.sentence_contrastive import (
    SentenceContrastive,
    SentenceContrastiveHparams,
)
from electra_tf.pretraining_model import PretrainingModel
from electra_tf.util.errors import UserError
from tests.electra_tf.objectives.numpy_losses import (
    WITHOUT_DROPOUT,
    binary_cross_entropy,
    original_ids,
)
from tests.electra_tf.test_pretraining_model import SPECIAL, features

pytestmark = pytest.mark.usefixtures("unfused")


@pytest.fixture
def make_model(make_config):
    def make(**hparams) -> PretrainingModel:
        keras.utils.set_random_seed(0)
        config = make_config(
            objective="sentence_contrastive", objective_hparams=hparams, disc_weight=7.0
        )
        return build_model(config, SPECIAL)

    return make


def replaced(model: PretrainingModel, given: dict, **options):
    """Returns the output of a pass in which every masked token is replaced by token 30."""
    inputs = model.prepare(given, randomness=WITHOUT_DROPOUT)
    return model(
        given,
        randomness=dataclasses.replace(WITHOUT_DROPOUT, **options),
        masked_inputs=inputs,
        sampled_token_ids=tf.fill(tf.shape(inputs.masked_lm_ids), 30),
    )


def many_rows(rows: int) -> dict[str, tf.Tensor]:
    """Returns rows of which each has a masked token that is not token 30."""
    given = {name: tf.tile(x[1:2], [rows, 1]) for name, x in features().items()}
    ids = given["input_ids"].numpy()
    ids[ids == 30] = 31
    return {**given, "input_ids": tf.constant(ids)}


def test_a_fifth_of_the_rows_is_left_unchanged(make_model):
    given = many_rows(400)
    output = replaced(make_model(), given)
    fake = output.fake_data
    changed = fake.inputs.input_ids.numpy() != given["input_ids"].numpy()
    np.testing.assert_array_equal(fake.is_fake_tokens, changed)
    unchanged = ~changed.any(axis=1)
    assert 0.14 < unchanged.mean() < 0.26
    np.testing.assert_array_equal(
        fake.inputs.input_ids.numpy()[unchanged], original_ids(output.inputs)[unchanged]
    )


def test_shares_of_none_and_all(make_model):
    model, given = make_model(), many_rows(40)
    for share, expected in ((0.0, 1.0), (1.0, 0.0)):
        model.hparams = SentenceContrastiveHparams(unchanged_share=share)
        total, count = replaced(model, given).extra["corrupted_sentences"].numpy()
        assert (total / count, count) == (expected, 40)


def test_draws_follow_the_example_not_the_replica(make_model):
    model, given = make_model(unchanged_share=0.5), many_rows(8)
    whole = replaced(model, given).fake_data.is_fake_tokens.numpy().any(axis=1)
    half = {name: x[4:] for name, x in given.items()}
    second = replaced(model, half, first_example=4).fake_data.is_fake_tokens.numpy()
    np.testing.assert_array_equal(second.any(axis=1), whole[4:])
    assert len({*whole}) == 2
    next_step = replaced(model, given, step=1).fake_data.is_fake_tokens.numpy().any(axis=1)
    assert np.any(next_step != whole)


def test_the_loss_is_the_mean_cross_entropy_of_real_rows(make_model, monkeypatch):
    model = make_model(unchanged_share=0.0, sentence_weight=3.0)
    given = many_rows(4)
    mask = given["input_mask"].numpy()
    mask[3] = 0  # a row of padding, as in the last batch of an evaluation
    given = {
        "input_ids": given["input_ids"] * mask,
        "input_mask": tf.constant(mask),
        "segment_ids": given["segment_ids"],
    }
    # Probabilities of a corrupted row: 3/5, 1/2 and 2/5; the row of padding does not count.
    likely = math.log(1.5)
    logits = tf.constant([[likely], [0.0], [-likely], [50.0]])
    monkeypatch.setattr(model.sentence_predictions, "call", lambda x: logits)
    inputs = model.prepare(given, randomness=WITHOUT_DROPOUT)
    # The second row's samples are the original tokens: it is not corrupted.
    samples = np.full(inputs.masked_lm_ids.shape, 30, np.int32)
    samples[1] = inputs.masked_lm_ids[1]
    output = model(
        given, randomness=WITHOUT_DROPOUT, masked_inputs=inputs, sampled_token_ids=samples
    )
    term = output.terms["sentence"]
    # -ln 3/5, -ln 1/2, -ln 2/5
    expected = [0.510826, 0.693147, 0.916291]
    assert float(term.loss) == pytest.approx(sum(expected) / 3, rel=1e-5)
    assert (term.coefficient, float(term.weight)) == (3.0, 3.0)
    sums = {name: value.numpy().tolist() for name, value in output.extra.items()}
    # A logit of 0 says "unchanged", which is right for the second; the third is wrong.
    assert sums["sentence_accuracy"] == [2.0, 3.0]
    assert sums["corrupted_sentences"] == [2.0, 3.0]
    disc = output.terms["disc"]
    assert (disc.coefficient, float(disc.weight)) == (7.0, 3 * 16.0)
    weights = {name: float(value) for name, value in model.term_weights(inputs).items()}
    masked = float(tf.reduce_sum(inputs.masked_lm_weights))
    assert weights == {"gen": masked, "disc": 48.0, "sentence": 3.0}
    names = set(model.metric_sums(output))
    assert {"sentence_accuracy", "corrupted_sentences", "disc_accuracy"} <= names


def test_a_batch_of_padding_has_no_loss(make_model):
    model, given = make_model(), many_rows(2)
    padding = {name: tf.zeros_like(x) for name, x in given.items()}
    output = model(padding, randomness=WITHOUT_DROPOUT)
    assert float(output.terms["sentence"].loss) == 0.0


def test_the_head_reads_the_first_token_only(make_model, monkeypatch):
    model = make_model()
    seen = []
    monkeypatch.setattr(
        model.sentence_predictions, "call", lambda x: seen.append(x) or tf.zeros([len(x), 1])
    )
    output = model(many_rows(2), randomness=Randomness(0, 0, dropout=False))
    sequence = model.encode(output.fake_data.inputs, WITHOUT_DROPOUT)
    np.testing.assert_allclose(seen[0], sequence[:, 0], atol=1e-6)
    assert model.sentence_predictions.kernel.shape == (16, 1)


def test_hyperparameters_are_bounded_and_cannot_be_changed(make_model):
    hparams = SentenceContrastiveHparams()
    assert (hparams.unchanged_share, hparams.sentence_weight) == (0.2, 1.0)
    with pytest.raises(dataclasses.FrozenInstanceError):
        hparams.sentence_weight = 2.0
    for given, message in (
        ({"unchanged_share": -0.01}, "unchanged_share .* from 0 to 1, not -0.01"),
        ({"unchanged_share": 1.01}, "unchanged_share .* from 0 to 1, not 1.01"),
        ({"sentence_weight": -0.01}, "sentence_weight .* at least 0, not -0.01"),
    ):
        with pytest.raises(UserError, match=message):
            make_model(**given)
    for given in ({"sentence_weight": 0.0}, {"unchanged_share": 0.0}, {"unchanged_share": 1.0}):
        parse_hparams(SentenceContrastiveHparams, given, "--objective_hparams")


def test_sentences_are_left_unchanged_and_told_apart(make_model):
    model = make_model(unchanged_share=0.5, sentence_weight=3.0)
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


@pytest.mark.parametrize(("share", "ratio"), [(0.0, 17 / 3), (0.2, 22 / 3), (1.0, None)])
def test_tokens_of_unchanged_inputs_count_as_unmasked(make_config, share, ratio):
    """Of a token, 15 % are masked in the inputs that are changed, so 12 % of all."""
    hparams = {"unchanged_share": share}
    config = make_config(objective="sentence_contrastive", objective_hparams=hparams)
    assert SentenceContrastive.unmasked_per_masked(config) == (ratio and pytest.approx(ratio))
