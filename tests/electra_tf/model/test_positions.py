"""Reading and writing sequences at positions, on inputs that tests/reference lacks."""

import numpy as np
import tensorflow as tf

from electra_tf.model.positions import gather_positions, scatter_update


def test_gather_positions_reads_each_row_at_its_own_positions():
    sequence = tf.constant([[[1, -1], [2, -2], [3, -3]], [[4, -4], [5, -5], [6, -6]]])
    positions = tf.constant([[2, 0], [1, 1]])
    expected = [[[3, -3], [1, -1]], [[5, -5], [5, -5]]]
    np.testing.assert_array_equal(gather_positions(sequence, positions), expected)
    np.testing.assert_array_equal(
        gather_positions(sequence[..., 0], positions), [[3, 1], [5, 5]]
    )


def test_scatter_update_averages_duplicates_and_spares_position_0():
    sequence = tf.constant([[1, 2, 3, 4], [5, 6, 7, 8]])
    updated, written = scatter_update(
        sequence, tf.constant([[10, 21, 30], [9, 9, 9]]), tf.constant([[2, 2, 0], [0, 3, 1]])
    )
    np.testing.assert_array_equal(updated, [[1, 2, 15, 4], [5, 9, 7, 9]])
    np.testing.assert_array_equal(written, [[0, 0, 1, 0], [0, 1, 0, 1]])


def test_scatter_update_of_vectors():
    sequence = tf.constant([[[1.0, 2.0], [3.0, 4.0], [5.0, 6.0], [7.0, 8.0]]])
    updates = tf.constant([[[10.0, 20.0], [11.0, 21.0], [0.5, 0.25], [99.0, 99.0]]])
    updated, written = scatter_update(sequence, updates, tf.constant([[2, 2, 1, 0]]))
    expected = [[[1.0, 2.0], [0.5, 0.25], [10.5, 20.5], [7.0, 8.0]]]
    np.testing.assert_array_equal(updated, expected)
    np.testing.assert_array_equal(written, [[0, 1, 1, 0]])
