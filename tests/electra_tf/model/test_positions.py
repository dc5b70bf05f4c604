"""Writing into sequences, on inputs that tests/reference lacks."""

import numpy as np
import tensorflow as tf

from electra_tf.model.positions import scatter_update


def test_scatter_update_averages_duplicates_and_spares_position_0():
    sequence = tf.constant([[1, 2, 3, 4], [5, 6, 7, 8]])
    updated, written = scatter_update(
        sequence, tf.constant([[10, 21, 30], [9, 9, 9]]), tf.constant([[2, 2, 0], [0, 3, 1]])
    )
    np.testing.assert_array_equal(updated, [[1, 2, 15, 4], [5, 9, 7, 9]])
    np.testing.assert_array_equal(written, [[0, 0, 1, 0], [0, 1, 0, 1]])
