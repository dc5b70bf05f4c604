"""BERT's encoder as used by ELECTRA: embeddings, projection, Transformer layers."""

import functools
from collections.abc import Sequence
from typing import NamedTuple

import keras
import tensorflow as tf

from electra_tf.config.encoder import EncoderConfig
from electra_tf.config.hyperparameters import PRECISIONS
from electra_tf.model import randomness
from electra_tf.model.embeddings import DisentangledEmbeddings, Embeddings
from electra_tf.model.layers import Linear, TransformerLayer

DROPOUTS_PER_LAYER = 3
# A position attends to itself and to all others, to those before it, or to those after it.
BIDIRECTIONAL, LEFT_TO_RIGHT, RIGHT_TO_LEFT = "bidirectional", "left_to_right", "right_to_left"
DIRECTIONS = (BIDIRECTIONAL, LEFT_TO_RIGHT, RIGHT_TO_LEFT)


class EncoderOutput(NamedTuple):
    """`embedding_output` and `sequence_output`, both [batch, seq, hidden]."""

    embedding_output: tf.Tensor
    sequence_output: tf.Tensor


class Encoder(keras.layers.Layer):
    """Embeddings, projection to the hidden size, and Transformer layers.

    Args:
        config: shape of the encoder.
        embeddings: embeddings shared with another encoder; None creates new ones.
        rematerialize: gradient checkpointing: recompute each layer in the backward pass from
            its inputs (Chen et al. 2016, "Training deep nets with sublinear memory cost").
        direction: `BIDIRECTIONAL`, `LEFT_TO_RIGHT` or `RIGHT_TO_LEFT`.

    Raises:
        ValueError: there is no such direction; or weights would not be float32 with the
            `dtype`, which is Keras's global policy if none is given.
    """

    def __init__(
        self,
        config: EncoderConfig,
        embeddings: Embeddings | DisentangledEmbeddings | None = None,
        *,
        rematerialize: bool = False,
        direction: str = BIDIRECTIONAL,
        **kwargs,
    ) -> None:
        super().__init__(autocast=False, **kwargs)
        if direction not in DIRECTIONS:
            raise ValueError(
                f"direction must be one of {', '.join(DIRECTIONS)}, not {direction!r}"
            )
        if self.variable_dtype != "float32":
            raise ValueError(
                f"The encoder {self.name} needs float32 weights, but its dtype is "
                f"{self.dtype_policy.name}: pass a dtype of {', '.join(PRECISIONS)}"
            )
        self.config = config
        self.rematerialize = rematerialize
        self.direction = direction
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
                    glorot=True,
                    dtype=self.dtype_policy,
                    name="embeddings_project",
                )
            # One attribute per layer, which fixes the checkpoint keys.
            for i in range(config.num_hidden_layers):
                layer = TransformerLayer(config, dtype=self.dtype_policy, name=f"layer_{i}")
                setattr(self, f"layer_{i}", layer)
        self._num_frozen_layers: int | None = None
        self.built = True

    def freeze(self, num_layers: int) -> None:
        """Excludes the embeddings, their projection and the lowest layers from training.

        They are no longer trainable, and gradients stop above them; this cannot be undone.
        Their names, and therefore checkpoints, do not change; dropout is applied as before.

        Args:
            num_layers: number of Transformer layers, from 0 for the embeddings alone.

        Raises:
            ValueError: there are not as many layers.
        """
        if not 0 <= num_layers <= self.config.num_hidden_layers:
            raise ValueError(
                f"{num_layers} layers cannot be frozen: the encoder has "
                f"{self.config.num_hidden_layers}"
            )
        self._num_frozen_layers = num_layers
        for layer in (self.embeddings, self.embeddings_project):
            if layer is not None:
                layer.trainable = False
        for layer in self.encoder_layers[:num_layers]:
            layer.trainable = False

    @property
    def encoder_layers(self) -> list[TransformerLayer]:
        """Transformer layers, bottom first."""
        return [getattr(self, f"layer_{i}") for i in range(self.config.num_hidden_layers)]

    @property
    def linears(self) -> list[Linear]:
        """All linear layers between embeddings and output."""
        project = [] if self.embeddings_project is None else [self.embeddings_project]
        return project + [linear for layer in self.encoder_layers for linear in layer.linears]

    def call(
        self,
        input_ids: tf.Tensor,
        input_mask: tf.Tensor,
        segment_ids: tf.Tensor,
        dropout_key: tf.Tensor | None = None,
        positions: tf.Tensor | slice | None = None,
        position_ids: tf.Tensor | None = None,
    ) -> EncoderOutput:
        """Encodes a batch.

        Dropout follows from `dropout_key` alone: Keras's `training` has no effect. Ids and
        positions outside of the tables are an error on a CPU; on GPUs and in graphs that XLA
        compiles, they get zeros or the nearest row.

        Args:
            input_ids: int32 [batch, seq].
            input_mask: int32 [batch, seq], or [batch, query, key] if it depends on the query.
            segment_ids: int32 [batch, seq]; ids that the model has no segment for get zeros.
            dropout_key: uint32 [2] from `randomness.make_key`; None for inference.
            positions: positions to compute `sequence_output` at, int32 [batch, n] or a slice;
                None is all of them. The last layer skips the others.
            position_ids: int32 [batch, seq], for the position embeddings; None counts from 0.

        Returns:
            `EncoderOutput` in the compute dtype.

        Raises:
            ValueError: ids are not integers; `input_ids` is not a matrix, or longer than the
                position embeddings; another input has a different number of tokens;
                `input_ids` is ragged; or `dropout_key` is not a key.
        """
        _check_key(dropout_key)
        if isinstance(input_ids, tf.RaggedTensor):
            raise ValueError(
                "input_ids is ragged, but rows must be padded to one length: call its "
                "to_tensor, or frame texts with electra_tf.text.text_inputs"
            )
        self._check_shape(tf.TensorShape(input_ids.shape), position_ids is None)
        _check_tokens(input_ids, input_mask, "input_mask", ranks=(2, 3))
        _check_tokens(input_ids, segment_ids, "segment_ids", ranks=(2,))
        _check_integers(input_ids, "input_ids")
        _check_integers(segment_ids, "segment_ids")
        if position_ids is not None:
            _check_tokens(input_ids, position_ids, "position_ids", ranks=(1, 2))
            _check_integers(position_ids, "position_ids")
        count = DROPOUTS_PER_LAYER * len(self.encoder_layers)
        embedding_key, layer_keys = None, [None] * len(self.encoder_layers)
        if dropout_key is not None:
            keys = randomness.split(dropout_key, count + 1)
            embedding_key = keys[count]
            layer_keys = tf.split(keys[:count], len(self.encoder_layers))
        x = self.embeddings(input_ids, segment_ids, embedding_key, position_ids)
        if self.embeddings_project is not None:
            x = self.embeddings_project(x)
        embedding_output = x
        mask = _attention_mask(input_mask, self.direction)
        wanted = [None] * (len(self.encoder_layers) - 1) + [positions]
        layers = zip(self.encoder_layers, layer_keys, wanted, strict=True)
        x = self._without_gradient(x, 0)
        for number, (layer, keys, at) in enumerate(layers, start=1):
            run = functools.partial(layer, input_mask=mask, dropout_keys=keys, positions=at)
            x = tf.recompute_grad(run)(x) if self.rematerialize else run(x)
            x = self._without_gradient(x, number)
        return EncoderOutput(embedding_output, x)

    def _check_shape(self, shape: tf.TensorShape, counts_positions: bool) -> None:
        """Raises ValueError if a shape of `input_ids`, as far as it is known, is invalid."""
        if shape.rank not in (None, 2):
            raise ValueError(f"input_ids must be [batch, seq], not of shape {shape}")
        longest, length = self.embeddings.config.max_position_embeddings, shape[1]
        if counts_positions and length is not None and length > longest:
            raise ValueError(
                f"input_ids has {length} tokens a row, but the encoder has {longest} position "
                "embeddings (max_position_embeddings)"
            )

    def _without_gradient(self, x: tf.Tensor, num_layers: int) -> tf.Tensor:
        """Returns the output of the lowest layers, without gradient if these are frozen."""
        return tf.stop_gradient(x) if num_layers == self._num_frozen_layers else x


