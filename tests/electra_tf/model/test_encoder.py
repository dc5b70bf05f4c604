"""The encoder with its layers computed anew in the backward pass."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from electra_tf.config.encoder import EncoderConfig
from electra_tf.model import randomness
from electra_tf.model.encoder import Encoder
from electra_tf.model.kernels import without_fusion
from electra_tf.model.layers import TransformerLayer

CONFIG = EncoderConfig(
    vocab_size=20,
    embedding_size=8,
    hidden_size=8,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=12,
    max_position_embeddings=6,
)


def output_and_gradients(monkeypatch, *, rematerialize: bool, dropout: bool) -> tuple:
    """Returns the output, the gradients by path, and how often a layer was run."""
    keras.utils.set_random_seed(0)
    encoder = Encoder(CONFIG, rematerialize=rematerialize, name="electra")
    ids = tf.constant([[2, 7, 8, 9, 3, 0], [2, 11, 12, 13, 14, 3]])
    key = randomness.make_key(1, 2, "dropout") if dropout else None
    calls = []
    original = TransformerLayer.call
    monkeypatch.setattr(
        TransformerLayer,
        "call",
        lambda self, *args, **kwargs: calls.append(self) or original(self, *args, **kwargs),
    )
    with without_fusion(), tf.GradientTape() as tape:
        y = encoder(ids, tf.cast(ids > 0, tf.int32), tf.zeros_like(ids), key).sequence_output
        total = tf.reduce_sum(y * tf.cos(y))
        variables = encoder.trainable_variables
        gradients = tape.gradient(total, [variable.value for variable in variables])
    named = {
        variable.path: tf.convert_to_tensor(gradient).numpy()
        for variable, gradient in zip(variables, gradients, strict=True)
    }
    return y.numpy(), named, len(calls)


@pytest.mark.parametrize("dropout", [True, False])
def test_rematerialisation_changes_no_gradient(monkeypatch, dropout):
    options = {"dropout": dropout}
    y, gradients, calls = output_and_gradients(monkeypatch, rematerialize=False, **options)
    monkeypatch.undo()
    again, same, more_calls = output_and_gradients(monkeypatch, rematerialize=True, **options)
    np.testing.assert_array_equal(again, y)
    assert same.keys() == gradients.keys()
    for path, gradient in gradients.items():
        assert np.any(gradient), path
        np.testing.assert_allclose(same[path], gradient, rtol=1e-5, atol=1e-6, err_msg=path)
    # Each layer once forward, and once more on the way back.
    assert (calls, more_calls) == (2, 4)
