"""Fused kernels give the values and gradients of the plain operations."""

import os
import re
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from electra_tf.config.encoder import ACTIVATIONS
from electra_tf.model import heads, layer_functions, randomness
from electra_tf.model.kernels import (
    compiled_as_a_whole,
    fused,
    is_fusing,
    sum_rows,
    without_fusion,
)
from electra_tf.objectives.electric import noise_log_probs
from tests import processes

WIDTH = 12


def normal(*shape: int) -> tf.Tensor:
    return tf.constant(np.random.default_rng(sum(shape)).normal(size=shape), tf.float32)


def key() -> tf.Tensor:
    return randomness.make_key(5, 6, "dropout")


X = (2, 5, WIDTH)
TOKENS = tf.constant([[0, 3, 11, 1, 1], [2, 2, 7, 9, 0]])
KERNELS = {
    "add_bias": (layer_functions.add_bias, [normal(*X), normal(WIDTH)], {}),
    "split_heads": (layer_functions.split_heads, [normal(*X), normal(WIDTH)], {"num_heads": 2}),
    "merge_heads": (layer_functions.merge_heads, [normal(2, 3, 5, 4)], {}),
    "attention_softmax": (
        layer_functions.attention_softmax,
        [normal(2, 3, 5, 5), tf.constant([[1.0, 1, 1, 0, 0], [1, 1, 1, 1, 1]]), key()],
        {"rate": 0.3},
    ),
    **{
        name: (
            layer_functions.bias_activation,
            [normal(*X), normal(WIDTH)],
            {"activation": name},
        )
        for name in ACTIVATIONS
    },
    "add_norm": (
        layer_functions.add_norm,
        [normal(*X), normal(*X), normal(WIDTH), normal(WIDTH), normal(WIDTH), key()],
        {"rate": 0.3, "epsilon": 1e-12},
    ),
    "norm_dropout": (
        layer_functions.norm_dropout,
        [normal(*X), normal(WIDTH), normal(WIDTH), key()],
        {"rate": 0.3, "epsilon": 1e-12, "dtype": "float32"},
    ),
    "activation_norm": (
        layer_functions.activation_norm,
        [normal(*X), normal(WIDTH), normal(WIDTH), normal(WIDTH)],
        {"activation": "gelu", "epsilon": 1e-12},
    ),
    "softmax_cross_entropy": (heads.softmax_cross_entropy, [normal(*X), TOKENS], {}),
    "noise_log_probs": (noise_log_probs, [normal(*X), TOKENS, tf.constant(1.5)], {}),
}


def values_and_gradients(function, tensors, options):
    """Returns the outputs and, of a weighted sum of them, the gradients."""
    floats = [t for t in tensors if t.dtype.is_floating]
    with tf.GradientTape() as tape:
        tape.watch(floats)
        outputs = tf.nest.flatten(function(*tensors, **options))
        total = tf.add_n([tf.reduce_sum(y * tf.cos(y + i)) for i, y in enumerate(outputs)])
    return outputs + tape.gradient(total, floats, unconnected_gradients="zero")


@tf.function(jit_compile=True, autograph=False)
def as_a_whole(function, tensors, options):
    with compiled_as_a_whole():
        assert not is_fusing()
        return values_and_gradients(function, tensors, options)


@pytest.mark.parametrize("compute", [values_and_gradients, as_a_whole])
@pytest.mark.parametrize("name", KERNELS)
def test_equals_the_plain_operations(name, compute):
    function, tensors, options = KERNELS[name]
    fast = compute(function, tensors, options)
    with without_fusion():
        plain = values_and_gradients(function, tensors, options)
    assert len(fast) == len(plain)
    for a, b in zip(fast, plain, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["split_heads", "add_norm", "attention_softmax"])
def test_as_a_whole_takes_shapes_that_tracing_does_not_know(name):
    function, tensors, options = KERNELS[name]
    specs = [
        tf.TensorSpec([None, None, *x.shape[2:]] if x.shape.rank > 2 else x.shape, x.dtype)
        for x in tensors
    ]

    @tf.function(jit_compile=True, autograph=False, input_signature=specs)
    def compute(*tensors):
        with compiled_as_a_whole():
            return values_and_gradients(function, tensors, options)

    expected = values_and_gradients(function, tensors, options)
    for a, b in zip(compute(*tensors), expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 1e-6), ("bfloat16", 5e-2)])
