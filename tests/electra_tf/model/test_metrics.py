"""Metrics: sums that add up, and the area under the ROC curve."""

import math

import numpy as np
import pytest
import tensorflow as tf

from electra_tf.model import metrics
from electra_tf.model.batch_types import (
    DiscriminatorOutput,
    FakeData,
    MaskedLMOutput,
    PretrainInputs,
)


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


def test_the_auc_is_close_to_the_exact_one_where_logits_hardly_differ():
    """As early in training, when it knows little more than the replaced share."""
    generator = np.random.default_rng(5)
    labels = (generator.random([64, 128]) < 0.15).astype(np.int32)
    logits = (-1.8 + 0.03 * (generator.normal(size=labels.shape) + 0.5 * labels)).astype("f")
    found = metrics.finalize(metrics.auc_sums(logits, labels, np.ones_like(labels)))["disc_auc"]
    expected = exact_auc(logits, labels)
    assert expected > 0.6
    assert found == pytest.approx(expected, abs=1e-3)


def test_sums_of_two_batches_are_those_of_both():
    logits, labels, mask = random_scores()
    whole = metrics.auc_sums(logits, labels, mask)
    halves = [metrics.auc_sums(logits[i::2], labels[i::2], mask[i::2]) for i in (0, 1)]
    for name, value in whole.items():
        np.testing.assert_array_equal(halves[0][name] + halves[1][name], value)


def test_means_are_weighted_and_nan_over_nothing():
    sums = {
        "some": metrics.mean_sums(tf.constant([1.0, 5.0]), tf.constant([3.0, 1.0])),
        "none": metrics.mean_sums(tf.constant([1.0]), tf.constant([0.0])),
        "plain": metrics.mean_sums(tf.constant([True, False])),
        "zero": metrics.mean_sums(tf.constant([0.0, 0.0])),
    }
    values = metrics.finalize(sums)
    assert values["some"] == 2
    assert math.isnan(values["none"])
    assert values["plain"] == 0.5
    assert values["zero"] == 0
    no_positives = metrics.auc_sums(
        tf.zeros([1, 3]), tf.zeros([1, 3], tf.int32), tf.ones([1, 3])
    )
    assert math.isnan(metrics.finalize(no_positives)["disc_auc"])


def test_the_auc_with_padding_is_that_of_the_authors_thresholds():
    """tf.metrics.auc with 200 thresholds, the outer two outside of [0, 1], and its epsilon."""
    logits, labels, mask = random_scores()
    values = metrics.finalize(metrics.auc_sums(logits, labels, mask))
    probabilities = (1 / (1 + np.exp(-logits)) * mask).ravel()
    inner = [i / 199 for i in range(1, 199)]
    thresholds = np.array([-1e-7, *inner, 1 + 1e-7], np.float32)
    above = probabilities[None, :] > thresholds[:, None]
    positive = labels.ravel() == 1
    true, false = above[:, positive].sum(1), above[:, ~positive].sum(1)
    rates = (true + 1e-6) / (positive.sum() + 1e-6), false / ((~positive).sum() + 1e-6)
    expected = -np.trapezoid(*rates)
    assert values["disc_auc_with_padding"] == pytest.approx(expected, abs=1e-6)


def test_the_auc_with_padding_of_one_class_is_that_of_the_authors():
    """tf.metrics.auc: (eps / eps) * (4 / (4 + eps)) without positives, 0 without negatives."""
    logits, ones = tf.constant([[-2.0, 0.5, 1.0, 3.0]]), tf.ones([1, 4], tf.int32)
    for labels, expected in ((0 * ones, 4 / (4 + 1e-6)), (ones, 0)):
        values = metrics.finalize(metrics.auc_sums(logits, labels, ones))
        assert values["disc_auc_with_padding"] == pytest.approx(expected, abs=1e-12)
        assert math.isnan(values["disc_auc"])


def test_rows_that_fill_up_a_batch_are_not_in_the_aucs():
    logits, labels, mask = random_scores()
    whole = metrics.finalize(metrics.auc_sums(logits, labels, mask))
    filled = [np.concatenate([each, 0 * each]) for each in (logits, labels, mask)]
    assert metrics.finalize(metrics.auc_sums(*filled)) == whole


