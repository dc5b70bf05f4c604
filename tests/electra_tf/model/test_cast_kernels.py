"""Copies of kernels for inference: the same results, and fresh when asked."""

import keras
import numpy as np
import tensorflow as tf

from electra_tf.config.encoder import EncoderConfig
from electra_tf.model.encoder import Encoder
from electra_tf.model.kernels import CastKernels

CONFIG = EncoderConfig(
    vocab_size=20,
    embedding_size=8,
    hidden_size=16,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=24,
    max_position_embeddings=8,
)
IDS = tf.constant([[2, 5, 6, 3], [2, 7, 3, 0]])


def encode(encoder: Encoder) -> np.ndarray:
    output = encoder(IDS, tf.constant([[1] * 4, [1, 1, 1, 0]]), tf.zeros_like(IDS))
    return tf.cast(output.sequence_output, tf.float32).numpy()


def test_results_are_the_same_and_follow_the_weights_on_refresh():
    keras.utils.set_random_seed(1)
    encoder = Encoder(CONFIG, dtype=keras.DTypePolicy("mixed_bfloat16"), name="electra")
    before = encode(encoder)
    copies = CastKernels(encoder.linears)
    with copies:
        assert np.array_equal(encode(encoder), before)
        for linear in encoder.linears:
            linear.kernel.assign(2 * linear.kernel)
        assert np.array_equal(encode(encoder), before)
        copies.refresh()
        refreshed = encode(encoder)
    assert np.array_equal(refreshed, encode(encoder))
    assert not np.array_equal(refreshed, before)


def test_every_product_of_the_encoder_has_a_copy():
    encoder = Encoder(CONFIG, dtype=keras.DTypePolicy("mixed_bfloat16"), name="electra")
    kernels = [v for v in encoder.trainable_variables if v.path.endswith("kernel")]
    assert {id(linear.kernel) for linear in encoder.linears} == {id(v) for v in kernels}


def test_float32_needs_no_copy():
    encoder = Encoder(CONFIG, name="electra")
    assert all(CastKernels(encoder.linears).find(linear) is None for linear in encoder.linears)
