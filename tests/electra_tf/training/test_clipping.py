"""Tests of gradient clipping."""

import numpy as np
import tensorflow as tf

from electra_tf.model.kernels import compiled_as_a_whole
from electra_tf.training.clipping import clip_by_global_norm, squared_norms


def test_clipping_scales_all_gradients_by_one_factor():
    gradients = [tf.constant([3.0, 0.0]), tf.constant([[4.0]])]
    clipped, norm = clip_by_global_norm(gradients, 1.0)
    assert float(norm) == 5
    np.testing.assert_allclose(clipped[0], [0.6, 0])
    np.testing.assert_allclose(clipped[1], [[0.8]])
    untouched, _ = clip_by_global_norm(gradients, 10.0)
    np.testing.assert_array_equal(untouched[0], gradients[0])
    broken, norm = clip_by_global_norm([tf.constant([np.inf]), tf.constant([1.0])], 1.0)
    assert not np.isfinite(float(norm))
    assert not np.all(np.isfinite(np.concatenate(broken)))


def test_squared_norms_keep_their_order_where_vectors_are_summed_together():
    shapes = [(3,), (2, 3), (4,), (3,), (), (4,), (5,), (2, 3)]
    generator = np.random.default_rng(0)
    gradients = [tf.constant(generator.normal(size=s), tf.float32) for s in shapes]
    expected = [np.sum(np.square(gradient)) for gradient in gradients]
    np.testing.assert_allclose(squared_norms(gradients), expected, rtol=1e-6)
    with compiled_as_a_whole():
        np.testing.assert_allclose(squared_norms(gradients), expected, rtol=1e-6)
