"""Functions of the rows of matrices, with one kernel forward and one backward.

XLA stores the terms of the gradients of biases and of normalization scales, and sums them in
separate kernels. These kernels sum them as they compute them.
"""

import math

import tensorflow as tf

from electra_tf.model.custom_gradients import custom_gradient
from electra_tf.model.gpu import tiles
from electra_tf.model.gpu.calls import Launch, call_kernel, has_kernels

MODULE = "triton_rows"


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
) -> tf.Tensor | None:
    """Computes `layer_functions.add_norm`; see `gpu_kernel` of `kernels.fused`."""
    if not has_kernels(x, residual):
        return None
    spec = tf.TensorSpec(x.shape, x.dtype)
    rows, width = _rows_and_width(x)
    constants = _norm_constants(rows, width, rate, epsilon)

    @custom_gradient
    def call(x, residual, bias, gamma, beta, key):
        operands = {"x": x, "residual": residual, "bias": bias, "gamma": gamma}
        forward = tiles.norm_forward(rows, width)
        (y,) = call_kernel(
            MODULE,
            "add_norm_forward",
            {**operands, "beta": beta, "key": key},
            {"y": spec},
            {**constants, "TILE": forward.rows, "COLUMNS": forward.columns},
            Launch((forward.programs, 1, 1), forward.num_warps),
        )

        def gradient(d_y: tf.Tensor):
            backward = tiles.norm_backward(rows, width)
            d_x, d_residual, sums = call_kernel(
                MODULE,
                "add_norm_backward",
                {**operands, "key": key, "d_y": d_y},
                {
                    "d_x": spec,
                    "d_residual": spec,
                    "sums": tf.TensorSpec([backward.programs, 3, width], tf.float32),
                },
                {**constants, **_steps(backward)},
                Launch((backward.programs, 1, 1), backward.num_warps),
            )
            d_bias, d_gamma, d_beta = tf.unstack(tf.reduce_sum(sums, axis=0))
            return d_x, d_residual, d_bias, d_gamma, d_beta, None

        return y, gradient

    return call(x, residual, bias, gamma, beta, key)


def norm_dropout(
    x: tf.Tensor,
    gamma: tf.Tensor,
    beta: tf.Tensor,
    key: tf.Tensor,
    *,
    rate: float,
    epsilon: float,
    dtype: str,
) -> tf.Tensor | None:
    """Computes `layer_functions.norm_dropout`; see `gpu_kernel` of `kernels.fused`."""
    if x.dtype != tf.float32 or not has_kernels(x, dtype=tf.as_dtype(dtype)):
        return None
    rows, width = _rows_and_width(x)
    constants = _norm_constants(rows, width, rate, epsilon)

    @custom_gradient
    def call(x, gamma, beta, key):
        forward = tiles.norm_forward(rows, width)
        (y,) = call_kernel(
            MODULE,
            "norm_dropout_forward",
            {"x": x, "gamma": gamma, "beta": beta, "key": key},
            {"y": tf.TensorSpec(x.shape, dtype)},
            {**constants, "TILE": forward.rows, "COLUMNS": forward.columns},
            Launch((forward.programs, 1, 1), forward.num_warps),
        )

        def gradient(d_y: tf.Tensor):
            backward = tiles.norm_backward(rows, width)
            d_x, sums = call_kernel(
                MODULE,
                "norm_dropout_backward",
                {"x": x, "gamma": gamma, "key": key, "d_y": d_y},
                {
                    "d_x": tf.TensorSpec(x.shape, x.dtype),
                    "sums": tf.TensorSpec([backward.programs, 2, width], tf.float32),
                },
                {**constants, **_steps(backward)},
                Launch((backward.programs, 1, 1), backward.num_warps),
            )
            d_gamma, d_beta = tf.unstack(tf.reduce_sum(sums, axis=0))
            return d_x, d_gamma, d_beta, None

        return y, gradient

    return call(x, gamma, beta, key)


def bias_activation(x: tf.Tensor, bias: tf.Tensor, *, activation: str) -> tf.Tensor | None:
    """Computes `layer_functions.bias_activation` with the exact GELU.

    See `gpu_kernel` of `kernels.fused`.
    """
    if activation != "gelu" or not has_kernels(x):
        return None
    spec = tf.TensorSpec(x.shape, x.dtype)
    rows, width = _rows_and_width(x)

    @custom_gradient
    def call(x, bias):
        forward = tiles.gelu_forward(rows, width)
        (y,) = call_kernel(
            MODULE,
            "bias_gelu_forward",
            {"x": x, "bias": bias},
            {"y": spec},
            {"ROWS": rows, "WIDTH": width, "TILE": forward.rows, "COLUMNS": forward.columns},
            Launch((forward.blocks * forward.programs, 1, 1), forward.num_warps),
        )

        def gradient(d_y: tf.Tensor):
            backward = tiles.gelu_backward(rows, width)
            d_x, sums = call_kernel(
                MODULE,
                "bias_gelu_backward",
                {"x": x, "bias": bias, "d_y": d_y},
                {"d_x": spec, "sums": tf.TensorSpec([backward.programs, width], tf.float32)},
                {"ROWS": rows, "WIDTH": width, **_steps(backward)},
                Launch((backward.blocks, backward.programs, 1), backward.num_warps),
            )
            return d_x, tf.reduce_sum(sums, axis=0)

        return y, gradient

    return call(x, bias)


def _rows_and_width(x: tf.Tensor) -> tuple[int, int]:
    return math.prod(x.shape[:-1]), x.shape[-1]


def _norm_constants(
    rows: int, width: int, rate: float, epsilon: float
) -> dict[str, int | float]:
    return {
        "ROWS": rows,
        "WIDTH": width,
        "EPSILON": epsilon,
        "RATE": rate,
        "THRESHOLD": round(rate * 2**32),
    }


def _steps(backward: tiles.RowTiles) -> dict[str, int]:
    steps = {"STEPS": backward.steps, "STAGES": backward.num_stages}
    return steps | {"TILE": backward.rows, "COLUMNS": backward.columns}