def test_logits_beyond_the_histogram_are_in_its_outer_bins():
    logits = tf.constant([[-40.0, -16.0, -15.99, 0.0, 15.99, 16.0, 40.0, 15.5]])
    labels = tf.constant([[1, 0, 1, 0, 1, 0, 1, 0]])
    sums = metrics.auc_sums(logits, labels, tf.ones_like(labels))["disc_auc"].numpy()
    assert sums.shape == (2, 8192)
    bins = [[0, 4096, 8064, 8191], [0, 2, 8189, 8191]]
    for label, expected in enumerate(reversed(bins)):
        assert np.repeat(np.arange(8192), sums[label].astype(int)).tolist() == expected


AUCS = ("disc_auc", "disc_auc_with_padding")
MASKED = PretrainInputs(
    input_ids=tf.constant([[2, 9, 8, 3], [2, 7, 3, 0]]),
    input_mask=tf.constant([[1, 1, 1, 1], [1, 1, 1, 0]]),
    segment_ids=tf.zeros([2, 4], tf.int32),
    masked_lm_positions=tf.constant([[1, 2], [1, 0]]),
    masked_lm_ids=tf.constant([[9, 8], [7, 0]]),
    masked_lm_weights=tf.constant([[1.0, 1.0], [1.0, 0.0]]),
)


def values_of(sums: metrics.MetricSums) -> dict[str, float]:
    return metrics.finalize({name: value.numpy() for name, value in sums.items()})


def test_masked_lm_metrics_are_means_over_masked_tokens():
    output = MaskedLMOutput(
        logits=tf.zeros([2, 2, 10]),
        per_example_loss=tf.constant([[1.0, 2.0], [6.0, 100.0]]),
        preds=tf.constant([[9, 1], [7, 0]]),
        loss=tf.constant(3.0),
    )
    sums = metrics.masked_lm_sums(MASKED, output)
    assert values_of(sums) == pytest.approx({"masked_lm_loss": 3, "masked_lm_accuracy": 2 / 3})


def fake_data() -> FakeData:
    """The first token of each row is replaced, the second one by itself."""
    fake = tf.constant([[0, 1, 0, 0], [0, 1, 0, 0]])
    samples = tf.constant([[5, 8], [6, 0]])
    return FakeData(MASKED, fake, samples, tf.constant([[0, 1, 1, 0], [0, 1, 0, 0]]))


def test_sampling_metrics():
    values = values_of(metrics.sampling_sums(MASKED, fake_data()))
    expected = {"sampled_masked_lm_accuracy": 1 / 3, "replaced_share": 2 / 7}
    assert values == pytest.approx(expected)


def test_discriminator_metrics():
    logits = tf.constant([[-2.0, 3.0, 1.0, -1.0], [-3.0, -1.0, 2.0, 5.0]])
    weights = tf.cast(MASKED.input_mask, tf.float32)
    preds = tf.cast(logits > 0, tf.int32)
    row_losses = tf.constant([0.25, 0.75])
    disc = DiscriminatorOutput(
        logits, tf.sigmoid(logits), preds, row_losses, tf.constant(0.0), weights
    )
    values = values_of(metrics.discriminator_sums(fake_data(), disc))
    # Right: 3 of 4, and 1 of 3; of 3 predicted and of 2 replaced tokens, 1.
    assert values["disc_loss_per_example"] == 0.5
    assert values["disc_accuracy"] == pytest.approx(4 / 7)
    assert values["disc_precision"] == pytest.approx(1 / 3)
    assert values["disc_recall"] == pytest.approx(1 / 2)
    assert 0 < values["disc_auc_with_padding"] < 1
    # Equal weights of another size change nothing.
    half = values_of(
        metrics.discriminator_sums(fake_data(), disc._replace(weights=weights / 2))
    )
    assert half == pytest.approx(values)


def test_rows_without_tokens_do_not_count():
    disc = DiscriminatorOutput(
        *(tf.zeros([2, 4]), tf.zeros([2, 4]), tf.zeros([2, 4], tf.int32)),
        per_example_loss=tf.constant([0.5, 100.0]),
        loss=tf.constant(0.0),
        weights=tf.constant([[1.0, 1.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0]]),
    )
    values = values_of(metrics.discriminator_sums(fake_data(), disc))
    assert values["disc_loss_per_example"] == 0.5


