"""Triton's kernels: interpreted on the CPU, compiled for GPUs, called by XLA."""

import dataclasses
import os
import pathlib
import re
import subprocess
import sys

import pytest
import tensorflow as tf

from electra_tf.config.encoder import EncoderConfig
from electra_tf.generators.sampling import sample_from_softmax
from electra_tf.model import layer_functions, randomness
from electra_tf.model.embeddings import Embeddings
from electra_tf.model.gpu import attention, calls, rows, tiles
from electra_tf.model.heads import get_softmax_output
from electra_tf.model.kernels import compiled_as_a_whole
from electra_tf.util.console import warn_once

pytest.importorskip("triton")
INTERPRETED = pathlib.Path(__file__).with_name("interpreted_kernels.py")


def test_interpreted_kernels():
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", INTERPRETED]
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout
    assert ran.stdout.startswith("." * 38), ran.stdout


ENCODER = EncoderConfig(
    vocab_size=50,
    embedding_size=32,
    hidden_size=32,
    num_hidden_layers=1,
    num_attention_heads=2,
    intermediate_size=64,
)


def create_layer(x, mask, capability, **options):
    """Returns a function of a layer's gradients that XLA compiles as a whole."""
    shapes = [[32, 96], [96], [32, 32], [32], [32], [32]]
    shapes += [[32, 64], [64], [64, 32], [32], [32], [32]]
    dtypes = [x.dtype if len(shape) > 1 else tf.float32 for shape in shapes]
    weights = [tf.TensorSpec(s, d) for s, d in zip(shapes, dtypes, strict=True)]
    keys = tf.TensorSpec([3, 2], tf.uint32)
    options = {"config": ENCODER, "bounds": None} | options

    @tf.function(jit_compile=True, autograph=False, input_signature=[x, mask, keys, *weights])
    def layer(x, mask, keys, *weights):
        with compiled_as_a_whole(), calls.gpu_kernels(capability), tf.GradientTape() as tape:
            tape.watch([x, *weights])
            given = layer_functions.LayerWeights(*weights)
            y = layer_functions.transformer_layer(x, mask, given, keys, None, **options)
            return tape.gradient(tf.reduce_sum(tf.cast(y, tf.float32)), [x, *weights])

    return layer


def kernels_called(*arguments, **options) -> list[str]:
    return kernels_in(create_layer(*arguments, **options))


def kernels_in(function) -> list[str]:
    graph = function.get_concrete_function().graph.as_graph_def()
    nodes = [*graph.node, *(n for f in graph.library.function for n in f.node_def)]
    configs = [n.attr["backend_config"].s.decode() for n in nodes if n.op == "XlaCustomCallV2"]
    return sorted(re.match(r'\{name = "(\w+)"', config)[1] for config in configs)


X = tf.TensorSpec([3, 24, 32], tf.bfloat16)
MASK = tf.TensorSpec([3, 24], tf.float32)
OF_ROWS = ["add_norm_backward", "add_norm_forward"] * 2 + ["bias_gelu_backward"]
OF_ROWS += ["bias_gelu_forward"]
OF_LAYER = sorted(["attention_backward_short", "attention_forward", *OF_ROWS])


@pytest.mark.parametrize("capability", [80, 90])
def test_a_layer_calls_kernels(capability):
    assert kernels_called(X, MASK, capability) == OF_LAYER


def test_only_attention_over_all_positions_with_a_mask_of_keys_is_a_kernel():
    by_query = tf.TensorSpec([3, 24, 24], tf.float32)
    assert kernels_called(X, by_query, 90) == sorted(OF_ROWS)
    assert kernels_called(X, MASK, 90, bounds=(0, 1, None)) == sorted(OF_ROWS)


