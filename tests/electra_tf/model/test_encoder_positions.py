"""Encoders that compute the last layer at some positions only."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from electra_tf.model.encoder import BIDIRECTIONAL, LEFT_TO_RIGHT, RIGHT_TO_LEFT, Encoder
from electra_tf.model.kernels import without_fusion
from tests.electra_tf.model.test_cast_kernels import CONFIG, IDS

MASK = tf.constant([[1] * 4, [1, 1, 1, 0]])


@pytest.mark.parametrize("direction", [BIDIRECTIONAL, LEFT_TO_RIGHT, RIGHT_TO_LEFT])
@pytest.mark.parametrize(("precision", "tolerance"), [("float32", 1e-6), ("bfloat16", 1e-2)])
def test_the_outputs_are_those_of_all_positions(direction, precision, tolerance):
    keras.utils.set_random_seed(1)
    policy = precision if precision == "float32" else f"mixed_{precision}"
    encoder = Encoder(
        CONFIG, direction=direction, dtype=keras.DTypePolicy(policy), name="electra"
    )
    inputs = (IDS, MASK, tf.zeros_like(IDS))
    with without_fusion():
        every = tf.cast(encoder(*inputs).sequence_output, tf.float32).numpy()
        for positions in (slice(0, 1), slice(1, 3), tf.constant([[2, 0], [1, 2]])):
            some = encoder(*inputs, positions=positions).sequence_output
            expected = (
                every[:, positions]
                if isinstance(positions, slice)
                else np.take_along_axis(every, positions.numpy()[..., None], axis=1)
            )
            np.testing.assert_allclose(tf.cast(some, tf.float32), expected, atol=tolerance)
