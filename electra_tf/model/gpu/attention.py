"""Attention as one kernel forward and one backward.

XLA computes attention as separate products, with the scores and probabilities of all heads in
the GPU's memory. These kernels keep them on the chip. Their inputs and outputs have the layout
of the products before and after.
"""

import math

import tensorflow as tf

from electra_tf.model.custom_gradients import custom_gradient
from electra_tf.model.gpu import tiles
from electra_tf.model.gpu.calls import Launch, call_kernel, has_kernels
from electra_tf.util.console import warn_once

MODULE = "triton_attention"
# Powers of two that tensor cores multiply, up to what fits into the registers.
HEAD_SIZES = (16, 32, 64)


def has_attention(qkv: tf.Tensor, input_mask: tf.Tensor, num_heads: int) -> bool:
    """Returns whether `attention` supports these inputs."""
    if not has_kernels(qkv) or input_mask.shape.rank != 2:
        return False
    size = qkv.shape[-1] // (3 * num_heads)
    if size not in HEAD_SIZES:
        warn_once(
            f"--triton_kernels: attention heads of size {size} have no kernel, only those of "
            f"{', '.join(map(str, HEAD_SIZES))}: XLA computes their attention"
        )
    return size in HEAD_SIZES


def attention(
    qkv: tf.Tensor,
    bias: tf.Tensor,
    input_mask: tf.Tensor,
    dropout_key: tf.Tensor,
    *,
    num_heads: int,
    rate: float,
) -> tf.Tensor:
    """Returns the attention's context [batch, seq, hidden].

    Dropout drops the same probabilities as that of `layer_functions.attention`.

    Args:
        qkv: [batch, seq, 3 * hidden], product for queries, keys and values.
        bias: float32 [3 * hidden], of the product.
        input_mask: float32 [batch, seq], 0 for masked keys.
        dropout_key: uint32 [2], of the dropout of probabilities.
        num_heads: number of heads.
        rate: dropout rate.
    """
    batch, length, width = qkv.shape
    hidden = width // 3
    constants = {
        "SEQ": length,
        "HEADS": num_heads,
        "SIZE": hidden // num_heads,
        "SCALE": 1 / math.sqrt(hidden // num_heads),
        "RATE": rate,
        "THRESHOLD": round(rate * 2**32),
    }

    def launch(chosen: tiles.AttentionTiles, blocks: int) -> Launch:
        # All on the first axis, the only one that allows more than 65,535 programs.
        programs = batch * num_heads * blocks
        return Launch((programs, 1, 1), chosen.num_warps, chosen.num_stages)

    @custom_gradient
    def attend(qkv: tf.Tensor, bias: tf.Tensor, mask: tf.Tensor, key: tf.Tensor):
        forward = tiles.attention_forward(length)
        operands = {"qkv": qkv, "bias": bias, "mask": mask, "key": key}
        results = {
            "out": tf.TensorSpec([batch, length, hidden], qkv.dtype),
            "lse": tf.TensorSpec([batch, num_heads, length], tf.float32),
        }
        context, lse = call_kernel(
            MODULE,
            "attention_forward",
            operands,
            results,
            {**constants, "QUERIES": forward.queries, "KEYS": forward.keys},
            launch(forward, tiles.divide(length, forward.queries)),
        )

        def gradient(d_context: tf.Tensor):
            backward = tiles.attention_backward(length)
            is_short = length <= backward.queries
            blocks = 1 if is_short else tiles.divide(length, backward.keys)
            d_qkv, sums = call_kernel(
                MODULE,
                "attention_backward_short" if is_short else "attention_backward",
                {**operands, "out": context, "lse": lse, "d_out": d_context},
                {
                    "d_qkv": tf.TensorSpec(qkv.shape, qkv.dtype),
                    "d_bias": tf.TensorSpec([batch * blocks, width], tf.float32),
                },
                {**constants, "QUERIES": backward.queries, "KEYS": backward.keys},
                launch(backward, blocks),
            )
            return d_qkv, tf.reduce_sum(sums, axis=0), None, None

        return context, gradient

    return attend(qkv, bias, input_mask, dropout_key)
