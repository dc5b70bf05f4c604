"""The encoder with its layers computed anew in the backward pass, or frozen."""

import dataclasses
import re

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


@pytest.mark.parametrize("policy", ["float64", "bfloat16", "mixed_float16"])
def test_an_encoder_has_the_types_of_its_own_policy(policy):
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(policy)
    try:
        encoder = Encoder(CONFIG, dtype="float32")
    finally:
        keras.config.set_dtype_policy(before)
    assert {variable.dtype for variable in encoder.variables} == {"float32"}
    ids = tf.constant([[2, 7, 3]])
    output = encoder(ids, tf.ones_like(ids), tf.zeros_like(ids)).sequence_output
    assert output.dtype == tf.float32


@pytest.mark.parametrize("policy", ["bfloat16", "float64"])
def test_policies_whose_weights_are_not_float32_are_refused(policy):
    with pytest.raises(ValueError, match=rf"encoder electra .* its dtype is {policy}: pass a"):
        Encoder(CONFIG, dtype=policy, name="electra")


def test_unknown_directions_are_refused():
    """One was taken for right-to-left."""
    with pytest.raises(ValueError, match=r"direction must be one of .*, not 'left-to-right'"):
        Encoder(CONFIG, direction="left-to-right")


@pytest.mark.parametrize("trace", [lambda call: call, tf.function])
def test_shapes_that_cannot_be_read_are_named(trace):
    encoder = Encoder(CONFIG)
    encode = trace(lambda ids: encoder(ids, tf.ones_like(ids), tf.zeros_like(ids)))
    with pytest.raises(ValueError, match=r"input_ids has 7 tokens a row, .* 6 position embedd"):
        encode(tf.fill([1, 7], 5))
    with pytest.raises(ValueError, match=r"input_ids must be \[batch, seq\], not .* \(6,\)"):
        encode(tf.fill([6], 5))
    ids = tf.fill([1, 7], 5)
    positions = tf.range(7)[None] // 2
    assert encoder(
        ids, tf.ones_like(ids), tf.zeros_like(ids), position_ids=positions
    ).sequence_output.shape == (1, 7, 8)


@pytest.mark.parametrize("name", ["input_ids", "segment_ids"])
def test_ids_that_are_no_integers_are_refused(name):
    """As Keras's `fit` passes under a distribution strategy, where bfloat16 rounds ids."""
    ids = tf.fill([1, 3], 5)
    inputs = {"input_ids": ids, "input_mask": ids, "segment_ids": tf.zeros_like(ids)}
    inputs[name] = tf.cast(inputs[name], tf.bfloat16)
    with pytest.raises(ValueError, match=f"{name} must be integers, not bfloat16. .* cast ids"):
        Encoder(CONFIG)(**inputs)


@pytest.mark.parametrize("trace", [lambda call: call, tf.function])
@pytest.mark.parametrize("shape", [(2,), (2, 1), (2, 3), (2, 1, 1, 4)])
def test_masks_and_segments_of_other_tokens_are_refused(trace, shape):
    """A column would be broadcast, and padding attended to."""
    encoder = Encoder(CONFIG)
    ids, other = tf.fill([2, 4], 5), tf.ones(shape, tf.int32)
    encode = trace(lambda *inputs: encoder(*inputs).sequence_output)
    with pytest.raises(ValueError, match=r"input_mask must be .* \(2, 4\), not of shape \(2,"):
        encode(ids, other, tf.zeros_like(ids))
    with pytest.raises(ValueError, match=r"segment_ids must be .* \(2, 4\), not of shape \(2,"):
        encode(ids, tf.ones_like(ids), other)
    with pytest.raises(ValueError, match=r"input_mask must be .*, not of shape \(\)"):
        encoder(ids, None, other)


@pytest.mark.parametrize(
    ("position_ids", "message"),
    [
        (tf.ones([2, 1], tf.int32), r"position_ids must be .* not of shape \(2, 1\)"),
        (tf.ones([2, 4]), "position_ids must be integers, not float32"),
    ],
)
def test_position_ids_of_other_tokens_are_refused(position_ids, message):
    """A column would be broadcast, and every token have the same position."""
    ids = tf.fill([2, 4], 5)
    with pytest.raises(ValueError, match=message):
        Encoder(CONFIG)(ids, tf.ones_like(ids), ids * 0, position_ids=position_ids)


