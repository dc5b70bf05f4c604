"""Losses, sampling, updates and schedules against float64 of NumPy and SciPy."""

import math

import keras
import numpy as np
import pytest
import scipy.special
import scipy.stats
import tensorflow as tf
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from electra_tf.generators.sampling import most_likely_tokens, sample_from_softmax
from electra_tf.model import randomness
from electra_tf.model.heads import get_softmax_output, softmax_cross_entropy
from electra_tf.training.clipping import clip_by_global_norm
from electra_tf.training.learning_rate import StagedSchedule, WarmupPolynomialDecay
from electra_tf.training.optimizer import adam_update, make_optimizer
from finetune.tasks.text.class_loss import ClassLoss
from tests.fuzz.arrays import CLASSES, ROWS, classes, logits_2d
from tests.fuzz.inputs import tries


def close(actual, expected, tolerance=2e-5):
    np.testing.assert_allclose(
        np.asarray(actual, np.float64), expected, rtol=tolerance, atol=tolerance
    )


@tries(
    100,
    logits=logits_2d,
    labels=classes,
    weights=arrays.arrays(np.float32, ROWS, elements=st.sampled_from([0.0, 1.0])),
)
def test_cross_entropy(logits, labels, weights):
    exact = -scipy.special.log_softmax(logits.astype(np.float64), axis=-1)
    exact = exact[np.arange(ROWS), labels]
    scale = max(1.0, np.abs(logits).max())
    close(
        softmax_cross_entropy(tf.constant(logits), tf.constant(labels)) / scale, exact / scale
    )
    output = get_softmax_output(*(tf.constant(x)[None] for x in (logits, labels, weights)))
    mean = (weights * exact).sum() / max(weights.sum(), 1e-6)
    close(output.loss / scale, mean / scale)  # 0 where all are ignored
    # Processors may take denormal numbers for 0.
    is_best = logits[np.arange(ROWS), output.preds.numpy()[0]] >= logits.max(-1) - 1e-30
    assert is_best.all()
    if 0 < np.abs(logits).max() < 200:
        smoothing, gamma = 0.1, 2.0
        loss = ClassLoss(smoothing, gamma)
        log_p = scipy.special.log_softmax(logits.astype(np.float64), axis=-1)
        smooth = (1 - smoothing) * exact - smoothing * log_p.mean(-1)
        others = -np.expm1(log_p[np.arange(ROWS), labels])
        with tf.GradientTape() as tape:
            x = tf.constant(logits)
            tape.watch(x)
            found = loss.losses(x, tf.constant(labels))
        close(found, others**gamma * smooth, 2e-3)
        assert np.isfinite(tape.gradient(found, x)).all()


@tries(
    60,
    logits=logits_2d,
    disallow=classes,
    temperature=st.sampled_from([1e-6, 1e-3, 0.5, 1.0, 10.0, 1e6]),
    seed=st.integers(0, 2**31),
)
def test_samples(logits, disallow, temperature, seed):
    if np.abs(logits).max() > 1e6:
        logits = np.sign(logits) * np.float32(100)
    given = tf.constant(logits[None])
    key = randomness.make_key(seed, 0, "sampling")
    for forbidden in (None, tf.constant(disallow[None])):
        sampled = sample_from_softmax(
            given, key, temperature=temperature, disallow=forbidden
        ).numpy()[0]
        best = most_likely_tokens(given, forbidden).numpy()[0]
        assert ((sampled >= 0) & (sampled < CLASSES)).all()
        allowed = logits.astype(np.float64)
        if forbidden is not None and np.abs(logits / temperature).max() < 1e8:
            assert (sampled != disallow).all()
            assert (best != disallow).all()
            allowed[np.arange(ROWS), disallow] = -np.inf
        highest, second = np.sort(allowed, -1)[:, [-1, -2]].T
        if temperature < 1e-2:
            clear = highest - second > 20 * temperature
            assert (sampled == allowed.argmax(-1))[clear].all()


def test_samples_of_equal_logits_are_uniform():
    logits = tf.zeros((1, 20_000, CLASSES))
    key = randomness.make_key(3, 0, "sampling")
    for temperature in (1e-6, 1.0, 1e6):
        sampled = sample_from_softmax(logits, key, temperature=temperature).numpy()
        assert (
            scipy.stats.chisquare(np.bincount(sampled.ravel(), minlength=CLASSES)).pvalue > 1e-4
        )
    sampled = sample_from_softmax(logits - [0, 0, np.inf, 0, 0], key).numpy()
    assert set(np.unique(sampled)) == {0, 1, 3, 4}


vectors = arrays.arrays(
    np.float32,
    4,
    elements=st.floats(-1e3, 1e3, width=32) | st.sampled_from([0.0, 1e-38, 1e-45, 1e15, -1e15]),
)


