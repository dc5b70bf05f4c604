"""Samples of the generator's softmax: their distribution, gradients and random streams."""

import numpy as np
import pytest
import tensorflow as tf

from electra_tf.generators.sampling import sample_from_softmax
from electra_tf.model import randomness


@pytest.mark.parametrize("temperature", [1.0, 2.0])
def test_samples_follow_the_softmax(temperature):
    logits = np.array([2.0, 1.0, 0.0, -1.0, 0.5, 0.5], np.float32)
    draws = 20_000
    samples = sample_from_softmax(
        tf.tile(tf.constant(logits)[None, None], [draws // 10, 10, 1]),
        randomness.make_key(0, 0, "sampling"),
        temperature=temperature,
    ).numpy()
    probs = np.exp(logits / temperature) / np.sum(np.exp(logits / temperature))
    counts = np.bincount(samples.ravel(), minlength=6)
    # 99.9 % point of chi-square with 5 degrees of freedom.
    assert np.sum((counts - draws * probs) ** 2 / (draws * probs)) < 20.5


def test_disallowed_tokens_are_never_drawn_and_the_rest_keeps_its_odds():
    logits = tf.tile(tf.constant([[[9.0, 1.0, 0.0]]]), [1000, 10, 1])
    samples = sample_from_softmax(
        logits,
        randomness.make_key(0, 0, "sampling"),
        disallow=tf.zeros([1000, 10], tf.int32),
    ).numpy()
    counts = np.bincount(samples.ravel(), minlength=3)
    assert counts[0] == 0
    assert counts[1] / counts[2] == pytest.approx(np.e, rel=0.1)


def test_no_gradient_flows_through_samples():
    logits = tf.random.stateless_normal([2, 3, 5], seed=(0, 0))
    with tf.GradientTape() as tape:
        tape.watch(logits)
        samples = sample_from_softmax(logits, randomness.make_key(0, 0, "sampling"))
        total = tf.reduce_sum(tf.cast(samples, tf.float32))
    assert tape.gradient(total, logits) is None


def test_a_temperature_is_the_same_as_a_number_or_a_tensor():
    logits = tf.random.stateless_normal([4, 50, 30], [1, 2])
    key = tf.constant([3, 4], tf.uint32)
    for number in (0.5, 1.0, 3.0):
        first, second = (
            sample_from_softmax(logits, key, temperature=temperature)
            for temperature in (number, tf.constant(number))
        )
        np.testing.assert_array_equal(first, second)


def test_a_batch_starts_at_the_first_example_by_default():
    logits, key = tf.zeros([4, 50, 30]), tf.constant([3, 4], tf.uint32)
    drawn = [
        sample_from_softmax(logits, key, **given).numpy().tolist()
        for given in ({}, {"first_example": 0}, {"first_example": 1})
    ]
    assert drawn[0] == drawn[1]
    assert drawn[0] != drawn[2]