def test_ragged_ids_and_seeds_in_place_of_keys_are_refused():
    encoder, ids = Encoder(CONFIG), tf.fill([2, 4], 5)
    with pytest.raises(ValueError, match=r"input_ids is ragged, .*: call its to_tensor"):
        encoder(tf.ragged.constant([[2, 3], [2, 5, 3]]), tf.ones_like(ids), ids * 0)
    for key in (1, tf.constant([1, 2])):
        with pytest.raises(ValueError, match=r"dropout_key must be a key from .*make_key, not"):
            encoder(ids, tf.ones_like(ids), ids * 0, dropout_key=key)


def output_and_gradients(
    monkeypatch, *, rematerialize: bool, dropout: bool, frozen: int | None = None
) -> tuple:
    """Returns the output, the gradients by path, and how often a layer was run."""
    keras.utils.set_random_seed(0)
    encoder = Encoder(CONFIG, rematerialize=rematerialize, name="electra")
    if frozen is not None:
        encoder.freeze(frozen)
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


@pytest.mark.parametrize(
    ("num_layers", "trained"), [(0, "layer_0|layer_1"), (1, "layer_1"), (2, "none")]
)
def test_frozen_layers_have_no_gradient_and_the_others_the_same(
    monkeypatch, num_layers, trained
):
    y, gradients, _ = output_and_gradients(monkeypatch, rematerialize=False, dropout=True)
    monkeypatch.undo()
    again, left, _ = output_and_gradients(
        monkeypatch, rematerialize=False, dropout=True, frozen=num_layers
    )
    np.testing.assert_array_equal(again, y)
    assert left.keys() == {path for path in gradients if re.search(trained, path)}
    for path, gradient in left.items():
        np.testing.assert_array_equal(gradient, gradients[path], err_msg=path)


def test_gradients_stop_above_frozen_layers():
    encoder = Encoder(CONFIG, name="electra")
    paths = [variable.path for variable in encoder.variables]
    encoder.freeze(1)
    assert [variable.path for variable in encoder.variables] == paths
    ids = tf.constant([[2, 7, 8, 9, 3, 0]])
    with without_fusion(), tf.GradientTape() as tape:
        y = encoder(ids, tf.ones_like(ids), tf.zeros_like(ids)).sequence_output
    frozen = [v.value for v in encoder.variables if not v.trainable]
    assert len(frozen) == len(paths) - len(encoder.trainable_variables) > 16
    assert tape.gradient(y, frozen) == [None] * len(frozen)
    with pytest.raises(ValueError, match="3 layers cannot be frozen: the encoder has 2"):
        encoder.freeze(3)


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


def traced_calls(num_layers: int) -> list[str]:
    """Returns the names of the functions that the graph of an encoder with gradients calls."""
    config = dataclasses.replace(CONFIG, num_hidden_layers=num_layers)
    encoder = Encoder(config, name="electra")
    ids = tf.constant([[2, 7, 8, 9, 3, 0]])

    @tf.function(autograph=False)
    def gradients() -> list[tf.Tensor]:
        with tf.GradientTape() as tape:
            output = encoder(ids, tf.ones_like(ids), tf.zeros_like(ids)).sequence_output
            total = tf.reduce_sum(output * tf.cos(output))
        kernels = [layer.output_projection.kernel.value for layer in encoder.encoder_layers]
        return [tf.convert_to_tensor(each) for each in tape.gradient(total, kernels)]

    graph = gradients.get_concrete_function().graph
    return [op.get_attr("f").name for op in graph.get_operations() if "f" in op.node_def.attr]


def test_layers_of_the_same_shape_are_traced_once():
    calls = {count: traced_calls(count) for count in (2, 5)}
    # A layer more is one call forward and one backward of functions that are there.
    assert len(calls[5]) - len(calls[2]) == 2 * 3
    assert len(set(calls[5])) == len(set(calls[2]))
