"""Metrics as sums over tokens, which add up over steps and replicas, and their final values.

A step returns `{name: sums}`; `finalize` turns the sums of several steps into values.
"""

from collections.abc import Mapping

import numpy as np
import tensorflow as tf

from electra_tf.model.batch_types import (
    DiscriminatorOutput,
    FakeData,
    MaskedLMOutput,
    PretrainInputs,
)

MetricSums = dict[str, tf.Tensor]


# Prefix of the values of a training step that are not metrics of the model: losses, norms, the
# loss scale and the number of skipped updates.
STEP_PREFIX = "train/"
# The authors' AUC (tf.metrics.auc): 200 thresholds, the outer two outside [0, 1].
_AUC_THRESHOLDS = np.array(
    [-1e-7, *(np.arange(1, 199, dtype=np.float32) / np.float32(199)), 1 + 1e-7], np.float32
)
_AUC_EPSILON = 1e-6
# Our AUC: a histogram of logits with bins of 1/256 between -16 and 16. Early in training,
# logits differ by less than a tenth, and would be tied in wider bins.
_LOGIT_LIMIT = 16.0
_LOGIT_BINS = 8192
AUC = "disc_auc"
AUC_WITH_PADDING = "disc_auc_with_padding"


def mean_sums(values: tf.Tensor, weights: tf.Tensor | None = None) -> tf.Tensor:
    """Returns float32 [2]: the weighted sum of `values`, and the sum of `weights`."""
    values = tf.cast(values, tf.float32)
    weights = tf.ones_like(values) if weights is None else tf.cast(weights, tf.float32)
    return tf.stack([tf.reduce_sum(values * weights), tf.reduce_sum(weights)])


def auc_sums(logits: tf.Tensor, labels: tf.Tensor, input_mask: tf.Tensor) -> MetricSums:
    """Returns histograms of the discriminator's scores, by label.

    Args:
        logits: float32 [batch, seq].
        labels, input_mask: int32 [batch, seq].

    Returns:
        `disc_auc`: float32 [2, bins], histogram of the logits of real tokens.
        `disc_auc_with_padding`: float32 [2, 201], histogram of the probabilities at the
        authors' thresholds; padding counts as negatives with probability 0. Rows of padding
        alone, which fill up a batch, are left out.
    """
    real = tf.cast(input_mask, tf.float32)
    positive = tf.cast(labels, tf.float32) * real
    scaled = (tf.clip_by_value(logits, -_LOGIT_LIMIT, _LOGIT_LIMIT) + _LOGIT_LIMIT) / (
        2 * _LOGIT_LIMIT
    )
    bins = tf.minimum(tf.cast(scaled * _LOGIT_BINS, tf.int32), _LOGIT_BINS - 1)
    probs = tf.sigmoid(logits) * real
    below = tf.searchsorted(_AUC_THRESHOLDS, tf.reshape(probs, [-1]), side="left")
    return {
        AUC: _histograms(bins, _LOGIT_BINS, positive, real - positive),
        AUC_WITH_PADDING: _histograms(
            below,
            len(_AUC_THRESHOLDS) + 1,
            positive,
            tf.reduce_max(real, axis=-1, keepdims=True) - positive,
        ),
    }


def _histograms(
    bins: tf.Tensor, size: int, positive: tf.Tensor, negative: tf.Tensor
) -> tf.Tensor:
    bins = tf.reshape(bins, [-1])
    return tf.stack(
        [
            tf.math.unsorted_segment_sum(tf.reshape(weights, [-1]), bins, size)
            for weights in (positive, negative)
        ]
    )


def finalize(sums: Mapping[str, np.ndarray]) -> dict[str, float]:
    """Turns sums into values; an empty mean is NaN."""
    values = {}
    for name, value in sums.items():
        value = np.asarray(value, np.float64)
        if name in (AUC, AUC_WITH_PADDING):
            values[name] = _auc(value, smooth=name == AUC_WITH_PADDING)
        elif value.shape != (2,):
            raise ValueError(f"the sums of {name!r} are of shape {value.shape}, not (2,)")
        else:
            values[name] = value[0] / value[1] if value[1] else float("nan")
    return {name: float(value) for name, value in values.items()}


