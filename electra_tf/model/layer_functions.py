"""What the layers of an encoder compute, as functions of tensors.

Everything between two matrix products is one fused kernel (see `electra_tf.model.kernels`).
Normalization, softmax and GELU are always in float32.
"""

import contextlib
import contextvars
import functools
import math
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import tensorflow as tf

from electra_tf.config.encoder import EncoderConfig
from electra_tf.model import randomness
from electra_tf.model.custom_gradients import custom_gradient
from electra_tf.model.gpu import attention as gpu_attention
from electra_tf.model.gpu import rows as gpu_rows
from electra_tf.model.gpu.calls import has_kernels
from electra_tf.model.kernels import (
    barrier,
    fused,
    has_onednn,
    is_compiled,
    is_compiled_as_a_whole,
    is_fusing,
    sum_rows,
)

_has_erf = contextvars.ContextVar("gelu_has_erf", default=True)
# Added to the scores of padding keys, as in BERT; exp() of it is 0.
MASKED_SCORE = -10_000.0


class LayerWeights(NamedTuple):
    """Weights of a Transformer layer: kernels [in, out], and vectors."""

    qkv_kernel: tf.Tensor
    qkv_bias: tf.Tensor
    attention_kernel: tf.Tensor
    attention_bias: tf.Tensor
    attention_gamma: tf.Tensor
    attention_beta: tf.Tensor
    intermediate_kernel: tf.Tensor
    intermediate_bias: tf.Tensor
    output_kernel: tf.Tensor
    output_bias: tf.Tensor
    output_gamma: tf.Tensor
    output_beta: tf.Tensor


def transformer_layer(
    x: tf.Tensor,
    input_mask: tf.Tensor,
    weights: LayerWeights,
    dropout_keys: tf.Tensor | None,
    positions: tf.Tensor | None,
    *,
    config: EncoderConfig,
    bounds: tuple[int | None, ...] | None,
) -> tf.Tensor:
    """Computes a Transformer layer, as a function of its weights.

    Args:
        x, input_mask, dropout_keys, positions: see `TransformerLayer.call`.
        weights: the weights.
        config: shape of the encoder, which has the dropout rates.
        bounds: arguments of the slice of positions to compute the output at; None for
            `positions`.
    """
    probs_key, attention_output_key, output_key = _keys(dropout_keys, 3)
    has_dropout = dropout_keys is not None
    attention_dropout = config.attention_probs_dropout_prob if has_dropout else 0.0
    hidden_dropout = config.hidden_dropout_prob if has_dropout else 0.0
    wanted = positions if bounds is None else slice(*bounds)

    qkv, num_heads = product(x, weights.qkv_kernel), config.num_attention_heads
    if wanted is None and gpu_attention.has_attention(qkv, input_mask, num_heads):
        context = gpu_attention.attention(
            qkv,
            weights.qkv_bias,
            input_mask,
            probs_key,
            num_heads=num_heads,
            rate=attention_dropout,
        )
    else:
        # each (batch, heads, seq, head_size)
        query, key, value = split_heads(qkv, weights.qkv_bias, num_heads=num_heads)
        if wanted is not None:
            query, x = _select(query, wanted, axis=2), _select(x, wanted, axis=1)
            if input_mask.shape.rank == 3:
                input_mask = _select(input_mask, wanted, axis=1)
        context = attention(
            query,
            key,
            value,
            input_mask,
            probs_key,
            rate=attention_dropout,
            for_inference=not has_dropout,
        )
        context = merge_heads(context)  # (batch, seq, hidden)
    x = add_norm(
        product(context, weights.attention_kernel),
        x,
        weights.attention_bias,
        weights.attention_gamma,
        weights.attention_beta,
        attention_output_key,
        rate=hidden_dropout,
        epsilon=config.layer_norm_epsilon,
    )
    intermediate = bias_activation(
        product(x, weights.intermediate_kernel),
        weights.intermediate_bias,
        activation=config.hidden_act,
    )
    return add_norm(
        product(intermediate, weights.output_kernel),
        x,
        weights.output_bias,
        weights.output_gamma,
        weights.output_beta,
        output_key,
        rate=hidden_dropout,
        epsilon=config.layer_norm_epsilon,
    )


