"""The training loss of classification, against its formula in float64."""

import numpy as np
import pytest
import tensorflow as tf

from finetune.tasks.text.class_loss import ClassLoss

LOGITS = np.array([[1.5, -0.25, 0.5], [-2.0, 3.0, 0.0], [0.1, 0.2, 0.3]])
LABELS = np.array([2, 1, 0])
WEIGHTS = np.array([2.0, 0.5, 1.25])


def expected(smoothing, gamma, weights, logits=LOGITS):
    log_p = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    target = (1 - smoothing) * np.eye(3)[LABELS] + smoothing / 3
    easiness = (1 - np.exp(log_p[np.arange(3), LABELS])) ** gamma
    return weights * easiness * -(target * log_p).sum(axis=1)


@pytest.mark.parametrize(
    ("smoothing", "gamma", "weights"),
    [(0.1, 0, 1), (0, 2, 1), (0, 0.5, 1), (0, 0, WEIGHTS), (0.2, 1.5, WEIGHTS)],
)
def test_the_formula(smoothing, gamma, weights):
    given = None if np.isscalar(weights) else tf.constant(weights, tf.float32)
    logits = tf.constant(LOGITS, tf.float32)
    with tf.GradientTape() as tape:
        tape.watch(logits)
        losses = ClassLoss(smoothing, gamma).losses(logits, tf.constant(LABELS), given)
    np.testing.assert_allclose(losses, expected(smoothing, gamma, weights), rtol=1e-5)
    steps = np.eye(3) * 1e-6
    numeric = [
        (
            expected(smoothing, gamma, weights, LOGITS + step)
            - expected(smoothing, gamma, weights, LOGITS - step)
        )
        / 2e-6
        for step in steps
    ]
    gradient = tape.gradient(losses, logits)
    np.testing.assert_allclose(gradient, np.stack(numeric, axis=1), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(("smoothing", "gamma"), [(0, 0), (0.2, 0), (0, 2), (0.1, 1.5)])
def test_rows_may_have_fewer_classes(smoothing, gamma):
    """The loss of a row is as if it had only its classes; the others get no gradient."""
    is_class = np.array([[True, False, True], [True, True, False], [True, True, True]])
    logits = tf.constant(np.where(is_class, LOGITS, np.finfo(np.float32).min), tf.float32)
    loss = ClassLoss(smoothing, gamma)
    with tf.GradientTape() as tape:
        tape.watch(logits)
        losses = loss.losses(logits, tf.constant(LABELS), is_class=tf.constant(is_class))
    for row, (keep, label) in enumerate(zip(is_class, LABELS, strict=True)):
        alone = tf.constant([LOGITS[row][keep]], tf.float32)
        position = tf.constant([int(keep[:label].sum())])
        np.testing.assert_allclose(losses[row], loss.losses(alone, position)[0], rtol=1e-5)
    gradient = tape.gradient(losses, logits).numpy()
    assert np.isfinite(gradient).all()
    assert (gradient[~is_class] == 0).all()


def test_without_options_it_is_the_cross_entropy_bit_for_bit():
    logits, labels = tf.constant(LOGITS, tf.float32), tf.constant(LABELS)
    plain = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
    assert ClassLoss().losses(logits, labels).numpy().tolist() == plain.numpy().tolist()


@pytest.mark.parametrize("gamma", [0.5, 2.0])
def test_gradients_are_finite_where_the_probability_rounds_to_one(gamma):
    logits = tf.constant([[200.0, -200.0, 0.0], [-200.0, 200.0, 0.0]])
    with tf.GradientTape() as tape:
        tape.watch(logits)
        losses = ClassLoss(gamma=gamma).losses(logits, tf.constant([0, 0]))
    assert losses.numpy().tolist() == [0, 400]
    gradient = tape.gradient(losses, logits).numpy()
    np.testing.assert_allclose(gradient, [[0, 0, 0], [-1, 1, 0]], atol=1e-6)


def test_options_are_off_by_default_and_fixed():
    loss = ClassLoss()
    assert (loss.smoothing, loss.gamma) == (0, 0)
    with pytest.raises(AttributeError):
        loss.gamma = 1.0


@pytest.mark.parametrize("num_rows", [1, 4])
def test_smoothing_spreads_over_classes_and_not_over_rows(num_rows):
    logits = tf.tile(tf.constant([[2.0, 0.0]]), [num_rows, 1])
    losses = ClassLoss(smoothing=0.5).losses(logits, tf.zeros([num_rows], tf.int32))
    log_p = [-np.log1p(np.exp(-2.0)), -np.log1p(np.exp(2.0))]
    row = -(0.75 * log_p[0] + 0.25 * log_p[1])
    np.testing.assert_allclose(losses, [row] * num_rows, rtol=1e-6)