def _auc(histograms: np.ndarray, *, smooth: bool) -> float:
    """Returns the area under the ROC curve by the trapezoidal rule.

    Args:
        histograms: [2, bins] of positives and negatives, by increasing score.
        smooth: add the authors' epsilon, so that the area is near 1 without positives and 0
            without negatives; otherwise, it is NaN then.
    """
    # Counts above each threshold, from none to all.
    true, false = np.cumsum(histograms[:, ::-1], axis=1)
    if smooth:
        rates = (true + _AUC_EPSILON) / (true[-1] + _AUC_EPSILON)
        return float(np.trapezoid(rates, false / (false[-1] + _AUC_EPSILON)))
    if not true[-1] or not false[-1]:
        return float("nan")
    return float(np.trapezoid(np.append(0, true / true[-1]), np.append(0, false / false[-1])))


def masked_lm_sums(inputs: PretrainInputs, output: MaskedLMOutput) -> MetricSums:
    """Returns the sums of `masked_lm_loss` and `masked_lm_accuracy`."""
    weights = inputs.masked_lm_weights
    return {
        "masked_lm_loss": mean_sums(output.per_example_loss, weights),
        "masked_lm_accuracy": mean_sums(tf.equal(output.preds, inputs.masked_lm_ids), weights),
    }


def sampling_sums(inputs: PretrainInputs, fake: FakeData) -> MetricSums:
    """Returns the sums of `sampled_masked_lm_accuracy` and `replaced_share`."""
    mask = tf.cast(inputs.input_mask, tf.float32)
    return {
        "sampled_masked_lm_accuracy": mean_sums(
            tf.equal(fake.sampled_token_ids, inputs.masked_lm_ids), inputs.masked_lm_weights
        ),
        "replaced_share": mean_sums(fake.is_fake_tokens, mask),
    }


def discriminator_sums(fake: FakeData, disc: DiscriminatorOutput) -> MetricSums:
    """Returns the discriminator's sums over the tokens of its loss.

    Means have the weights of the tokens in the loss; an AUC counts each token once.
    `disc_loss_per_example` and `disc_auc_with_padding` are `disc_loss` and `disc_auc` of the
    authors' code. Here, `disc_loss` is the loss term "disc", the mean over tokens.
    """
    labels, weights = fake.is_fake_tokens, disc.weights
    correct = tf.equal(disc.preds, labels)
    has_loss = weights > 0
    real_rows = tf.reduce_any(has_loss, axis=-1)
    return {
        "disc_loss_per_example": mean_sums(disc.per_example_loss, real_rows),
        "disc_accuracy": mean_sums(correct, weights),
        "disc_precision": mean_sums(correct, tf.cast(disc.preds, tf.float32) * weights),
        "disc_recall": mean_sums(correct, tf.cast(labels, tf.float32) * weights),
        **auc_sums(disc.logits, labels, tf.cast(has_loss, tf.int32)),
    }


class MetricAccumulator:
    """Sums of metrics over steps, in one float32 variable.

    Names and shapes of the sums are only known once a step has been traced. The variable is
    created before that, since TensorFlow traces functions that create variables twice.
    """

    def __init__(self) -> None:
        # The concatenated sums since the last reset, or a scalar 0.
        self._total = tf.Variable(0.0, trainable=False, shape=tf.TensorShape(None))
        self._shapes: dict[str, tf.TensorShape] = {}

    def add(self, sums: MetricSums) -> None:
        """Adds the sums of one step; call it in cross-replica context."""
        self._shapes = {name: value.shape for name, value in sums.items()}
        flat = tf.concat([tf.reshape(value, [-1]) for value in sums.values()], axis=0)
        self._total.assign(self._total + flat)

    def read_and_reset(self) -> dict[str, np.ndarray]:
        """Returns the sums since the last call."""
        sizes = [shape.num_elements() for shape in self._shapes.values()]
        flat = np.broadcast_to(self._total.numpy(), sum(sizes))
        self._total.assign(0.0)
        parts = np.split(flat, np.cumsum(sizes)[:-1])
        return {
            name: part.reshape(shape)
            for (name, shape), part in zip(self._shapes.items(), parts, strict=False)
        }
