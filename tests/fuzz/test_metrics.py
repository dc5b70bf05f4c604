"""Metrics and scorers against float64 of NumPy and SciPy, where they are undefined too."""

import math

import numpy as np
import pytest
import scipy.special
import scipy.stats
import tensorflow as tf
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from electra_tf.model import metrics
from finetune.results.calibration import calibrate, fit_temperature
from finetune.tasks.qa.squad_metrics import squad_v1_metrics, squad_v2_metrics
from finetune.tasks.tagging.metrics import span_metrics, token_accuracy
from finetune.tasks.text.metrics import (
    classification_metrics,
    multilabel_metrics,
    regression_metrics,
)
from tests.fuzz.arrays import classes, logits_2d, values
from tests.fuzz.inputs import texts, tries

labels_of = st.integers(1, 40).flatmap(
    lambda n: st.tuples(
        st.lists(st.integers(0, 2), min_size=n, max_size=n),
        st.lists(st.integers(0, 2), min_size=n, max_size=n),
        st.integers(1, 3),
    )
)


@pytest.mark.filterwarnings("error")
@tries(100, given=labels_of)
def test_classification(given):
    gold, predicted, num_labels = given
    gold, predicted = (np.array(x) % num_labels for x in (gold, predicted))
    names = ("accuracy", "mcc", "f1", "macro_f1")
    found = classification_metrics(gold, predicted, max(2, num_labels), names)
    assert found["accuracy"] == pytest.approx(100 * np.mean(gold == predicted))
    counts = np.zeros((3, 3))
    np.add.at(counts, (gold, predicted), 1)
    true, rows, columns, n = np.trace(counts), counts.sum(1), counts.sum(0), len(gold)
    below = math.sqrt((n**2 - (rows**2).sum()) * (n**2 - (columns**2).sum()))
    mcc = (true * n - rows @ columns) / below if below else 0.0
    assert found["mcc"] == pytest.approx(100 * mcc, abs=1e-9)

    def f1(k):
        below = rows[k] + columns[k]
        return 2 * counts[k, k] / below if below else 0.0

    expected = f1(1) if num_labels <= 2 else np.mean([f1(k) for k in range(3)])
    assert found["f1"] == pytest.approx(100 * expected)


@pytest.mark.filterwarnings("error")
@tries(
    100,
    pairs=st.lists(
        st.tuples(st.sampled_from([0.0, 1.0, 2.5, -3.0]), st.floats(-1e6, 1e6, width=32)),
        min_size=1,
        max_size=12,
    ),
    constant=st.booleans(),
)
def test_correlations(pairs, constant):
    targets, predictions = (np.array(x) for x in zip(*pairs, strict=True))
    if constant:
        predictions = np.full_like(predictions, predictions[0])
    found = regression_metrics(targets, predictions)
    assert found["mse"] == pytest.approx(np.mean((targets - predictions) ** 2))
    for name, ranked in (("pearson", lambda x: x), ("spearman", scipy.stats.rankdata)):
        x, y = ranked(targets), ranked(predictions)
        if np.ptp(targets) == 0 or np.ptp(predictions) == 0:
            assert math.isnan(found[name])
            continue
        x, y = x - x.mean(), y - y.mean()
        below = math.sqrt((x @ x) * (y @ y))
        if below > 1e-9 and np.ptp(predictions) > 1e-6 * np.abs(predictions).max():
            assert found[name] == pytest.approx(100 * (x @ y) / below, abs=1e-3)


@pytest.mark.filterwarnings("error")
@tries(
    60,
    targets=arrays.arrays(np.int8, (4, 3), elements=st.integers(0, 1)),
    predicted=arrays.arrays(np.int8, (4, 3), elements=st.integers(0, 1)),
)
def test_labels_of_many(targets, predicted):
    found = multilabel_metrics(targets, predicted)
    both = (targets & predicted).sum(0)
    either = targets.sum(0) + predicted.sum(0)
    micro = 2 * both.sum() / either.sum() if either.sum() else 0.0
    macro = np.mean([2 * b / e if e else 0.0 for b, e in zip(both, either, strict=True)])
    assert found["micro_f1"] == pytest.approx(100 * micro)
    assert found["macro_f1"] == pytest.approx(100 * macro)


@tries(
    60,
    logits=arrays.arrays(np.float32, (2, 8), elements=values),
    labels=arrays.arrays(np.int32, (2, 8), elements=st.integers(0, 1)),
    mask=arrays.arrays(np.int32, (2, 8), elements=st.integers(0, 1)),
)
def test_area_under_the_curve(logits, labels, mask):
    sums = metrics.auc_sums(*map(tf.constant, (logits, labels * mask, mask)))
    found = metrics.finalize({name: value.numpy() for name, value in sums.items()})["disc_auc"]
    real = mask > 0
    positive, negative = logits[real & (labels > 0)], logits[real & (labels == 0)]
    if not positive.size or not negative.size:
        assert math.isnan(found)
        return
    positive, negative = (np.clip(x, -20, 20)[:, None] for x in (positive, negative))
    apart = np.abs(positive - negative.T)
    if ((apart == 0) | (apart > 0.05)).all():
        u = scipy.stats.mannwhitneyu(positive.ravel(), negative.ravel()).statistic
        assert found == pytest.approx(u / (positive.size * negative.size), abs=1e-6)


tags = st.sampled_from(["O", "B-a", "I-a", "E-a", "S-b", "I-b", "B-b"])
sentences = st.lists(st.lists(st.tuples(tags, tags), min_size=1, max_size=6), max_size=4)


@pytest.mark.filterwarnings("error")
@tries(100, given=sentences)
def test_spans(given):
    gold, predicted = ([[pair[i] for pair in sentence] for sentence in given] for i in (0, 1))
    found = span_metrics(gold, predicted)
    assert all(0 <= value <= 100 for value in found.values())
    same = span_metrics(gold, gold)
    has_spans = any(tag != "O" for sentence in gold for tag in sentence)
    assert same["f1"] == (100 if has_spans else 0)
    swapped = span_metrics(predicted, gold)
    assert (swapped["precision"], swapped["recall"]) == (found["recall"], found["precision"])
    if given:
        token_accuracy(gold, predicted)


@pytest.mark.filterwarnings("error")
@tries(
    60,
    gold=st.dictionaries(st.sampled_from("abc"), st.lists(texts, max_size=2), min_size=1),
    predicted=st.dictionaries(st.sampled_from("abcd"), texts),
    odds=st.lists(st.sampled_from([-1e9, 0.0, 0.0, 1e9]), min_size=3, max_size=3),
)
def test_questions(gold, predicted, odds):
    for found in (
        squad_v1_metrics(gold, predicted),
        squad_v2_metrics(
            gold,
            {name: predicted.get(name, "") for name in gold},
            dict(zip("abc", odds, strict=True)),
            0.0,
        ),
    ):
        assert all(math.isfinite(value) for value in found.values())
        assert all(0 <= found[name] <= 100 for name in ("exact_match", "f1") if name in found)


@pytest.mark.filterwarnings("error")
@tries(40, logits=logits_2d, labels=classes)
def test_calibration(logits, labels):
    temperature = fit_temperature(logits, labels)
    assert math.isnan(temperature) or temperature > 0
    calibrate(logits, labels, temperature, "dev")