def attention(
    query: tf.Tensor,
    key: tf.Tensor,
    value: tf.Tensor,
    input_mask: tf.Tensor,
    dropout_key: tf.Tensor,
    *,
    rate: float,
    for_inference: bool = False,
) -> tf.Tensor:
    """Returns the attention's context [batch, heads, queries, head_size].

    Args:
        query, key, value: [batch, heads, queries or keys, head_size].
        input_mask: see `attention_softmax`.
        dropout_key: uint32 [2], of the dropout of probabilities.
        rate: dropout rate.
        for_inference: whether there is no dropout, and no gradient is needed.
    """
    if is_compiled_as_a_whole():
        return _attention_saving_probs(query, key, value, input_mask, dropout_key, rate=rate)
    scores = tf.matmul(query, key, transpose_b=True)  # (batch, heads, seq, seq)
    is_padding_mask = input_mask.shape.rank == 2
    if for_inference and is_padding_mask and is_fusing() and has_onednn():
        probs = onednn_softmax(scores, input_mask)
    else:
        probs = attention_softmax(scores, input_mask, dropout_key, rate=rate)
    return tf.matmul(probs, value)


def _attention_saving_probs(
    query: tf.Tensor,
    key: tf.Tensor,
    value: tf.Tensor,
    input_mask: tf.Tensor,
    dropout_key: tf.Tensor,
    *,
    rate: float,
) -> tf.Tensor:
    """Computes `attention` with a gradient that recomputes neither softmax nor dropout.

    For it, one array [batch, heads, queries, keys] is kept: the probabilities, negative where
    dropout drops them. If P are the probabilities and dO is the gradient of the output O, that
    of the scores is P * (dP - rowsum(dO * O)) (Dao et al. 2022, "FlashAttention", app. B.2).
    """

    @custom_gradient
    def attend(query: tf.Tensor, key: tf.Tensor, value: tf.Tensor):
        scores = tf.matmul(query, key, transpose_b=True)
        # Draws dropout when it is needed, not for all layers at once.
        scores, own_key = barrier(scores, dropout_key)
        signed = _signed_probs(scores, input_mask, own_key, rate=rate)
        context = tf.matmul(tf.nn.relu(signed), value)

        def gradient(d_context: tf.Tensor):
            probs, output, d_context = barrier(signed, context, d_context)
            d_value = tf.matmul(tf.nn.relu(probs), d_context, transpose_a=True)
            d_probs = _float32(tf.matmul(d_context, value, transpose_b=True))
            means = tf.reduce_sum(_float32(d_context) * _float32(output), -1, keepdims=True)
            d_probs = tf.where(probs > 0, d_probs, 0.0) - (1 - rate) * means
            d_scores = tf.cast(tf.abs(_float32(probs)) * d_probs, probs.dtype)
            d_query = tf.matmul(d_scores, key)
            d_key = tf.matmul(d_scores, query, transpose_a=True)
            return d_query, d_key, d_value

        return context, gradient

    return attend(query, key, value)


def _signed_probs(
    scores: tf.Tensor, input_mask: tf.Tensor, key: tf.Tensor, *, rate: float
) -> tf.Tensor:
    """Returns probabilities / (1 - rate), negative where dropout drops them."""
    scores32 = _float32(scores) + _score_bias(input_mask)
    powers = tf.exp(scores32 - tf.reduce_max(scores32, axis=-1, keepdims=True))
    # One division for each row; tf.nn.softmax has one for each element.
    probs = powers * ((1 / (1 - rate)) / tf.reduce_sum(powers, axis=-1, keepdims=True))
    if rate:
        probs = tf.where(randomness.keeps(probs, rate, key), probs, -probs)
    return tf.cast(probs, scores.dtype)


def product(x: tf.Tensor, kernel: tf.Tensor) -> tf.Tensor:
    """Returns `x @ kernel` [..., out] in the dtype of the kernel [in, out]."""
    y = tf.matmul(tf.reshape(tf.cast(x, kernel.dtype), [-1, kernel.shape[0]]), kernel)
    rows, units = x.shape[:-1], kernel.shape[1]
    if rows.rank is not None and rows.as_list().count(None) <= 1:
        return tf.reshape(y, [*(-1 if size is None else size for size in rows), units])
    y = tf.reshape(y, tf.concat([tf.shape(x)[:-1], [units]], axis=0))
    y.set_shape(rows.concatenate([units]))
    return y


def _select(x: tf.Tensor, positions: tf.Tensor | slice, *, axis: int) -> tf.Tensor:
    if isinstance(positions, slice):
        return x[(slice(None),) * axis + (positions,)]
    return tf.gather(x, positions, axis=axis, batch_dims=1)


def _keys(dropout_keys: tf.Tensor | None, count: int) -> list[tf.Tensor]:
    """Returns the keys of `count` dropouts; without dropout, zeros that nothing reads."""
    if dropout_keys is None:
        return [tf.zeros([2], tf.uint32)] * count
    return tf.unstack(dropout_keys, num=count)


def _float32(x: tf.Tensor) -> tf.Tensor:
    return tf.cast(x, tf.float32)


