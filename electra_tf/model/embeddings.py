"""Token, position and segment embeddings, independent or gradient-disentangled."""

import keras
import tensorflow as tf

from electra_tf.config.encoder import EncoderConfig
from electra_tf.model.layer_functions import norm_dropout
from electra_tf.model.layers import LayerNorm, initializer


class Embeddings(keras.layers.Layer):
    """Token, position and segment embeddings, summed and normalized.

    Generator and discriminator share one instance if their embeddings are tied.

    Args:
        config: shape of the encoder.
        word_embeddings: float32 [vocab, embedding] of another instance; None creates a new
            table.
        position_embeddings: float32 [positions, embedding], likewise.
    """

    def __init__(
        self,
        config: EncoderConfig,
        word_embeddings: keras.Variable | None = None,
        position_embeddings: keras.Variable | None = None,
        **kwargs,
    ) -> None:
        super().__init__(autocast=False, **kwargs)
        self.config = config

        def table(rows: int, name: str) -> keras.Variable:
            return self.add_weight(
                shape=(rows, config.embedding_size),
                initializer=initializer(config),
                autocast=False,
                name=name,
            )

        if word_embeddings is None:
            word_embeddings = table(config.vocab_size, "word_embeddings")
        self.word_embeddings = word_embeddings
        if position_embeddings is None:
            position_embeddings = table(config.max_position_embeddings, "position_embeddings")
        self.position_embeddings = position_embeddings
        self.token_type_embeddings = table(config.type_vocab_size, "token_type_embeddings")
        with keras.name_scope(self.name):
            self.norm = LayerNorm(config.embedding_size, config, name="LayerNorm")
        self.built = True

    def call(
        self,
        input_ids: tf.Tensor,
        segment_ids: tf.Tensor,
        dropout_key: tf.Tensor | None = None,
        position_ids: tf.Tensor | None = None,
    ) -> tf.Tensor:
        """Returns [batch, seq, embedding] in the compute dtype.

        Args:
            input_ids: int32 [batch, seq].
            segment_ids: int32 [batch, seq], below `type_vocab_size`; others get zeros.
            dropout_key: uint32 [2]; None for inference.
            position_ids: int32 [batch, seq]; None counts from 0.
        """
        return _embed(self, input_ids, segment_ids, dropout_key, position_ids)


class DisentangledEmbeddings(keras.layers.Layer):
    """Gradient-disentangled embedding sharing (He et al. 2021, "DeBERTaV3", section 3.3).

    Each table is stop_gradient(base table) + difference; differences are initialized to
    zero, so only the other model updates the shared tables. LayerNorm is not shared.

    Args:
        config: shape of the encoder, with the embedding size of `base`.
        base: embeddings of the other model.
    """

    def __init__(self, config: EncoderConfig, base: Embeddings, **kwargs) -> None:
        super().__init__(autocast=False, **kwargs)
        self.config = config
        # Behind a function, so Keras does not track the base as a sublayer.
        self._base = lambda: base

        def difference(name: str) -> keras.Variable:
            shape = getattr(base, name).shape
            return self.add_weight(
                shape=shape, initializer="zeros", autocast=False, name=f"{name}_difference"
            )

        self.word_difference = difference("word_embeddings")
        self.position_difference = difference("position_embeddings")
        self.token_type_difference = difference("token_type_embeddings")
        with keras.name_scope(self.name):
            self.norm = LayerNorm(config.embedding_size, config, name="LayerNorm")
        self.built = True

    @property
    def base(self) -> Embeddings:
        """The embeddings of the other model."""
        return self._base()

    @property
    def word_embeddings(self) -> tf.Tensor:
        """float32 [vocab, embedding]."""
        return self._table(self.base.word_embeddings, self.word_difference)

    @property
    def position_embeddings(self) -> tf.Tensor:
        """float32 [max positions, embedding]."""
        return self._table(self.base.position_embeddings, self.position_difference)

    @property
    def token_type_embeddings(self) -> tf.Tensor:
        """float32 [segments, embedding]."""
        return self._table(self.base.token_type_embeddings, self.token_type_difference)

    def call(
        self,
        input_ids: tf.Tensor,
        segment_ids: tf.Tensor,
        dropout_key: tf.Tensor | None = None,
        position_ids: tf.Tensor | None = None,
    ) -> tf.Tensor:
        """See `Embeddings.call`."""
        return _embed(self, input_ids, segment_ids, dropout_key, position_ids)

    @staticmethod
    def _table(base: keras.Variable, difference: keras.Variable) -> tf.Tensor:
        return tf.stop_gradient(tf.convert_to_tensor(base)) + difference


def _embed(
    embeddings: "Embeddings | DisentangledEmbeddings",
    input_ids: tf.Tensor,
    segment_ids: tf.Tensor,
    dropout_key: tf.Tensor | None,
    position_ids: tf.Tensor | None,
) -> tf.Tensor:
    config, norm = embeddings.config, embeddings.norm
    words = tf.gather(tf.convert_to_tensor(embeddings.word_embeddings), input_ids)
    if position_ids is None:
        positions = embeddings.position_embeddings[: tf.shape(input_ids)[1]]
    else:
        table = tf.convert_to_tensor(embeddings.position_embeddings)
        positions = tf.gather(table, position_ids)
    # A one-hot product, because the gradient of a gather from two rows is slow.
    segments = tf.one_hot(segment_ids, config.type_vocab_size)
    segments = tf.einsum("bls,se->ble", segments, embeddings.token_type_embeddings)
    return norm_dropout(
        words + positions + segments,
        norm.gamma,
        norm.beta,
        tf.zeros([2], tf.uint32) if dropout_key is None else dropout_key,
        rate=0.0 if dropout_key is None else config.hidden_dropout_prob,
        epsilon=config.layer_norm_epsilon,
        dtype=embeddings.compute_dtype,
    )
