"""Functions of the rows of matrices, with one kernel forward and one backward.

XLA stores the terms of the gradients of biases and of the scales of normalizations, and sums
them in other kernels. These kernels sum while they compute.
"""

import math
from collections.abc import Callable

import tensorflow as tf

from electra_tf.model.gpu.calls import Launch, call_kernel
from electra_tf.model.kernels import barrier

MODULE = "triton_rows"
# Elements of a tile, and columns of one where a row need not be in one. All of these were the
# fastest of some on an H100, or nearly, at widths of 256 to 3,072.
TILE_SIZE = 2048
GELU_COLUMNS, GELU_TILE_SIZE = 128, 1024
# Programs that share the rows of a backward kernel: some for each of a GPU's processors.
NORM_PROGRAMS, GELU_PROGRAMS = 528, 1056
NORM_WARPS, NORM_BACKWARD_WARPS, GELU_WARPS = 4, 2, 8


def add_norm(
    x: tf.Tensor,
    residual: tf.Tensor,
    bias: tf.Tensor,
    gamma: tf.Tensor,
    beta: tf.Tensor,
    key: tf.Tensor,
    *,
    rate: float,
    epsilon: float,
) -> tf.Tensor:
    """As `layer_functions.add_norm`, for tensors of which `has_kernels` is true."""
    spec = tf.TensorSpec(x.shape, x.dtype)
    rows, width = _rows_and_width(x)
    columns = _next_power_of_two(width)
    tile = max(1, TILE_SIZE // columns)
    constants = {
        "ROWS": rows,
        "WIDTH": width,
        "EPSILON": epsilon,
        "RATE": rate,
        "THRESHOLD": round(rate * 2**32),
    }
    tiles = {"TILE": tile, "COLUMNS": columns}

    @tf.custom_gradient
    def call(x, residual, bias, gamma, beta, key):
        operands = {"x": x, "residual": residual, "bias": bias, "gamma": gamma}
        (y,) = call_kernel(
            MODULE,
            "add_norm_forward",
            {**operands, "beta": beta, "key": key},
            {"y": spec},
            {**constants, **tiles},
            Launch((_divide(rows, tile), 1, 1), NORM_WARPS),
        )

        def gradient(d_y: tf.Tensor):
            steps = _divide(rows, tile * NORM_PROGRAMS)
            programs = _divide(rows, tile * steps)
            d_x, d_residual, sums = call_kernel(
                MODULE,
                "add_norm_backward",
                {**operands, "key": key, "d_y": d_y},
                {
                    "d_x": spec,
                    "d_residual": spec,
                    "sums": tf.TensorSpec([programs, 3, width], tf.float32),
                },
                {**constants, "STEPS": steps, **tiles},
                Launch((programs, 1, 1), NORM_BACKWARD_WARPS),
            )
            d_bias, d_gamma, d_beta = tf.unstack(tf.reduce_sum(sums, axis=0))
            return d_x, d_residual, d_bias, d_gamma, d_beta, None

        return y, gradient

    return call(x, residual, bias, gamma, beta, key)


def bias_gelu(
    x: tf.Tensor, bias: tf.Tensor, forward: Callable[[tf.Tensor, tf.Tensor], tf.Tensor]
) -> tf.Tensor:
    """Returns `forward(x, bias)`, the exact GELU of `x + bias`, with its gradient as a kernel.

    XLA computes the function itself as fast. `has_kernels` is true of `x`.
    """
    spec = tf.TensorSpec(x.shape, x.dtype)
    rows, width = _rows_and_width(x)
    columns = min(GELU_COLUMNS, _next_power_of_two(width))
    tile, blocks = GELU_TILE_SIZE // columns, _divide(width, columns)

    @tf.custom_gradient
    def call(x, bias):
        def gradient(d_y: tf.Tensor):
            steps = _divide(rows * blocks, tile * GELU_PROGRAMS)
            programs = _divide(rows, tile * steps)
            d_x, sums = call_kernel(
                MODULE,
                "bias_gelu_backward",
                {"x": x, "bias": bias, "d_y": d_y},
                {"d_x": spec, "sums": tf.TensorSpec([programs, width], tf.float32)},
                {
                    "ROWS": rows,
                    "WIDTH": width,
                    "STEPS": steps,
                    "TILE": tile,
                    "COLUMNS": columns,
                },
                Launch((blocks, programs, 1), GELU_WARPS),
            )
            return d_x, tf.reduce_sum(sums, axis=0)

        return forward(*barrier(x, bias)), gradient

    return call(x, bias)


def _rows_and_width(x: tf.Tensor) -> tuple[int, int]:
    return math.prod(x.shape[:-1]), x.shape[-1]


def _divide(number: int, by: int) -> int:
    """Returns the quotient, rounded up."""
    return -(-number // by)


def _next_power_of_two(number: int) -> int:
    return 1 << (number - 1).bit_length()
