"""Metrics as sums that add up over steps and replicas, and their final values.

A step returns `{name: sums}`; sums of several steps are added, and `finalize`
turns them into numbers. So a loop on the device needs no metric variables.
"""

from collections.abc import Mapping

import numpy as np
import tensorflow as tf

Sums = dict[str, tf.Tensor]

# The authors' AUC (tf.metrics.auc): 200 thresholds, the outer two beyond [0, 1].
_AUC_THRESHOLDS = np.array(
    [-1e-7, *(np.arange(1, 199, dtype=np.float32) / np.float32(199)), 1 + 1e-7], np.float32
)
_AUC_EPSILON = 1e-6
# Our AUC counts logits in bins of 1/16 between -16 and 16.
_LOGIT_LIMIT = 16.0
_LOGIT_BINS = 512

AUC = "disc_auc"
AUC_WITH_PADDING = "disc_auc_with_padding"


def mean_sums(values: tf.Tensor, weights: tf.Tensor | None = None) -> tf.Tensor:
    """Returns float32 [2]: the weighted sum of `values`, and the sum of `weights` (1s)."""
    values = tf.cast(values, tf.float32)
    weights = tf.ones_like(values) if weights is None else tf.cast(weights, tf.float32)
    return tf.stack([tf.reduce_sum(values * weights), tf.reduce_sum(weights)])


def auc_sums(logits: tf.Tensor, labels: tf.Tensor, input_mask: tf.Tensor) -> Sums:
    """Returns histograms of the discriminator's scores, by label.

    Args:
        logits: float32 [batch, seq].
        labels, input_mask: int32 [batch, seq].

    Returns:
        `disc_auc`: float32 [2, bins], of the real tokens' logits.
        `disc_auc_with_padding`: float32 [2, 201], of the probabilities by the
        authors' thresholds, where padding counts as negatives of probability 0.
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
            below, len(_AUC_THRESHOLDS) + 1, positive, 1.0 - positive
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


def add_sums(first: Mapping[str, np.ndarray], second: Mapping[str, np.ndarray]) -> dict:
    """Returns the sums of two stretches of steps together."""
    return {name: first[name] + second[name] for name in first}


def finalize(sums: Mapping[str, np.ndarray]) -> dict[str, float]:
    """Turns sums into values; a mean over nothing is NaN."""
    values = {}
    for name, value in sums.items():
        value = np.asarray(value, np.float64)
        if name in (AUC, AUC_WITH_PADDING):
            values[name] = _auc(value, smooth=name == AUC_WITH_PADDING)
        else:
            values[name] = value[0] / value[1] if value[1] else float("nan")
    return {name: float(value) for name, value in values.items()}


def _auc(histograms: np.ndarray, *, smooth: bool) -> float:
    """Returns the area under the ROC curve by trapezoids.

    Args:
        histograms: [2, bins] of positives and negatives, by rising score.
        smooth: add the authors' epsilon to the true positive rate.
    """
    # Counts above each threshold, from none to all.
    true, false = np.cumsum(histograms[:, ::-1], axis=1)
    if not true[-1] or not false[-1]:
        return float("nan")
    if smooth:
        rates = (true + _AUC_EPSILON) / (true[-1] + _AUC_EPSILON), false / false[-1]
        return float(np.trapezoid(*rates))
    return float(np.trapezoid(np.append(0, true / true[-1]), np.append(0, false / false[-1])))
