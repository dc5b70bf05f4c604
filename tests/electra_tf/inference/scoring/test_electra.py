"""ELECTRA as a masked language model, against its formula and a pass for each candidate."""

import keras
import numpy as np
import pytest

from electra_tf.inference.scoring import electra
from electra_tf.inference.scoring.electra import text_log_probs
from electra_tf.inference.scoring.pseudo_likelihood import create_scorer
from electra_tf.model_builder import build_model
from electra_tf.pretraining_model import PretrainingModel
from electra_tf.util.console import warn_once
from electra_tf.util.errors import UserError
from tests.electra_tf.inference.scoring.test_pseudo_likelihood import TEXTS, inputs_of
from tests.electra_tf.objectives.numpy_losses import log_softmax
from tests.electra_tf.test_pretraining_model import SPECIAL

NUM_CANDIDATES = 5


@pytest.fixture
def make_model(make_config):
    """Makes models whose discriminator tells tokens apart."""

    def make(**overrides) -> PretrainingModel:
        keras.utils.set_random_seed(0)
        model = build_model(make_config(**overrides), SPECIAL)
        for layer in (model.electra, model.generator, model.discriminator_predictions):
            for variable in layer.trainable_variables:
                variable.assign(variable * 5 if len(variable.shape) == 2 else variable)
        return model

    return make


@pytest.mark.parametrize("unmasked_per_masked", [0.0, 1.0, 17 / 3])
def test_the_best_discriminator_gives_the_probabilities_of_text(unmasked_per_masked):
    """Of which it is the share of real ones among the tokens that it sees."""
    generator = np.random.default_rng(0)
    text, samples = generator.dirichlet([0.5] * 8, 2)
    real = text * (unmasked_per_masked + samples)
    replaced = samples * (1 - text)
    found = text_log_probs(np.log(replaced / real), np.log(samples), unmasked_per_masked)
    np.testing.assert_allclose(np.exp(found), text, rtol=1e-9)


@pytest.mark.parametrize(("logit", "expected"), [(-800, 0.0), (800, -800 - np.log(4))])
def test_a_discriminator_that_has_no_doubt(logit, expected):
    found = text_log_probs(np.array([logit]), np.log([0.01]), 0.03)
    assert found[0] == pytest.approx(expected, abs=1e-9)


def masked_log_probs(model: PretrainingModel, ids: list[int], t: int, temperature: float):
    masked = [*ids[:t], SPECIAL.mask, *ids[t + 1 :]]
    sequence = model.generator(*inputs_of(masked)).sequence_output
    table = model.generator.embeddings.word_embeddings
    return log_softmax(model.generator_predictions(sequence, table) / temperature)[0, t]


def replaced_logits(model: PretrainingModel, ids: list[int]) -> np.ndarray:
    sequence = model.electra(*inputs_of(ids)).sequence_output
    return model.discriminator_predictions(sequence)[0].numpy().astype(np.float64)


@pytest.mark.parametrize(
    ("overrides", "temperature", "ratio"),
    [
        ({}, 1.0, 0.85 / 0.15),
        ({"temperature": 1.5, "temperature_end": 2.0, "mask_prob_end": 0.25}, 2.0, 3.0),
        ({"objective": "electra_15", "temperature": 0.5}, 0.5, 0.0),
    ],
)
def test_scores_and_predictions(make_model, overrides, temperature, ratio, monkeypatch):
    model = make_model(**overrides)
    monkeypatch.setattr(electra, "_COPIES_AT_ONCE", 7)
    scorer = create_scorer(model, "electra", 3, num_candidates=NUM_CANDIDATES)
    differ = 0
    for ids, score in zip(TEXTS, scorer.score(TEXTS), strict=True):
        positions = range(1, len(ids) - 1)
        assert all(len(each) == len(positions) for each in score.predictions.values())
        for t in positions:
            samples = masked_log_probs(model, ids, t, temperature)
            expected = text_log_probs(replaced_logits(model, ids)[t], samples[ids[t]], ratio)
            assert score.log_probs[t - 1] == pytest.approx(expected, rel=1e-3, abs=1e-4)
            candidates = np.argsort(-samples)[:NUM_CANDIDATES]
            values = [
                text_log_probs(
                    replaced_logits(model, [*ids[:t], c, *ids[t + 1 :]])[t], samples[c], ratio
                )
                for c in candidates.tolist()
            ]
            predicted = candidates[np.argmax(values)]
            assert score.predictions["electra"][t - 1] == predicted
            assert score.predictions["generator"][t - 1] == candidates[0]
            differ += predicted != candidates[0]
    assert differ  # the discriminator has a say