def add_bias(x: tf.Tensor, bias: tf.Tensor) -> tf.Tensor:
    """Returns `x + bias` in the dtype of `x`."""
    if not is_compiled():
        return _add_bias(x, bias)

    # With the barrier of a fused function, XLA would first copy a product that it has padded.
    function = _add_bias.__wrapped__ if has_kernels(x) else _add_bias

    # XLA would copy the gradient of `x`, and compute that of the bias slowly.
    @custom_gradient
    def add(x: tf.Tensor, bias: tf.Tensor):
        return function(x, bias), lambda upstream: (upstream, sum_rows(upstream))

    return add(tf.convert_to_tensor(x), tf.convert_to_tensor(bias))


@fused()
def _add_bias(x: tf.Tensor, bias: tf.Tensor) -> tf.Tensor:
    return tf.cast(_float32(x) + bias, x.dtype)


def split_heads(
    qkv: tf.Tensor, bias: tf.Tensor, *, num_heads: int
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Adds the bias to [batch, seq, 3 * hidden] and splits it into query, key and value.

    Returns:
        Three tensors [batch, heads, seq, head_size]; the query is divided by
        sqrt(head_size) (Vaswani et al. 2017, eq. 1).
    """
    head_size = qkv.shape[-1] // (3 * num_heads)
    scale = 1 / math.sqrt(head_size)
    if not is_compiled():
        return _split_heads(qkv, bias, num_heads=num_heads, query_scale=scale)

    @custom_gradient
    def split(qkv: tf.Tensor, bias: tf.Tensor):
        outputs = _split_heads(qkv, bias, num_heads=num_heads, query_scale=scale)

        # XLA would pad each part to the full size and add them.
        def gradient(d_query: tf.Tensor, d_key: tf.Tensor, d_value: tf.Tensor):
            if is_compiled_as_a_whole():
                d_qkv = _merge_qkv(scaled(d_query, factor=scale), d_key, d_value)
                return d_qkv, sum_rows(*barrier(d_qkv))
            parts = [scaled(merge_heads(d_query), factor=scale)]
            parts += [merge_heads(d_key), merge_heads(d_value)]
            d_qkv = tf.concat(parts, axis=-1)
            return d_qkv, sum_rows(d_qkv)

        return outputs, gradient

    return split(tf.convert_to_tensor(qkv), tf.convert_to_tensor(bias))


@fused("num_heads", "query_scale")
def _split_heads(
    qkv: tf.Tensor, bias: tf.Tensor, *, num_heads: int, query_scale: float
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    batch, length = tf.shape(qkv)[0], tf.shape(qkv)[1]
    head_size = qkv.shape[-1] // (3 * num_heads)
    x = tf.reshape(_float32(qkv) + bias, [batch, length, 3, num_heads, head_size])
    x = tf.transpose(x, [2, 0, 3, 1, 4])  # (3, batch, heads, seq, head_size)
    query = x[0] * query_scale
    return tf.cast(query, qkv.dtype), tf.cast(x[1], qkv.dtype), tf.cast(x[2], qkv.dtype)


def _merge_qkv(query: tf.Tensor, key: tf.Tensor, value: tf.Tensor) -> tf.Tensor:
    """Converts three [batch, heads, seq, head_size] to [batch, seq, 3 * hidden]."""
    _, heads, _, head_size = query.shape
    batch, length = tf.shape(query)[0], tf.shape(query)[2]
    x = tf.transpose(tf.stack([query, key, value]), [1, 3, 0, 2, 4])
    return tf.reshape(x, [batch, length, 3 * heads * head_size])


@fused("factor")
def scaled(x: tf.Tensor, *, factor: float) -> tf.Tensor:
    """Returns `factor * x` in the dtype of `x`."""
    return tf.cast(_float32(x) * factor, x.dtype)


@fused()
def merge_heads(context: tf.Tensor) -> tf.Tensor:
    """Converts [batch, heads, seq, head_size] to [batch, seq, heads * head_size]."""
    _, heads, _, head_size = context.shape
    batch, length = tf.shape(context)[0], tf.shape(context)[2]
    x = tf.transpose(context, [0, 2, 1, 3])
    return tf.reshape(x, [batch, length, heads * head_size])


@fused("rate")
def attention_softmax(
    scores: tf.Tensor, input_mask: tf.Tensor, key: tf.Tensor, *, rate: float
) -> tf.Tensor:
    """Returns attention probabilities over the keys, with dropout.

    Args:
        scores: [batch, heads, queries, keys].
        input_mask: float32 [batch, keys], 0 for masked keys; or [batch, queries, keys], 0 for
            keys masked from a query.
        key: uint32 [2], key of the dropout.
        rate: dropout rate.
    """
    probs = tf.nn.softmax(_float32(scores) + _score_bias(input_mask))
    return tf.cast(randomness.dropout(probs, rate, key), scores.dtype)


def onednn_softmax(scores: tf.Tensor, input_mask: tf.Tensor) -> tf.Tensor:
    """Computes `attention_softmax` without dropout, by TensorFlow's operation.

    oneDNN's softmax takes about half as long as XLA's, and is float32 inside. Without oneDNN
    (`has_onednn`), the operation loses accuracy in bfloat16; so do fully masked rows, which
    only fill up a batch.

    Args:
        scores: [batch, heads, queries, keys].
        input_mask: float32 [batch, keys], 0 for padding.
    """
    return tf.nn.softmax(scores + tf.cast(_score_bias(input_mask), scores.dtype))


def _score_bias(input_mask: tf.Tensor) -> tf.Tensor:
    # LiteRT does not support two new axes in one slice.
    by_query = input_mask if input_mask.shape.rank == 3 else input_mask[:, None]
    return tf.expand_dims((1.0 - by_query) * MASKED_SCORE, axis=1)


@fused("activation", sum_apart=True, gpu_kernel=gpu_rows.bias_activation)
def bias_activation(x: tf.Tensor, bias: tf.Tensor, *, activation: str) -> tf.Tensor:
    """Returns `activation(x + bias)`; "gelu" is the exact GELU, with erf."""
    return tf.cast(ACTIVATION_FUNCTIONS[activation](_float32(x) + bias), x.dtype)


@contextlib.contextmanager
def without_erf() -> Iterator[None]:
    """Traces the exact GELU with tf.nn.gelu, for StableHLO, which has no erf."""
    token = _has_erf.set(False)
    try:
        yield
    finally:
        _has_erf.reset(token)


def gelu(x: tf.Tensor) -> tf.Tensor:
    """Returns the exact GELU as the authors write it (Hendrycks and Gimpel 2016).

    tf.nn.gelu is written with erfc, which takes twice as long, with XLA and without.
    """
    if not _has_erf.get():
        return tf.nn.gelu(x)
    return 0.5 * x * (1.0 + tf.math.erf(x / math.sqrt(2)))


# By the names in `electra_tf.config.encoder.ACTIVATIONS`.
ACTIVATION_FUNCTIONS: Mapping[str, Callable[[tf.Tensor], tf.Tensor]] = {
    "gelu": gelu,
    "gelu_tanh": functools.partial(tf.nn.gelu, approximate=True),
    "relu": tf.nn.relu,
    "tanh": tf.tanh,
    "linear": lambda x: x,
}


def normalize(x: tf.Tensor, gamma: tf.Tensor, beta: tf.Tensor, epsilon: float) -> tf.Tensor:
    """Returns layer normalization of float32 `x` over its last axis (Ba et al. 2016)."""
    mean = tf.reduce_mean(x, axis=-1, keepdims=True)
    centered = x - mean
    variance = tf.reduce_mean(tf.square(centered), axis=-1, keepdims=True)
    return centered * tf.math.rsqrt(variance + epsilon) * gamma + beta


@fused("rate", "epsilon", sum_apart=True, gpu_kernel=gpu_rows.add_norm)
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
    """Returns LayerNorm(residual + dropout(x + bias)) in the dtype of `x`."""
    x32 = randomness.dropout(_float32(x) + bias, rate, key)
    return tf.cast(normalize(_float32(residual) + x32, gamma, beta, epsilon), x.dtype)


@fused("rate", "epsilon", "dtype", sum_apart=True, gpu_kernel=gpu_rows.norm_dropout)
def norm_dropout(
    x: tf.Tensor,
    gamma: tf.Tensor,
    beta: tf.Tensor,
    key: tf.Tensor,
    *,
    rate: float,
    epsilon: float,
    dtype: str,
) -> tf.Tensor:
    """Returns dropout(LayerNorm(x)) in this dtype."""
    return tf.cast(
        randomness.dropout(normalize(_float32(x), gamma, beta, epsilon), rate, key), dtype
    )


@fused("activation", "epsilon", sum_apart=True)
def activation_norm(
    x: tf.Tensor,
    bias: tf.Tensor,
    gamma: tf.Tensor,
    beta: tf.Tensor,
    *,
    activation: str,
    epsilon: float,
) -> tf.Tensor:
    """Returns LayerNorm(activation(x + bias)) in the dtype of `x`."""
    x32 = _float32(bias_activation.__wrapped__(_float32(x), bias, activation=activation))
    return tf.cast(normalize(x32, gamma, beta, epsilon), x.dtype)