def _check_key(key: tf.Tensor | None) -> None:
    """Raises ValueError for a seed, or another tensor that is not a key of a random stream."""
    if key is not None and (not tf.is_tensor(key) or key.dtype != tf.uint32):
        raise ValueError(
            f"dropout_key must be a key from electra_tf.model.randomness.make_key, not {key!r}"
        )


def _check_integers(ids: tf.Tensor, name: str) -> None:
    """Raises ValueError for floats, which may have been rounded to the compute dtype."""
    dtype = tf.as_dtype(ids.dtype)
    if not dtype.is_integer:
        raise ValueError(
            f"{name} must be integers, not {dtype.name}. Under a distribution strategy, "
            "Keras's fit builds a model from floats: cast ids to int32 in its `call`"
        )


def _check_tokens(
    input_ids: tf.Tensor, given: tf.Tensor, name: str, *, ranks: Sequence[int]
) -> None:
    """Raises ValueError if a shape, as far as it is known, does not match `input_ids`.

    It could be broadcast, so that padding would be attended to.
    """
    ids = tf.TensorShape(input_ids.shape)
    shape = tf.TensorShape(() if given is None else given.shape)
    if shape.rank is None or ids.rank is None:
        return
    if shape.rank not in ranks or not shape[-1:].is_compatible_with(ids[-1:]):
        raise ValueError(
            f"{name} must be [batch, seq] like input_ids, which is of shape {ids}, not of "
            f"shape {shape}"
        )


def _attention_mask(input_mask: tf.Tensor, direction: str) -> tf.Tensor:
    """Returns float32 [batch, seq], or [batch, seq, seq] if it depends on the query."""
    mask = tf.cast(input_mask, tf.float32)
    if direction == BIDIRECTIONAL:
        return mask
    positions = tf.range(tf.shape(input_mask)[1])
    # LiteRT does not support new axes in slices.
    query, key = tf.expand_dims(positions, 1), tf.expand_dims(positions, 0)
    visible = key <= query if direction == LEFT_TO_RIGHT else key >= query
    by_query = mask if mask.shape.rank == 3 else tf.expand_dims(mask, 1)
    return by_query * tf.cast(visible, tf.float32)