def test_cores_that_share_a_batch_compute_the_same(make_model):
    model = make_model(precision="mixed_bfloat16")
    alone, shared = (
        create_scorer(model, "electra", 4, cores, num_candidates=2).score(TEXTS)
        for cores in (1, 2)
    )
    for expected, score in zip(alone, shared, strict=True):
        np.testing.assert_allclose(score.log_probs, expected.log_probs, rtol=1e-3)
        for name, predicted in expected.predictions.items():
            np.testing.assert_array_equal(score.predictions[name], predicted)


def test_a_masked_language_model_predicts_its_most_likely_token(make_config):
    keras.utils.set_random_seed(0)
    model = build_model(make_config(objective="mlm"), SPECIAL)
    scorer = create_scorer(model, "auto", 3, num_candidates=100)
    plain = create_scorer(model, "auto", 3)
    for ids, score, same in zip(TEXTS, scorer.score(TEXTS), plain.score(TEXTS), strict=True):
        np.testing.assert_allclose(score.log_probs, same.log_probs, rtol=1e-5)
        expected = [
            np.argmax(masked_log_probs(model, ids, t, 1.0)) for t in range(1, len(ids) - 1)
        ]
        assert score.predictions["mlm"].tolist() == expected
        assert not same.predictions


@pytest.mark.parametrize(
    ("overrides", "method", "message"),
    [
        ({"disallow_correct": True}, "electra", "trained with --disallow_correct"),
        ({"replacement": "argmax"}, "electra", "trained with --replacement=argmax"),
        ({"objective": "mlm"}, "electra", "--method=electra is unavailable.*choose mlm"),
        ({"objective": "electric"}, "electra", "--method=electra is unavailable"),
        ({"objective": "electric"}, "electric", "--predict_tokens needs --method=mlm or elect"),
    ],
)
def test_models_without_such_probabilities_are_refused(make_config, overrides, method, message):
    model = build_model(make_config(**overrides), SPECIAL)
    with pytest.raises(UserError, match=message):
        create_scorer(model, method, 3, num_candidates=1)


def test_tokens_that_are_masked_at_other_rates_are_warned_of(make_model, capsys):
    warn_once.cache_clear()
    create_scorer(make_model(), "electra", 3)
    assert not capsys.readouterr().err
    for masking in ("learned", "span"):
        create_scorer(make_model(masking=masking), "electra", 3)
        told = f"with --masking={masking}: its probabilities are biased"
        assert told in capsys.readouterr().err
    create_scorer(make_model(masking_with_replacement=True), "electra", 3)
    assert "--masking_with_replacement, which masks fewer tokens: " in capsys.readouterr().err
    create_scorer(make_model(max_predictions_per_seq=1, mask_prob=0.5), "electra", 3)
    assert "--max_predictions_per_seq=1: its probab" in capsys.readouterr().err
    create_scorer(make_model(disc_weight=0.0), "electra", 3)
    assert "does not train the discriminator, so its scores" in capsys.readouterr().err
    # Whose discriminator learns from the masked tokens alone.
    create_scorer(make_model(objective="electra_15", max_predictions_per_seq=1), "electra", 3)
    assert not capsys.readouterr().err