@tries(
    150,
    variable=vectors,
    m=vectors,
    v=vectors.map(np.abs),
    gradient=vectors,
    rate=st.sampled_from([0.0, 1e-30, 1e-4, 1.0]),
    decay=st.sampled_from([0.0, 0.01, 1.0]),
)
def test_adam(variable, m, v, gradient, rate, decay):
    given = (variable, m, v, gradient, np.float32(rate), np.float32(decay))
    found = adam_update(*map(tf.constant, given))
    rounding = 1e-5 * (1 + np.abs(variable).max())
    w, m, v, g = (x.astype(np.float64) for x in (variable, m, v, gradient))
    m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g**2
    w = w - rate * (m / (np.sqrt(v) + 1e-6) + decay * w)
    for actual, expected in zip(found, (w, m, v), strict=True):
        assert np.isfinite(actual).all()
        np.testing.assert_allclose(actual, expected, rtol=1e-3, atol=rounding)


@tries(
    60,
    gradients=st.lists(vectors, min_size=1, max_size=3),
    norm=st.sampled_from([1e-6, 1.0, 1e6]),
)
def test_clipping(gradients, norm):
    clipped, found = clip_by_global_norm([tf.constant(g) for g in gradients], norm)
    exact = math.sqrt(sum((g.astype(np.float64) ** 2).sum() for g in gradients))
    close(found / (1 + exact), exact / (1 + exact), 1e-4)
    for actual, given in zip(clipped, gradients, strict=True):
        close(actual, given * min(1.0, norm / max(exact, 1e-300)), 1e-3 * norm)


@pytest.mark.parametrize("name", ["adam", "lamb"])
@pytest.mark.parametrize("gradient", [0.0, 1e-30, 1e15])
@pytest.mark.parametrize("weights", [0.0, 1e-38, 1.0])
def test_updates_of_extreme_gradients_are_finite(name, gradient, weights):
    variable = keras.Variable(np.full(3, weights, np.float32))
    optimizer = make_optimizer(name, WarmupPolynomialDecay(0.1, 10), weight_decay_rate=0.01)
    optimizer.build([variable])
    for _ in range(3):
        optimizer.apply([tf.fill([3], np.float32(gradient))], [variable])
        assert np.isfinite(variable.numpy()).all()


@tries(40, weights=vectors, gradients=st.lists(vectors, min_size=1, max_size=3))
def test_lamb(weights, gradients):
    """You et al. 2020 with Keras's bias correction, where the weights decay first."""
    variable = keras.Variable(weights)
    optimizer = make_optimizer("lamb", lambda: tf.constant(0.1), weight_decay_rate=0.0)
    optimizer.build([variable])
    # Squares below the normal numbers are 0 in float32.
    weights, *gradients = (np.where(np.abs(x) < 1e-15, 0, x) for x in (weights, *gradients))
    variable.assign(weights)
    w = weights.astype(np.float64)
    m = v = 0.0
    for t, gradient in enumerate(gradients, start=1):
        optimizer.apply([tf.constant(gradient)], [variable])
        g = gradient.astype(np.float64)
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g**2
        update = m / (1 - 0.9**t) / (np.sqrt(v / (1 - 0.999**t)) + 1e-6)
        size, change = np.linalg.norm(w), np.linalg.norm(update)
        w = w - 0.1 * (size / change if size > 0 and change > 0 else 1.0) * update
    assert np.isfinite(variable.numpy()).all()
    if np.abs(weights).max() > 0:
        close(variable.numpy() / np.abs(weights).max(), w / np.abs(weights).max(), 1e-3)


@tries(
    150,
    steps=st.integers(1, 2000),
    warmup=st.sampled_from([0, 1, 10, 10_000]),
    share=st.sampled_from([0.0, 0.1, 1.0]),
    power=st.sampled_from([0.0, 0.5, 1.0, 3.0]),
    at=st.sampled_from([0.0, 0.5, 1.0, 2.0]),
    first=st.sampled_from([0, 1]),
)
def test_schedules(steps, warmup, share, power, at, first):
    step = int(at * steps)
    schedule = WarmupPolynomialDecay(0.5, steps, warmup, share, power, first)
    t = step + first
    length = max(warmup, share * steps)
    exact = 0.5 * (1 - min(t, steps) / steps) ** power * (min(1, t / length) if length else 1)
    close(schedule(step), exact, 1e-4)
    staged = StagedSchedule([schedule, WarmupPolynomialDecay(0.25, 7)])
    if step < steps:
        close(staged(step), exact, 1e-4)
    close(staged(steps + 7), 0.0)
