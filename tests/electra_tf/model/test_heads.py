"""The loss of the masked language model, against NumPy."""

import numpy as np
import pytest
import tensorflow as tf

from electra_tf.model.heads import get_softmax_output


def test_losses_are_weighted_means_and_predictions_the_largest_logits():
    logits = np.random.default_rng(0).normal(size=[2, 3, 5]).astype(np.float32)
    targets, weights = np.array([[0, 4, 2], [1, 1, 3]]), np.float32([[1, 1, 0], [1, 0, 0]])
    found = get_softmax_output(
        tf.constant(logits), tf.constant(targets, tf.int32), tf.constant(weights)
    )
    losses = np.log(np.exp(logits).sum(-1))
    losses -= np.take_along_axis(logits, targets[..., None], -1)[..., 0]
    np.testing.assert_allclose(found.per_example_loss, losses, rtol=1e-5)
    assert float(found.loss) == pytest.approx((losses * weights).sum() / 3, rel=1e-5)
    np.testing.assert_array_equal(found.preds, logits.argmax(-1))