def test_heads_of_other_sizes_are_warned_of(capsys):
    warn_once.cache_clear()
    four_heads = dataclasses.replace(ENCODER, num_attention_heads=4)
    assert kernels_called(X, MASK, 90, config=four_heads) == sorted(OF_ROWS)
    assert "attention heads of size 8 have no kernel" in capsys.readouterr().err
    kernels_called(X, MASK, 90)
    assert "no kernel" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("x", "rows", "capability"),
    [
        (X, 3, None),
        (tf.TensorSpec([3, 24, 32], tf.float32), 3, 90),
        (tf.TensorSpec([None, 24, 32], tf.bfloat16), None, 90),
    ],
)
def test_without_kernels(x, rows, capability):
    mask = tf.TensorSpec([rows, 24], tf.float32)
    assert kernels_called(x, mask, capability) == []


def test_embeddings_call_kernels():
    embeddings = Embeddings(ENCODER, dtype="mixed_bfloat16")

    @tf.function(autograph=False, input_signature=[tf.TensorSpec([3, 24], tf.int32)])
    def embed(ids):
        key = randomness.make_key(0, 0, "dropout")
        with compiled_as_a_whole(), calls.gpu_kernels(90), tf.GradientTape() as tape:
            y = embeddings(ids, tf.zeros_like(ids), key)
            return tape.gradient(y, [v.value for v in embeddings.trainable_variables])

    assert kernels_in(embed) == ["norm_dropout_backward", "norm_dropout_forward"]


@pytest.mark.parametrize("dtype", [tf.bfloat16, tf.float32])
def test_losses_and_samples_call_kernels(dtype):
    @tf.function(autograph=False, input_signature=[tf.TensorSpec([3, 5, 50], dtype)])
    def lose_and_sample(logits):
        key = randomness.make_key(0, 0, "sampling")
        with compiled_as_a_whole(), calls.gpu_kernels(90), tf.GradientTape() as tape:
            tape.watch(logits)
            output = get_softmax_output(logits, tf.zeros([3, 5], tf.int32), tf.ones([3, 5]))
            tokens = sample_from_softmax(logits, key, temperature=2.0, first_example=3)
            assert tokens.dtype == output.preds.dtype == tf.int32
            assert tokens.shape == output.preds.shape == [3, 5]
            return tape.gradient(output.loss, logits), tokens

    called = ["cross_entropy_backward", "cross_entropy_forward", "sample_tokens"]
    assert kernels_in(lose_and_sample) == (called if dtype == tf.bfloat16 else [])


def test_the_call_of_a_kernel():
    layer = create_layer(X, MASK, 90)
    ir = layer.experimental_get_compiler_ir(*layer.input_signature)
    text = ir(stage="stablehlo", platform_name="CPU")
    (call,) = [
        line
        for line in text.splitlines()
        if "@__gpu$xla.gpu.ptx" in line and r"name = \22attention_forward\22" in line
    ]
    # Two pointers of Triton's; row-major layouts, which a kernel takes for granted.
    assert "tensor<3x24x96xbf16>, tensor<96xf32>, tensor<3x24xf32>, tensor<2xui32>" in call
    assert "tensor<1xi32>, tensor<1xi32>) -> tuple<tensor<3x24x32xbf16>, tensor<3x2x24x" in call
    assert "dense<[2, 1, 0]>" in call
    assert "output_indices = [4 : i32, 5 : i32]" in call
    assert "grid_x = 6 : i32, grid_y = 1 : i32, grid_z = 1 : i32, block_x = 128 : i32" in call


@pytest.mark.parametrize("number", [1, 7, 100, 4096, 65_536, 1_000_003])
@pytest.mark.parametrize("width", [16, 256, 768, 1024])
def test_tiles_cover_all_rows(number, width):
    for chosen in (
        tiles.norm_forward(number, width),
        tiles.norm_backward(number, width),
        tiles.gelu_forward(number, width),
        tiles.gelu_backward(number, width),
    ):
        of_program = chosen.rows * chosen.steps
        assert (chosen.programs - 1) * of_program < number <= chosen.programs * of_program
        assert chosen.columns * chosen.blocks >= width


# Of compute capability 8.6, 8.9 and 12.0: 99 KiB a block, less than all others (CUDA's
# programming guide, "Technical Specifications per Compute Capability").
LEAST_SHARED_BYTES = 99 << 10