@pytest.mark.parametrize("rate", [0.0, 0.3])
def test_attention_as_a_whole_equals_that_of_kernels(dtype, tolerance, rate):
    tensors = [tf.cast(normal(2, 3, 5, 4) * scale, dtype) for scale in (1.0, 0.5, 0.7)]
    for input_mask in (
        tf.constant([[1.0, 1, 1, 0, 0], [1, 1, 1, 1, 1]]),
        tf.cast(tf.linalg.band_part(tf.ones([2, 5, 5]), -1, 0), tf.float32),
    ):
        options = {"input_mask": input_mask, "dropout_key": key(), "rate": rate}
        expected = values_and_gradients(layer_functions.attention, tensors, options)
        actual = as_a_whole(layer_functions.attention, tensors, options)
        for a, b in zip(actual, expected, strict=True):
            a, b = (tf.cast(x, tf.float64).numpy() for x in (a, b))
            assert np.linalg.norm(a - b) <= tolerance * np.linalg.norm(b)


def test_every_activation_has_its_function():
    assert layer_functions.ACTIVATION_FUNCTIONS.keys() == set(ACTIVATIONS)


def test_gelu_is_the_one_with_erf():
    y = layer_functions.bias_activation(tf.constant([[1.0]]), tf.zeros([1]), activation="gelu")
    assert float(y[0, 0]) == pytest.approx(0.841345, abs=1e-6)  # Phi(1)
    y = layer_functions.bias_activation(
        tf.constant([[1.0]]), tf.zeros([1]), activation="gelu_tanh"
    )
    assert float(y[0, 0]) == pytest.approx(0.841192, abs=1e-6)


@pytest.mark.parametrize(
    ("activation", "expected"), [("relu", 0.0), ("tanh", -0.4621172), ("linear", -0.5)]
)
def test_activations_of_the_authors(activation, expected):
    arguments = tf.constant([[-0.75]]), tf.constant([0.25])
    y = layer_functions.bias_activation(*arguments, activation=activation)
    assert float(y[0, 0]) == pytest.approx(expected, abs=1e-6)


def test_padding_keys_get_no_attention():
    probs = layer_functions.attention_softmax(
        normal(1, 2, 4, 4), tf.constant([[1.0, 1, 0, 0]]), key(), rate=0.0
    )
    assert np.all(probs.numpy()[..., 2:] == 0)
    np.testing.assert_allclose(np.sum(probs, axis=-1), 1, rtol=1e-6)


@pytest.mark.parametrize("dtype", [tf.float32, tf.bfloat16])
def test_softmax_of_inference_equals_that_of_training(dtype, monkeypatch):
    query, keys, value = (tf.cast(normal(2, 3, n, 8), dtype) for n in (6, 7, 7))
    mask = tf.constant([[1.0] * 5 + [0] * 2, [1.0] * 7])
    calls = []

    def attend(has_onednn: bool, mask: tf.Tensor = mask, **options) -> np.ndarray:
        def softmax(*arguments: tf.Tensor) -> tf.Tensor:
            calls.append(has_onednn)
            return plain_softmax(*arguments)

        plain_softmax = layer_functions.onednn_softmax
        with monkeypatch.context() as patch:
            patch.setattr(layer_functions, "has_onednn", lambda: has_onednn)
            patch.setattr(layer_functions, "onednn_softmax", softmax)
            y = layer_functions.attention(query, keys, value, mask, key(), rate=0.0, **options)
        return tf.cast(y, tf.float32).numpy()

    expected = attend(True)
    np.testing.assert_array_equal(attend(False, for_inference=True), expected)
    assert not calls
    tolerance = 1e-6 if dtype == tf.float32 else 0.02
    np.testing.assert_allclose(
        attend(True, for_inference=True), expected, rtol=tolerance, atol=tolerance
    )
    assert calls == [True]
    with without_fusion():
        attend(True, for_inference=True)
    # Queries that see nothing would lose accuracy.
    attend(True, tf.repeat(mask[:, None], 6, axis=1), for_inference=True)
    assert calls == [True]


def test_bfloat16_goes_in_and_out():
    x = tf.cast(normal(*X), tf.bfloat16)
    arguments = [x, x, *[normal(WIDTH)] * 3, key()]
    y = layer_functions.add_norm(*arguments, rate=0.0, epsilon=1e-12)
    assert y.dtype == tf.bfloat16
    wide = [tf.cast(t, tf.float32) if t.dtype == tf.bfloat16 else t for t in arguments]
    expected = layer_functions.add_norm(*wide, rate=0.0, epsilon=1e-12)
    np.testing.assert_allclose(tf.cast(y, tf.float32), expected, rtol=1e-2, atol=2e-2)


