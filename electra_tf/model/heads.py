"""The prediction heads of pre-training: masked language model with its loss, discriminator."""

import keras
import tensorflow as tf

from electra_tf.config.encoder import EncoderConfig
from electra_tf.model.batch_types import MaskedLMOutput
from electra_tf.model.gpu import vocabulary as gpu_vocabulary
from electra_tf.model.gpu.calls import has_kernels
from electra_tf.model.kernels import fused
from electra_tf.model.layer_functions import activation_norm, add_bias, bias_activation
from electra_tf.model.layers import LayerNorm, Linear

# Added to sums of weights, as in the authors' code, to avoid division by zero.
WEIGHT_EPSILON = 1e-6


class MaskedLMHead(keras.layers.Layer):
    """Dense, activation, LayerNorm, and an output layer tied to the token embeddings."""

    def __init__(self, config: EncoderConfig, embedding_size: int, **kwargs) -> None:
        super().__init__(autocast=False, **kwargs)
        self.config = config
        with keras.name_scope(self.name):
            self.dense = Linear(
                config.hidden_size,
                embedding_size,
                config,
                dtype=self.dtype_policy,
                name="dense",
            )
            self.norm = LayerNorm(embedding_size, config, name="LayerNorm")
        self.output_bias = self.add_weight(
            shape=(config.vocab_size,), initializer="zeros", autocast=False, name="output_bias"
        )
        self.built = True

    def call(
        self, x: tf.Tensor, embedding_table: tf.Tensor, *, float32: bool = False
    ) -> tf.Tensor:
        """Returns logits [batch, positions, vocab] in the compute dtype.

        Args:
            x: [batch, positions, hidden], gathered from the encoder's output.
            embedding_table: float32 [vocab, embedding], token embeddings of the encoder.
            float32: compute the product with the table, and the logits, in float32.
        """
        dtype = tf.float32 if float32 else self.compute_dtype
        hidden = activation_norm(
            self.dense.product(x),
            self.dense.bias,
            self.norm.gamma,
            self.norm.beta,
            activation=self.config.hidden_act,
            epsilon=self.config.layer_norm_epsilon,
        )
        batch, positions = tf.shape(x)[0], tf.shape(x)[1]
        flat = tf.cast(tf.reshape(hidden, [batch * positions, hidden.shape[-1]]), dtype)
        table = tf.cast(embedding_table, dtype)
        logits = add_bias(tf.matmul(flat, table, transpose_b=True), self.output_bias)
        return tf.reshape(logits, [batch, positions, self.config.vocab_size])


class DiscriminatorHead(keras.layers.Layer):
    """Dense, activation, and one logit per token; positive means "replaced"."""

    def __init__(self, config: EncoderConfig, **kwargs) -> None:
        super().__init__(autocast=False, **kwargs)
        self.config = config
        size, dtype = config.hidden_size, self.dtype_policy
        with keras.name_scope(self.name):
            self.dense = Linear(size, size, config, dtype=dtype, name="dense")
            self.dense_1 = Linear(size, 1, config, glorot=True, dtype=dtype, name="dense_1")
        self.built = True

    def call(self, x: tf.Tensor, *, float32: bool = False) -> tf.Tensor:
        """Returns float32 logits [batch, seq] of [batch, seq, hidden].

        With `float32`, the last product is float32, too, whatever the compute dtype.
        """
        hidden = bias_activation(
            self.dense.product(x), self.dense.bias, activation=self.config.hidden_act
        )
        logits = tf.cast(self.dense_1.product(hidden, float32=float32), tf.float32)
        logits += self.dense_1.bias
        return tf.squeeze(logits, axis=-1)


@fused()
def softmax_cross_entropy(logits: tf.Tensor, targets: tf.Tensor) -> tf.Tensor:
    """Returns -log softmax(logits)[target], float32 [batch, n]."""
    logits = tf.cast(logits, tf.float32)
    shifted = logits - tf.stop_gradient(tf.reduce_max(logits, axis=-1, keepdims=True))
    log_sum = tf.math.log(tf.reduce_sum(tf.exp(shifted), axis=-1))
    hit = tf.range(logits.shape[-1]) == targets[..., None]
    return log_sum - tf.reduce_sum(tf.where(hit, shifted, 0.0), axis=-1)


def get_softmax_output(
    logits: tf.Tensor, targets: tf.Tensor, weights: tf.Tensor
) -> MaskedLMOutput:
    """Returns cross-entropy and predictions.

    Args:
        logits: [batch, n, vocab], of any float dtype; the softmax is float32.
        targets: int32 [batch, n].
        weights: float32 [batch, n].
    """
    if has_kernels(logits):
        per_example_loss, preds = gpu_vocabulary.cross_entropy(logits, targets)
    else:
        per_example_loss = softmax_cross_entropy(logits, targets)
        preds = tf.argmax(logits, axis=-1, output_type=tf.int32)
    loss = tf.reduce_sum(weights * per_example_loss) / (tf.reduce_sum(weights) + WEIGHT_EPSILON)
    return MaskedLMOutput(logits, per_example_loss, preds, loss)
