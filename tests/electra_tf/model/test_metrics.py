"""Metrics: sums that add up, and the area under the ROC curve."""

import math

import numpy as np
import pytest
import tensorflow as tf

from electra_tf.model import metrics


def exact_auc(scores: np.ndarray, labels: np.ndarray) -> float:
    """Share of (positive, negative) pairs in the right order; ties count half."""
    positive, negative = scores[labels == 1], scores[labels == 0]
    difference = positive[:, None] - negative[None, :]
    return float(np.mean((difference > 0) + 0.5 * (difference == 0)))


def random_scores() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    generator = np.random.default_rng(0)
    labels = (generator.random((40, 50)) < 0.15).astype(np.int32)
    logits = (generator.normal(size=labels.shape) + labels).astype(np.float32)
    mask = np.ones_like(labels)
    mask[:, 30:] = 0
    return logits, labels * mask, mask


def test_auc_counts_real_tokens_and_comes_close_to_the_exact_one():
    logits, labels, mask = random_scores()
    values = metrics.finalize(metrics.auc_sums(logits, labels, mask))
    real = mask == 1
    assert values["disc_auc"] == pytest.approx(exact_auc(logits[real], labels[real]), abs=2e-3)
    # Padding as negatives of probability 0 makes the task look easier.
    padded = exact_auc(1 / (1 + np.exp(-logits)) * mask, labels)
    assert values["disc_auc_with_padding"] == pytest.approx(padded, abs=5e-3)
    assert padded > values["disc_auc"] + 0.05


def test_sums_of_two_batches_are_those_of_both():
    logits, labels, mask = random_scores()
    whole = metrics.auc_sums(logits, labels, mask)
    halves = [metrics.auc_sums(logits[i::2], labels[i::2], mask[i::2]) for i in (0, 1)]
    added = metrics.add_sums(*[{n: s.numpy() for n, s in half.items()} for half in halves])
    for name, value in whole.items():
        np.testing.assert_array_equal(added[name], value)


def test_means_are_weighted_and_nan_over_nothing():
    sums = {
        "some": metrics.mean_sums(tf.constant([1.0, 5.0]), tf.constant([3.0, 1.0])),
        "none": metrics.mean_sums(tf.constant([1.0]), tf.constant([0.0])),
        "plain": metrics.mean_sums(tf.constant([True, False])),
    }
    values = metrics.finalize(sums)
    assert values["some"] == 2
    assert math.isnan(values["none"])
    assert values["plain"] == 0.5
    no_positives = metrics.auc_sums(
        tf.zeros([1, 3]), tf.zeros([1, 3], tf.int32), tf.ones([1, 3])
    )
    assert math.isnan(metrics.finalize(no_positives)["disc_auc"])
