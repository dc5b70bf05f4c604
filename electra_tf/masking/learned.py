"""Learned strategic masking: tokens are masked more often the harder they are to predict.

The paper (appendix H) tried "training a model to guess which tokens BERT would struggle to
predict if they were masked out", without details. Here a small head predicts the masked-LM loss
of each token from the token and its two neighbors, and positions are sampled in proportion to
the predictions.
"""

import dataclasses
import math

import keras
import tensorflow as tf

from electra_tf.config.encoder import EncoderConfig
from electra_tf.config.hyperparameters import within
from electra_tf.masking.base import MaskingOrder, MaskingStrategy
from electra_tf.model import randomness
from electra_tf.model.batch_types import LossTerm, MaskedLMOutput, PretrainInputs
from electra_tf.model.encoder import Encoder
from electra_tf.model.layer_functions import bias_activation
from electra_tf.model.layers import Linear
from electra_tf.util.console import warn_once

HIDDEN_UNITS = 128
# The token and its neighbors.
WINDOW = 3
# Lower bound of predicted losses, in nats: no token is masked so rarely that the head does not
# notice when it becomes hard to predict.
MIN_LOSS = 0.1


@dataclasses.dataclass(frozen=True)
class LearnedMaskingHparams:
    """`power`: a token of predicted loss x has weight x ** power; 0 is uniform.

    `head_weight` is the weight of the head's loss in the objective. The encoders get no
    gradient of it, but it counts in the norm that gradients are clipped by.
    """

    power: float = 1.0
    head_weight: float = within(1.0, 0.0)


class TokenLossHead(keras.layers.Layer):
    """Dense, GELU, and one predicted loss per token, float32 and at least `MIN_LOSS`.

    Predictions start at log(vocab_size), the loss of a model that has not learned anything.
    """

    def __init__(self, embedding_size: int, config: EncoderConfig, **kwargs) -> None:
        super().__init__(autocast=False, **kwargs)
        self.config = config
        with keras.name_scope(self.name):
            self.dense = Linear(
                WINDOW * embedding_size,
                HIDDEN_UNITS,
                config,
                dtype=self.dtype_policy,
                name="dense",
            )
            self.dense_1 = Linear(
                HIDDEN_UNITS, 1, config, dtype=self.dtype_policy, name="dense_1"
            )
        self.built = True

    def call(self, x: tf.Tensor) -> tf.Tensor:
        """Returns float32 [batch, n], in nats.

        Args:
            x: float32 [batch, n, window * embedding], embeddings of a token and its neighbors.
        """
        hidden = bias_activation(
            self.dense.product(x), self.dense.bias, activation=self.config.hidden_act
        )
        logits = tf.cast(self.dense_1.product(hidden), tf.float32) + self.dense_1.bias
        return MIN_LOSS + math.log(self.config.vocab_size) * tf.exp(logits[..., 0])


class LearnedMasking(MaskingStrategy):
    """Samples positions without replacement, weighted by the head's predictions.

    The head is trained on the masked tokens, each with the loss x that the masked language
    model has there, by x / prediction + log(prediction): the negative log-likelihood of an
    exponential distribution. It is least where the prediction is the mean of the losses, and
    its gradient does not depend on their scale.
    """

    Hparams = LearnedMaskingHparams
    is_uniform = False
    learns = True

    @classmethod
    def warn_of_untrained(cls, hparams: LearnedMaskingHparams) -> None:
        """Warns if no loss trains the head."""
        if not hparams.head_weight:
            warn_once(
                "head_weight=0 of --masking_hparams does not train the head of "
                "--masking=learned, so its initial weights choose the masked tokens"
            )

    def create_layers(self, encoder: Encoder) -> dict[str, keras.layers.Layer]:
        """Creates the head; it reads the token embeddings of `encoder`, without gradient."""
        self._embeddings = encoder.embeddings
        self._head = TokenLossHead(
            encoder.embeddings.config.embedding_size,
            encoder.config,
            dtype=encoder.dtype_policy,
            name="masking_head",
        )
        return {"masking_head": self._head}

    @classmethod
    def head_sizes(cls, encoder: EncoderConfig) -> tuple[int, int]:
        """Returns the width of the embeddings that the head reads, and of its hidden layer."""
        return WINDOW * encoder.embedding_size, HIDDEN_UNITS

    def predict(self, input_ids: tf.Tensor, positions: tf.Tensor | None = None) -> tf.Tensor:
        """Returns the predicted loss of each token, float32 [batch, seq].

        Args:
            input_ids: int32 [batch, seq], unmasked.
            positions: int32 [batch, n]; the result has their predictions, [batch, n].
        """
        before, after = (tf.pad(input_ids, [[0, 0], pad]) for pad in ([1, 0], [0, 1]))
        window = tf.stack([before[:, :-1], input_ids, after[:, 1:]], axis=-1)
        if positions is not None:
            window = tf.gather(window, positions, batch_dims=1)
        table = tf.stop_gradient(tf.convert_to_tensor(self._embeddings.word_embeddings))
        x = tf.gather(table, window)  # (batch, n, window, embedding)
        x = tf.reshape(x, tf.concat([tf.shape(window)[:2], [WINDOW * x.shape[-1]]], axis=0))
        return self._head(tf.ensure_shape(x, [None, None, WINDOW * table.shape[-1]]))

    def order(
        self,
        input_ids: tf.Tensor,
        candidates: tf.Tensor,
        key: tf.Tensor,
        first_example: tf.Tensor | int,
    ) -> MaskingOrder:
        """Returns log(weight) plus Gumbel noise; the k largest are k weighted draws.

        See Kool et al. 2019, "Stochastic Beams and Where to Find Them", section 2.3.
        """
        counters = randomness.counters(tf.shape(input_ids), first_example)
        log_weights = self.hparams.power * tf.math.log(self.predict(input_ids))
        return MaskingOrder(log_weights + randomness.gumbel(key, counters))

    def terms(self, original: PretrainInputs, output: MaskedLMOutput) -> dict[str, LossTerm]:
        """Returns the loss of the head."""
        predicted = self.predict(original.input_ids, original.masked_lm_positions)
        losses = tf.stop_gradient(output.per_example_loss) / predicted + tf.math.log(predicted)
        weights = original.masked_lm_weights
        count = tf.reduce_sum(weights)
        loss = tf.math.divide_no_nan(tf.reduce_sum(weights * losses), count)
        return {"masking": LossTerm(loss, self.hparams.head_weight, count)}

    def term_weights(self, inputs: PretrainInputs) -> dict[str, tf.Tensor]:
        """Returns the number of masked tokens."""
        return {"masking": tf.reduce_sum(inputs.masked_lm_weights)}
