"""AUC within a token id, against scikit-learn's for each id."""

import math

import numpy as np
import pytest
import tensorflow as tf
from sklearn.metrics import roc_auc_score

from electra_tf.model.token_scores import (
    MAX_TOKENS,
    TokenScores,
    WithinTokenAUC,
    score_keys,
    shown_sentences,
)

SHAPE = (30, 40)


def random_scores(**changes: np.ndarray) -> TokenScores:
    """Returns scores with ties, negative zeros and positions that do not count."""
    generator = np.random.default_rng(3)
    labels = (generator.random(SHAPE) < 0.2).astype(np.int32)
    logits = np.round(generator.normal(size=SHAPE) * 2 + labels, 1).astype(np.float32)
    assert (np.signbit(logits) & (logits == 0)).any()
    arrays = {
        "ids": generator.zipf(1.3, SHAPE).clip(max=30_521).astype(np.int32),
        "originals": np.zeros(SHAPE, np.int32),
        "logits": logits,
        "labels": labels,
        "weights": (generator.random(SHAPE) < 0.9).astype(np.float32),
        "input_mask": np.ones(SHAPE, np.int32),
        **changes,
    }
    return TokenScores(**{name: tf.constant(array) for name, array in arrays.items()})


def auc_of(scores: TokenScores, **options: int) -> float:
    collected = WithinTokenAUC(**options)
    for keys in np.split(score_keys(scores).numpy(), 4):
        collected.add(keys)
    return collected.result()


def expected_auc(scores: TokenScores) -> float:
    counted = scores.weights.numpy() > 0
    ids, logits, labels = (
        array.numpy()[counted] for array in (scores.ids, scores.logits, scores.labels)
    )
    aucs, pairs = [], []
    for each in np.unique(ids):
        of_id = labels[ids == each]
        if 0 < of_id.sum() < len(of_id):
            aucs.append(roc_auc_score(of_id, logits[ids == each]))
            pairs.append(of_id.sum() * (len(of_id) - of_id.sum()))
    assert len(aucs) > 10
    return float(np.average(aucs, weights=pairs))


def test_it_is_the_mean_of_the_auc_of_each_id_weighted_by_pairs():
    scores = random_scores()
    assert auc_of(scores) == pytest.approx(expected_auc(scores), abs=1e-12)


def test_scores_of_token_frequencies_alone_are_at_chance():
    ids = random_scores().ids.numpy()
    assert auc_of(random_scores(logits=(1.0 / ids).astype(np.float32))) == 0.5
    extreme = np.where(random_scores().labels.numpy(), 3e38, -3e38).astype(np.float32)
    assert auc_of(random_scores(logits=extreme)) == 1.0
    assert auc_of(random_scores(logits=-extreme)) == 0.0


def test_an_id_that_is_never_replaced_or_never_original_has_no_pairs():
    each_once = np.arange(np.prod(SHAPE), dtype=np.int32).reshape(SHAPE)
    assert math.isnan(auc_of(random_scores(ids=each_once)))
    assert math.isnan(auc_of(random_scores(weights=np.zeros(SHAPE, np.float32))))


def test_tokens_beyond_the_limit_are_left_out():
    scores = random_scores()
    weights = scores.weights.numpy().ravel()
    first = np.cumsum(weights) <= 500
    shortened = random_scores(weights=(weights * first).reshape(SHAPE))
    assert auc_of(scores, max_tokens=500) == auc_of(shortened)
    assert auc_of(scores, max_tokens=500) != auc_of(scores)


def test_tokens_that_are_left_out_are_told(capsys):
    keys = np.arange(10)
    for max_tokens, said in ((10, ""), (8, "first 8 tokens of the evaluation, not")):
        collected = WithinTokenAUC(max_tokens)
        collected.add(keys[:6])
        collected.add(np.append(keys[6:], -1))
        collected.result()
        printed = capsys.readouterr().err
        assert said in printed
        assert bool(printed) == bool(said)
    assert "the other 2, unlike" in printed


def test_the_limit_is_a_number_of_tokens():
    # Of one id; the third one, replaced and of the lowest score, would halve the area.
    row = {"ids": [[5, 5, 5]], "originals": [[5, 5, 5]], "labels": [[0, 1, 1]]}
    row |= {"logits": [[0.0, 1.0, -1.0]], "weights": [[1.0] * 3], "input_mask": [[1] * 3]}
    scores = TokenScores(**{name: tf.constant(value) for name, value in row.items()})
    for max_tokens, area in ((2, 1.0), (3, 0.5)):
        collected = WithinTokenAUC(max_tokens)
        collected.add(score_keys(scores).numpy().ravel())
        assert collected.result() == area


def test_the_limit_holds_100_batches_in_64_mb():
    assert MAX_TOKENS >= 100 * 128 * 512
    assert MAX_TOKENS * score_keys(random_scores()).dtype.size == 64 << 20


def test_keys_sort_by_id_then_logit_then_label():
    values = np.array([-3e38, -1.5, -1e-37, 1e-37, 1.5, 3e38], np.float32)
    # With the nearest numbers to each, which differ in the lowest bit.
    nearest = [np.nextafter(values, limit, dtype=np.float32) for limit in (-np.inf, np.inf)]
    logits = np.sort(np.concatenate([values, np.float32([0.0]), *nearest]))
    rows = [(i, x, label) for i in (0, 1, 30_521) for x in logits for label in (0, 1)]
    ids, scores, labels = (np.array(column)[None] for column in zip(*rows, strict=True))
    keys = score_keys(
        TokenScores(
            ids=tf.constant(ids, tf.int32),
            originals=tf.constant(ids, tf.int32),
            logits=tf.constant(scores, tf.float32),
            labels=tf.constant(labels, tf.int32),
            weights=tf.ones(ids.shape),
            input_mask=tf.ones(ids.shape, tf.int32),
        )
    )
    assert (np.diff(keys) > 0).all()
    assert keys.numpy().min() >= 0


def test_shown_sentences_are_the_first_rows():
    scores = random_scores()
    shown = shown_sentences(scores, 2)
    np.testing.assert_array_equal(shown.ids, scores.ids[:2])
    np.testing.assert_allclose(
        shown.probabilities, 1 / (1 + np.exp(-scores.logits.numpy()[:2])), rtol=1e-6
    )
