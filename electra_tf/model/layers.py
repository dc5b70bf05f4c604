"""Layers of an encoder: the weights of linear layers, normalizations and Transformer layers.

What they compute is in `electra_tf.model.layer_functions`. Weights are float32; products run in
the layer's compute dtype.
"""

import contextlib
from collections.abc import Iterator

import keras
import tensorflow as tf

from electra_tf.config.encoder import EncoderConfig
from electra_tf.model.compilation import traced_once
from electra_tf.model.kernels import cast_kernel, is_fusing
from electra_tf.model.layer_functions import (
    LayerWeights,
    add_bias,
    product,
    transformer_layer,
)

# Layers of the same shape share a graph.
_transformer_layer_graph = traced_once(transformer_layer)


class _Initial:
    """Whether new weights are random."""

    is_random = True


@contextlib.contextmanager
def zeros_initially() -> Iterator[None]:
    """Makes new weights zeros, for models whose weights are read next.

    Drawing a table of random numbers takes three times its memory, and seconds per gigabyte.
    """
    _Initial.is_random = False
    try:
        yield
    finally:
        _Initial.is_random = True


def initializer(config: EncoderConfig) -> keras.initializers.Initializer:
    """Returns BERT's truncated normal initializer; callers set Keras's seed."""
    if not _Initial.is_random:
        return keras.initializers.Zeros()
    return keras.initializers.TruncatedNormal(stddev=config.initializer_range)


class Linear(keras.layers.Layer):
    """Float32 kernel [in, out] and bias [out]; fused kernels add the bias.

    Args:
        input_size: size of the last axis of the input.
        units: size of the last axis of the output.
        config: shape of the encoder.
        glorot: draw the kernel from Glorot and Bengio's uniform distribution (2010, eq. 16)
            instead of BERT's normal one. The authors' code does so where it names no
            initializer: in the projection of the embeddings, the last layer of the
            discriminator, and the heads of fine-tuning (`finetune.model.Dense`).
    """

    def __init__(
        self,
        input_size: int,
        units: int,
        config: EncoderConfig,
        *,
        glorot: bool = False,
        **kwargs,
    ) -> None:
        super().__init__(autocast=False, **kwargs)
        self.kernel = self.add_weight(
            shape=(input_size, units),
            initializer=keras.initializers.GlorotUniform() if glorot else initializer(config),
            autocast=False,
            name="kernel",
        )
        self.bias = self.add_weight(
            shape=(units,), initializer="zeros", autocast=False, name="bias"
        )
        self.built = True

    def product(self, x: tf.Tensor, *, float32: bool = False) -> tf.Tensor:
        """Returns `x @ kernel` [..., out] in the compute dtype, without the bias.

        With `float32`, the product is float32 whatever the compute dtype.
        """
        return product(x, tf.convert_to_tensor(self.kernel) if float32 else cast_kernel(self))

    def call(self, x: tf.Tensor) -> tf.Tensor:
        """Returns `x @ kernel + bias` in the compute dtype."""
        return add_bias(self.product(x), self.bias)


class LayerNorm(keras.layers.Layer):
    """Float32 scale `gamma` and offset `beta` [width] of a layer normalization."""

    def __init__(self, width: int, config: EncoderConfig, **kwargs) -> None:
        super().__init__(autocast=False, dtype="float32", **kwargs)
        self.epsilon = config.layer_norm_epsilon
        self.gamma = self.add_weight(
            shape=(width,), initializer="ones", autocast=False, name="gamma"
        )
        self.beta = self.add_weight(
            shape=(width,), initializer="zeros", autocast=False, name="beta"
        )
        self.built = True


class TransformerLayer(keras.layers.Layer):
    """One post-LayerNorm Transformer layer of BERT (Devlin et al. 2019)."""

    def __init__(self, config: EncoderConfig, **kwargs) -> None:
        super().__init__(autocast=False, **kwargs)
        self.config = config
        hidden, dtype = config.hidden_size, self.dtype_policy

        def linear(input_size: int, units: int, name: str) -> Linear:
            return Linear(input_size, units, config, dtype=dtype, name=name)

        with keras.name_scope(self.name):
            self.qkv = linear(hidden, 3 * hidden, "attention_qkv")
            self.attention_output = linear(hidden, hidden, "attention_output")
            self.attention_norm = LayerNorm(hidden, config, name="attention_LayerNorm")
            self.intermediate = linear(hidden, config.intermediate_size, "intermediate")
            self.output_projection = linear(config.intermediate_size, hidden, "output")
            self.output_norm = LayerNorm(hidden, config, name="output_LayerNorm")
        self.built = True

    @property
    def linears(self) -> list[Linear]:
        """Linear layers of this layer."""
        return [self.qkv, self.attention_output, self.intermediate, self.output_projection]

    def read_weights(self) -> LayerWeights:
        """Current weights as tensors; kernels are in the compute dtype."""
        vector = tf.convert_to_tensor
        return LayerWeights(
            qkv_kernel=cast_kernel(self.qkv),
            qkv_bias=vector(self.qkv.bias),
            attention_kernel=cast_kernel(self.attention_output),
            attention_bias=vector(self.attention_output.bias),
            attention_gamma=vector(self.attention_norm.gamma),
            attention_beta=vector(self.attention_norm.beta),
            intermediate_kernel=cast_kernel(self.intermediate),
            intermediate_bias=vector(self.intermediate.bias),
            output_kernel=cast_kernel(self.output_projection),
            output_bias=vector(self.output_projection.bias),
            output_gamma=vector(self.output_norm.gamma),
            output_beta=vector(self.output_norm.beta),
        )

    def call(
        self,
        x: tf.Tensor,
        input_mask: tf.Tensor,
        dropout_keys: tf.Tensor | None = None,
        positions: tf.Tensor | slice | None = None,
    ) -> tf.Tensor:
        """Returns the layer's output.

        Args:
            x: [batch, seq, hidden] in the compute dtype.
            input_mask: float32 [batch, seq] or [batch, seq, seq], 1 for visible positions.
            dropout_keys: uint32 [3, 2], one key per dropout; None for inference.
            positions: positions to compute the output at, int32 [batch, n] or a slice that is
                the same for all rows; None is all positions.
        """
        is_static = isinstance(positions, slice)
        function = _transformer_layer_graph if is_fusing() else transformer_layer
        return function(
            x,
            input_mask,
            self.read_weights(),
            dropout_keys,
            None if is_static else positions,
            config=self.config,
            bounds=(positions.start, positions.stop, positions.step) if is_static else None,
        )