@pytest.mark.parametrize("length", [32, 64, 128, 512])
def test_attention_fits_into_the_smallest_shared_memory(length):
    constants = {"SEQ": length, "HEADS": 2, "SIZE": max(attention.HEAD_SIZES)}
    constants |= {"SCALE": 0.125, "RATE": 0.1, "THRESHOLD": 1}
    forward = {"qkv": "bf16", "bias": "fp32", "mask": "fp32", "key": "u32"}
    forward |= {"out": "bf16", "lse": "fp32"}
    backward = forward | {"d_out": "bf16", "d_qkv": "bf16", "d_bias": "fp32"}
    of_gradient = "attention_backward" if length > 128 else "attention_backward_short"
    for name, pointers, chosen in (
        ("attention_forward", forward, tiles.attention_forward(length)),
        (of_gradient, backward, tiles.attention_backward(length)),
    ):
        given = constants | {"QUERIES": chosen.queries, "KEYS": chosen.keys}
        options = chosen.num_warps, chosen.num_stages
        kernel = calls.compile_kernel(
            attention.MODULE, name, tuple(pointers.items()), tuple(given.items()), options, 86
        )
        assert 0 < kernel.shared_bytes <= LEAST_SHARED_BYTES


@pytest.mark.parametrize("width", [256, 768, 1024, 2048])
def test_gradients_of_rows_fit_into_the_smallest_shared_memory(width):
    matrices, dropout = {"x": "bf16", "residual": "bf16"}, {"RATE": 0.1, "THRESHOLD": 1}
    constants = {"ROWS": 4096, "WIDTH": width}
    norm = {**matrices, "bias": "fp32", "gamma": "fp32", "key": "u32", "d_y": "bf16"}
    norm |= {"d_x": "bf16", "d_residual": "bf16", "sums": "fp32"}
    embeddings = {"x": "fp32", "gamma": "fp32", "key": "u32", "d_y": "bf16"}
    embeddings |= {"d_x": "fp32", "sums": "fp32"}
    gelu = {"x": "bf16", "bias": "fp32", "d_y": "bf16", "d_x": "bf16", "sums": "fp32"}
    of_norm = {**constants, "EPSILON": 1e-12, **dropout}
    for name, pointers, known, chosen in (
        ("add_norm_backward", norm, of_norm, tiles.norm_backward(4096, width)),
        ("norm_dropout_backward", embeddings, of_norm, tiles.norm_backward(4096, width)),
        ("bias_gelu_backward", gelu, constants, tiles.gelu_backward(4096, width)),
    ):
        given = known | rows._steps(chosen)
        kernel = calls.compile_kernel(
            rows.MODULE,
            name,
            tuple(pointers.items()),
            tuple(given.items()),
            (chosen.num_warps, chosen.num_stages),
            86,
        )
        assert kernel.shared_bytes <= LEAST_SHARED_BYTES


def test_attributes():
    value = {"a": 'x"\\\n', "b": [1, -2]}
    assert calls.mlir_attribute(value) == r'{a = "x\22\5C\0A", b = [1 : i32, -2 : i32]}'


def test_compiled_code():
    pointers = tuple((name, "bf16") for name in ("x", "bias", "d_y", "d_x", "sums"))
    constants = (("ROWS", 64), ("WIDTH", 64), ("STEPS", 1), ("STAGES", 1))
    constants += (("TILE", 4), ("COLUMNS", 64))
    arguments = "triton_rows", "bias_gelu_backward", pointers, constants, (4, 1)
    for capability, target in ((80, "sm_80"), (90, "sm_90a"), (120, "sm_120a")):
        kernel = calls.compile_kernel(*arguments, capability)
        assert f".target {target}\n" in kernel.ptx
        assert f".entry {kernel.name}(" in kernel.ptx
        assert len(re.findall(r"^\s*\.param", kernel.ptx, re.MULTILINE)) == len(pointers) + 2
    with pytest.raises(ValueError, match="bias_gelu_backward takes"):
        calls.compile_kernel(*arguments[:3], constants[::-1], (4, 1), 90)
