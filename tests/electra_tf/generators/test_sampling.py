"""Samples of the generator's softmax: their distribution, gradients and random streams."""

import numpy as np
import pytest
import tensorflow as tf

from electra_tf.generators import sampling
from electra_tf.generators.sampling import most_likely_tokens, sample_from_softmax
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

    @tf.function(autograph=False)
    def by_tensor(temperature: tf.Tensor) -> tf.Tensor:
        return sample_from_softmax(logits, key, temperature=temperature)

    for number in (0.5, 1.0, 3.0):
        by_number = sample_from_softmax(logits, key, temperature=number)
        np.testing.assert_array_equal(by_number, by_tensor(tf.constant(number)))


def test_kernels_are_compiled_for_numbers_alone(monkeypatch):
    temperatures = []

    def note(logits, *_, temperature):
        temperatures.append(temperature)
        return logits

    monkeypatch.setattr(sampling, "_gumbel_scores", note)
    for temperature in (2.0, tf.constant(2.0)):
        sample_from_softmax(tf.zeros([1, 1, 2]), temperature=temperature)
    assert temperatures == [2.0, 1.0]
    assert not any(map(tf.is_tensor, temperatures))


def test_a_batch_starts_at_the_first_example_by_default():
    logits, key = tf.zeros([4, 50, 30]), tf.constant([3, 4], tf.uint32)
    drawn = [
        sample_from_softmax(logits, key, **given).numpy().tolist()
        for given in ({}, {"first_example": 0}, {"first_example": 1})
    ]
    assert drawn[0] == drawn[1]
    assert drawn[0] != drawn[2]


def test_given_noise_takes_the_authors_gumbel_transform():
    logits = np.array([[[0.5, -0.25, 0.0, 0.25], [3.0, 1.0, 2.0, 0.0]]], np.float32)
    # Noise of 0 and 1, where the transform without bounds is infinite.
    noise = np.array([[[0.3, 0.6, 0.5, 0.2], [0.0, 1.0, 0.9, 1e-4]]], np.float32)
    exponential = -np.log(noise + np.float32(1e-9))
    scores = logits / 2 - np.log(exponential + np.float32(1e-9))
    assert np.all(np.isfinite(scores))
    assert np.argmax(scores, axis=-1).tolist() == [[1, 1]]
    for shift in range(4):  # each token once
        rolled = [np.roll(x, shift, axis=-1) for x in (logits, noise)]
        sampled = sample_from_softmax(
            tf.constant(rolled[0]), temperature=2.0, uniform_noise=tf.constant(rolled[1])
        )
        np.testing.assert_array_equal(sampled, [[(1 + shift) % 4] * 2])


def test_the_most_likely_token_unless_it_is_disallowed():
    logits = tf.constant([[[0.1, 0.3, 0.2], [0.5, 0.4, -1.0]]])
    np.testing.assert_array_equal(most_likely_tokens(logits), [[1, 0]])
    disallow = tf.constant([[1, 2]])
    np.testing.assert_array_equal(most_likely_tokens(logits, disallow), [[2, 0]])