def test_only_outputs_that_are_used_get_a_gradient():
    @fused()
    def both(x: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        return x * 2, x * 3

    x = tf.constant([1.0, 2.0])
    with tf.GradientTape() as tape:
        tape.watch(x)
        total = tf.reduce_sum(both(x)[1])
    np.testing.assert_array_equal(tape.gradient(total, x), [3, 3])
    (gradient,) = as_a_whole(lambda x: both(x)[1], [x], {})[1:]
    np.testing.assert_allclose(gradient, 3 * (tf.cos(3 * x) - 3 * x * tf.sin(3 * x)), rtol=1e-6)


@pytest.mark.parametrize("dtype", [tf.float32, tf.bfloat16, tf.float16])
def test_rows_are_summed_in_float32(dtype):
    # In bfloat16 a sum of ones would stop at 256.
    x = tf.concat([tf.ones([3, 400, 2], dtype), tf.fill([3, 400, 1], tf.cast(0.5, dtype))], -1)
    total = sum_rows(x)
    assert total.dtype == tf.float32
    np.testing.assert_array_equal(total, [1200, 1200, 600])


def test_kernels_as_users_have_them_compiled():
    """The other tests run with the quick settings of XLA of tests/conftest.py."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-k",
        "not as_users_have and not ahead",
        __file__,
    ]
    environment = {**os.environ, "XLA_FLAGS": ""}
    result = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout


# TensorFlow's log of a compilation.
STARTED, ENDED = "Instantly compiling", "Compilation of XLA executable time"
COMPILE_AHEAD = """
import tensorflow as tf
from electra_tf.model.compilation import compile_ahead, traced_once
from electra_tf.model.layer_functions import add_bias, bias_activation

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)

@traced_once
def layer(x, b):
    return bias_activation(add_bias(x, b), b, activation="gelu")

def apply(x, b):
    with tf.GradientTape() as tape:
        tape.watch(x)
        wide = [layer(x, b) for _ in range(4)]
        total = tf.reduce_sum(tf.add_n(wide) + bias_activation(x, b, activation="relu"))
    return tape.gradient(total, x)

function = tf.function(apply, autograph=False)
inputs = tf.ones([2, 8, 4]), tf.ones([4])
prepare = lambda: print("MEANWHILE", flush=True)
print("kernels:", compile_ahead(function, *inputs, meanwhile=prepare), flush=True)
print("called:", function(*inputs).shape, flush=True)
again = tf.function(apply, autograph=False)
print("again:", compile_ahead(again, *inputs, meanwhile=prepare), flush=True)
unknown = tf.function(apply, input_signature=[tf.TensorSpec([2, None, 4]), tf.TensorSpec([4])])
print("unknown:", compile_ahead(unknown), compile_ahead(unknown, lengths=[3]), flush=True)
# Another function, of layers that are traced already: their gradients are compiled, too.
unknown = tf.function(apply, input_signature=[tf.TensorSpec([2, None, 4]), tf.TensorSpec([4])])
more = compile_ahead(unknown, lengths=[3, 5])
called = [unknown(tf.ones([2, n, 4]), tf.ones([4])).shape[1] for n in (3, 5)]
print("lengths:", more, called, flush=True)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
mirrored = tf.function(lambda *tensors: strategy.run(apply, args=tensors), autograph=False)
print("mirrored:", compile_ahead(mirrored, *inputs), flush=True)
print("called:", len(mirrored(*inputs).values))
"""


def test_kernels_are_compiled_ahead_one_after_another():
    environment = {
        **os.environ,
        "TF_CPP_MIN_LOG_LEVEL": "0",
        "TF_CPP_VMODULE": "device_compiler=2",
    }
    command = [sys.executable, "-c", COMPILE_AHEAD]
    result = subprocess.run(
        command,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=processes.ROOT,
    )
    assert result.returncode == 0, result.stdout
    parts = re.split(
        r"^(?:kernels|called|again|unknown|lengths|mirrored): (.*)", result.stdout, flags=re.M
    )
    compilations = [part.count(STARTED) for part in parts[::2]]
    count = int(parts[1])
    assert count > 3
    of_replicas = int(parts[11])
    assert of_replicas >= 2 * count
    # All are compiled ahead, none by the calls; for unknown lengths as often as there are any,
    # and on the device of each replica.
    assert compilations == [count, 0, 0, count, count, of_replicas, 0, 0]
    assert parts[5] == "0"
    assert parts[7] == f"0 {count}"
    assert parts[9] == f"{count} [3, 5]"
    assert parts[13] == "2"
    # Only once was there anything to do meanwhile.
    assert result.stdout.count("MEANWHILE") == 1
    # Each ends before the next one starts.
    events = re.findall(f"{STARTED}|{ENDED}", result.stdout)
    assert events == [STARTED, ENDED] * (len(events) // 2)
