"""SpanBERT's span-boundary objective (Joshi et al. 2020, section 3.2).

Every masked token is predicted from the two tokens at the boundaries of its run of masked
tokens, and from its position in the run: y_i = f(x_{s-1}, x_{e+1}, p_{i-s+1}).
"""

import keras
import tensorflow as tf

from electra_tf.config.encoder import EncoderConfig
from electra_tf.config.pretraining import PretrainingConfig
from electra_tf.masking.masked_batch import masked_positions
from electra_tf.model.batch_types import PretrainInputs
from electra_tf.model.layer_functions import activation_norm, add_bias
from electra_tf.model.layers import LayerNorm, Linear, initializer
from electra_tf.model.positions import gather_positions

# Size of SpanBERT's position embeddings (section 4.2), and their number; later positions of
# longer runs share the last one.
PLACE_SIZE = 200
NUM_PLACES = 32


class SpanBoundaryHead(keras.layers.Layer):
    """Two dense layers with GELU and LayerNorm, and a tied output layer."""

    def __init__(self, config: EncoderConfig, embedding_size: int, **kwargs) -> None:
        super().__init__(autocast=False, **kwargs)
        self.config = config
        dtype = self.dtype_policy
        self.place_embeddings = self.add_weight(
            shape=(NUM_PLACES, PLACE_SIZE),
            initializer=initializer(config),
            autocast=False,
            name="place_embeddings",
        )
        hidden = config.hidden_size
        with keras.name_scope(self.name):
            self.dense = Linear(
                2 * hidden + PLACE_SIZE, hidden, config, dtype=dtype, name="dense"
            )
            self.norm = LayerNorm(hidden, config, name="LayerNorm")
            self.dense_1 = Linear(hidden, embedding_size, config, dtype=dtype, name="dense_1")
            self.norm_1 = LayerNorm(embedding_size, config, name="LayerNorm_1")
        self.output_bias = self.add_weight(
            shape=(config.vocab_size,), initializer="zeros", autocast=False, name="output_bias"
        )
        self.built = True

    def call(
        self, sequence: tf.Tensor, inputs: PretrainInputs, embedding_table: tf.Tensor
    ) -> tf.Tensor:
        """Returns logits [batch, n, vocab] of the masked tokens, in the compute dtype.

        Args:
            sequence: [batch, seq, hidden], the encoder's output on the masked text.
            inputs: masked inputs.
            embedding_table: float32 [vocab, embedding], token embeddings of the encoder.
        """
        left, right = run_boundaries(inputs)
        places = tf.clip_by_value(inputs.masked_lm_positions - left - 1, 0, NUM_PLACES - 1)
        places = tf.gather(tf.convert_to_tensor(self.place_embeddings), places)
        x = tf.concat(
            [
                gather_positions(sequence, left),
                gather_positions(sequence, right),
                tf.cast(places, sequence.dtype),
            ],
            axis=-1,
        )
        for dense, norm in ((self.dense, self.norm), (self.dense_1, self.norm_1)):
            x = activation_norm(
                dense.product(x),
                dense.bias,
                norm.gamma,
                norm.beta,
                activation=self.config.hidden_act,
                epsilon=self.config.layer_norm_epsilon,
            )
        shape = tf.shape(x)
        flat = tf.reshape(x, [shape[0] * shape[1], x.shape[-1]])
        table = tf.cast(embedding_table, self.compute_dtype)
        logits = add_bias(tf.matmul(flat, table, transpose_b=True), self.output_bias)
        return tf.reshape(logits, [shape[0], shape[1], self.config.vocab_size])


def boundary_inputs(config: PretrainingConfig, encoder: EncoderConfig) -> int:
    """Returns the input width of the head of a run, for counting FLOPs; 0 without one."""
    return 2 * encoder.hidden_size + PLACE_SIZE if config.span_boundary_weight else 0


def run_boundaries(inputs: PretrainInputs) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns, for each masked token, the positions before and after its masked run.

    Args:
        inputs: masked inputs; [CLS] and [SEP] are never masked, so both positions exist.

    Returns:
        Two int32 [batch, n].
    """
    length = tf.shape(inputs.input_ids)[1]
    index = tf.range(length)[None, None, :]
    position = inputs.masked_lm_positions[..., None]
    kept = masked_positions(inputs)[:, None, :] == 0
    left = tf.reduce_max(tf.where(kept & (index < position), index, 0), axis=-1)
    right = tf.reduce_min(tf.where(kept & (index > position), index, length - 1), axis=-1)
    return left, right