def test_an_accumulator_adds_steps_and_starts_anew():
    accumulator = metrics.MetricAccumulator()
    assert accumulator.read_and_reset() == {}
    first = {"a": tf.constant([1.0, 2.0]), "b": tf.constant([[1.0, 2.0], [3.0, 4.0]])}
    first["c"] = tf.constant([7.0])
    for _ in range(2):
        for factor in (1, 10):
            accumulator.add({name: factor * value for name, value in first.items()})
        read = accumulator.read_and_reset()
        assert read.keys() == first.keys()
        for name, value in first.items():
            np.testing.assert_array_equal(read[name], 11 * value.numpy())
    nothing = accumulator.read_and_reset()
    np.testing.assert_array_equal(nothing["b"], np.zeros([2, 2]))


def test_areas_of_hand_made_histograms():
    # By increasing score: 1 negative; 1 of each, a tie; 2 positives.
    histograms = np.array([[0.0, 1, 2], [1, 1, 0]])
    # Of 6 pairs, 2 * 2 + 1 in the right order and 1 tied.
    assert metrics.finalize({"disc_auc": histograms})["disc_auc"] == pytest.approx(5.5 / 6)
    worst = np.array([[3.0, 0], [0, 5]])
    assert metrics.finalize({"disc_auc": worst})["disc_auc"] == 0
    best = np.array([[0.0, 3], [5, 0]])
    assert metrics.finalize({"disc_auc": best})["disc_auc"] == 1
    one_bin = np.array([[3.0], [5.0]])
    assert metrics.finalize({"disc_auc": one_bin})["disc_auc"] == 0.5


@pytest.mark.parametrize("name", AUCS)
@pytest.mark.parametrize("empty", [0, 1])
def test_the_area_without_one_of_the_labels(name, empty):
    histograms = np.ones([2, 3])
    histograms[empty] = 0
    with np.errstate(all="raise"):
        area = metrics.finalize({name: histograms})[name]
    if name == "disc_auc":
        assert math.isnan(area)
    else:  # 1 without positives between the lowest and the highest score, else 0
        assert area == pytest.approx(0 if empty else 2 / 3, abs=1e-5)
    # Only the lowest score, the last of the cumulative counts, has any.
    histograms[1 - empty] = [1, 0, 0]
    histograms[empty] = [1, 0, 0]
    assert metrics.finalize({name: histograms})[name] == pytest.approx(0.5, abs=1e-5)


def test_the_epsilon_belongs_to_the_authors_area_alone():
    # One positive between two negatives: the rate rises from 0, or from half of its epsilon.
    histograms = np.array([[0.0, 1e-6, 0, 0], [1, 0, 1, 0]])
    plain, smooth = (metrics.finalize({name: histograms})[name] for name in AUCS)
    assert plain == pytest.approx(0.5)
    assert smooth == pytest.approx(0.5 * (1 + 0.5))


@pytest.mark.parametrize(
    ("of_199", "index"), [(0, 1), (0.9, 1), (1.1, 2), (197.9, 198), (198.1, 199), (199, 199)]
)
def test_probabilities_fall_between_the_authors_thresholds(of_199, index):
    with np.errstate(divide="ignore"):
        logit = np.clip(np.log(of_199) - np.log(199 - of_199), -200, 200)
    one = tf.ones([1, 1], tf.int32)
    sums = metrics.auc_sums(tf.constant([[logit]], tf.float32), one, one)
    histograms = sums["disc_auc_with_padding"].numpy()
    assert histograms.shape == (2, 201)
    assert np.argwhere(histograms).tolist() == [[0, index]]


def test_an_accumulator_is_not_trained():
    assert metrics.MetricAccumulator()._total.trainable is False


def test_sums_of_another_shape_are_refused():
    with pytest.raises(ValueError, match=r"the sums of 'mine' are of shape \(3,\), not \(2,\)"):
        metrics.finalize({"mine": np.zeros(3)})
