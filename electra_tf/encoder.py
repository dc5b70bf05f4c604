"""BERT's encoder as ELECTRA uses it: embeddings, projection, Transformer layers."""

import functools
from typing import NamedTuple

import keras
import tensorflow as tf

from electra_tf import random_bits
from electra_tf.encoder_config import EncoderConfig
from electra_tf.layers import (
    LayerNorm,
    Linear,
    TransformerLayer,
    initializer,
    norm_dropout,
)

DROPOUTS_PER_LAYER = 3


class EncoderOutput(NamedTuple):
    """`embedding_output` and `sequence_output`, both [batch, seq, hidden]."""

    embedding_output: tf.Tensor
    sequence_output: tf.Tensor


class Embeddings(keras.layers.Layer):
    """Token, position and segment embeddings, summed and normalized.

    One instance serves generator and discriminator where their embeddings are tied.
    """

    def __init__(self, config: EncoderConfig, **kwargs) -> None:
        super().__init__(autocast=False, **kwargs)
        self.config = config

        def table(rows: int, name: str) -> keras.Variable:
            return self.add_weight(
                shape=(rows, config.embedding_size),
                initializer=initializer(config),
                autocast=False,
                name=name,
            )

        self.word_embeddings = table(config.vocab_size, "word_embeddings")
        self.position_embeddings = table(config.max_position_embeddings, "position_embeddings")
        self.token_type_embeddings = table(config.type_vocab_size, "token_type_embeddings")
        with keras.name_scope(self.name):
            self.norm = LayerNorm(config.embedding_size, config, name="LayerNorm")
        self.built = True

    def call(
        self, input_ids: tf.Tensor, segment_ids: tf.Tensor, dropout_key: tf.Tensor | None = None
    ) -> tf.Tensor:
        """Returns [batch, seq, embedding] in the compute dtype.

        Args:
            input_ids: int32 [batch, seq].
            segment_ids: int32 [batch, seq], 0 or 1.
            dropout_key: uint32 [2]; None leaves dropout out.
        """
        words = tf.gather(tf.convert_to_tensor(self.word_embeddings), input_ids)
        positions = self.position_embeddings[: tf.shape(input_ids)[1]]
        # A product with one-hot rows: the gradient of a gather from two rows is slow.
        segments = tf.one_hot(segment_ids, self.config.type_vocab_size)
        segments = tf.einsum("bls,se->ble", segments, self.token_type_embeddings)
        x = norm_dropout(
            words + positions + segments,
            self.norm.gamma,
            self.norm.beta,
            tf.zeros([2], tf.uint32) if dropout_key is None else dropout_key,
            rate=0.0 if dropout_key is None else self.config.hidden_dropout_prob,
            epsilon=self.config.layer_norm_epsilon,
        )
        return tf.cast(x, self.compute_dtype)


class Encoder(keras.layers.Layer):
    """Embeddings (its own or shared ones), the projection to hidden size, and the layers.

    Args:
        config: shape of the encoder.
        embeddings: shared with another encoder; None makes its own.
        rematerialize: keep only the inputs of each layer for the backward pass, which
            computes the rest anew (Chen et al. 2016, "Training deep nets with sublinear
            memory cost").
    """

    def __init__(
        self,
        config: EncoderConfig,
        embeddings: Embeddings | None = None,
        *,
        rematerialize: bool = False,
        **kwargs,
    ) -> None:
        super().__init__(autocast=False, **kwargs)
        self.config = config
        self.rematerialize = rematerialize
        with keras.name_scope(self.name):
            self.embeddings = embeddings or Embeddings(
                config, dtype=self.dtype_policy, name="embeddings"
            )
            width = self.embeddings.config.embedding_size
            self.embeddings_project = None
            if width != config.hidden_size:
                self.embeddings_project = Linear(
                    width,
                    config.hidden_size,
                    config,
                    dtype=self.dtype_policy,
                    name="embeddings_project",
                )
            # One attribute each: a checkpoint does not follow a list of layers.
            for i in range(config.num_hidden_layers):
                layer = TransformerLayer(config, dtype=self.dtype_policy, name=f"layer_{i}")
                setattr(self, f"layer_{i}", layer)
        self.built = True

    @property
    def encoder_layers(self) -> list[TransformerLayer]:
        """The Transformer layers, bottom first."""
        return [getattr(self, f"layer_{i}") for i in range(self.config.num_hidden_layers)]

    @property
    def linears(self) -> list[Linear]:
        """All affine maps between embeddings and output."""
        project = [] if self.embeddings_project is None else [self.embeddings_project]
        return project + [linear for layer in self.encoder_layers for linear in layer.linears]

    def call(
        self,
        input_ids: tf.Tensor,
        input_mask: tf.Tensor,
        segment_ids: tf.Tensor,
        dropout_key: tf.Tensor | None = None,
    ) -> EncoderOutput:
        """Encodes a batch.

        Args:
            input_ids, input_mask, segment_ids: int32 [batch, seq].
            dropout_key: uint32 [2] from `random_bits.make_key`; None for inference.

        Returns:
            `EncoderOutput` in the compute dtype.
        """
        count = DROPOUTS_PER_LAYER * len(self.encoder_layers)
        embedding_key, layer_keys = None, [None] * len(self.encoder_layers)
        if dropout_key is not None:
            keys = random_bits.split(dropout_key, count + 1)
            embedding_key = keys[count]
            layer_keys = tf.split(keys[:count], len(self.encoder_layers))
        x = self.embeddings(input_ids, segment_ids, embedding_key)
        if self.embeddings_project is not None:
            x = self.embeddings_project(x)
        embedding_output = x
        mask = tf.cast(input_mask, tf.float32)
        for layer, keys in zip(self.encoder_layers, layer_keys, strict=True):
            run = functools.partial(layer, input_mask=mask, dropout_keys=keys)
            x = tf.recompute_grad(run)(x) if self.rematerialize else run(x)
        return EncoderOutput(embedding_output, x)
