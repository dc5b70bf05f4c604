"""The pre-training model: encoders and heads, and what every objective shares."""

import keras
import tensorflow as tf

from electra_tf import objectives, pretrain_helpers
from electra_tf.config import PretrainingConfig, discriminator_config, generator_config
from electra_tf.encoder import Embeddings, Encoder
from electra_tf.fused import fused
from electra_tf.heads import DiscriminatorHead, MaskedLMHead
from electra_tf.outputs import (
    DiscriminatorOutput,
    FakeData,
    MaskedLMOutput,
    PretrainingOutput,
    Randomness,
)
from electra_tf.pretrain_helpers import PretrainInputs, SpecialTokenIds

# Added to sums of weights, as in the authors' code, so that none divides by zero.
WEIGHT_EPSILON = 1e-6


class PretrainingModel(keras.Model):
    """Generator and discriminator as the configuration shares and sizes them.

    Which of them exist, and how the losses come about, is the objective's business
    (`electra_tf.objectives`); the methods with the authors' names are what objectives
    are made of.
    """

    def __init__(self, config: PretrainingConfig, special: SpecialTokenIds, **kwargs) -> None:
        super().__init__(dtype=keras.DTypePolicy(config.precision), autocast=False, **kwargs)
        self.config = config
        self.special = special
        self.objective = objectives.get(config)
        full_size, generator_size = discriminator_config(config), generator_config(config)
        self.encoder_config = full_size
        dtype = self.dtype_policy

        # The tied embeddings belong to the discriminator ("electra"), as in the paper.
        rematerialize = config.rematerialize
        self.electra = Encoder(
            full_size, rematerialize=rematerialize, dtype=dtype, name="electra"
        )
        self.generator = None
        if self.objective.trains_generator:
            if not config.untied_generator or not self.objective.has_discriminator:
                self.generator, generator_size = self.electra, full_size
            else:
                embeddings: Embeddings | None = self.electra.embeddings
                if config.untied_generator_embeddings:
                    embeddings = None
                self.generator = Encoder(
                    generator_size,
                    embeddings,
                    rematerialize=rematerialize,
                    dtype=dtype,
                    name="generator",
                )
            self.generator_predictions = MaskedLMHead(
                generator_size,
                self.generator.embeddings.config.embedding_size,
                dtype=dtype,
                name="generator_predictions",
            )
        if self.objective.has_discriminator:
            self.discriminator_predictions = DiscriminatorHead(
                full_size, dtype=dtype, name="discriminator_predictions"
            )
        self.built = True

    def call(
        self,
        features: dict[str, tf.Tensor],
        *,
        randomness: Randomness,
        masked_inputs: PretrainInputs | None = None,
        sampled_token_ids: tf.Tensor | None = None,
    ) -> PretrainingOutput:
        """Runs the objective on one batch.

        Args:
            features: `input_ids`, `input_mask`, `segment_ids`, int32 [batch, seq].
            randomness: of masking, sampling and dropout.
            masked_inputs: used in place of masking `features` anew.
            sampled_token_ids: int32 [batch, n], used in place of the generator's samples.
        """
        inputs = masked_inputs
        if inputs is None:
            inputs = self._mask(features, randomness)
        return self.objective.forward(self, inputs, randomness, sampled_token_ids)

    def term_weights(
        self, features: dict[str, tf.Tensor], *, randomness: Randomness
    ) -> dict[str, tf.Tensor]:
        """Returns the number of tokens behind each loss term; only masking is run."""
        return self.objective.term_weights(self._mask(features, randomness))

    def metric_sums(self, output: PretrainingOutput) -> dict[str, tf.Tensor]:
        """Returns the sums behind the objective's metrics; see `electra_tf.metrics`."""
        return self.objective.metric_sums(output)

    def _mask(self, features: dict[str, tf.Tensor], randomness: Randomness) -> PretrainInputs:
        return pretrain_helpers.mask(
            PretrainInputs(
                features["input_ids"], features["input_mask"], features["segment_ids"]
            ),
            self.special,
            randomness.key("masking"),
            mask_prob=self.config.mask_prob,
            max_predictions_per_seq=self.config.max_predictions_per_seq,
            with_replacement=self.config.masking_with_replacement,
            first_example=randomness.first_example,
        )

    def _get_masked_lm_output(
        self, inputs: PretrainInputs, randomness: Randomness
    ) -> MaskedLMOutput:
        """Runs the generator and predicts the masked tokens (paper, eq. 1)."""
        shape = tf.shape(inputs.masked_lm_ids)
        if self.generator is None:
            logits = tf.zeros(tf.concat([shape, [self.config.vocab_size]], axis=0))
        else:
            sequence = self.generator(
                inputs.input_ids,
                inputs.input_mask,
                inputs.segment_ids,
                randomness.dropout_key("generator_dropout"),
            ).sequence_output
            logits = get_token_logits(
                pretrain_helpers.gather_positions(sequence, inputs.masked_lm_positions),
                self.generator.embeddings.word_embeddings,
                self.generator_predictions,
            )
        return get_softmax_output(logits, inputs.masked_lm_ids, inputs.masked_lm_weights)

    def _get_fake_data(
        self,
        inputs: PretrainInputs,
        logits: tf.Tensor,
        randomness: Randomness,
        sampled_token_ids: tf.Tensor | None = None,
    ) -> FakeData:
        """Replaces the masked tokens by samples of the generator (paper, section 2.1).

        A sample that equals the original token is labelled real.
        """
        inputs = pretrain_helpers.unmask(inputs)
        if sampled_token_ids is None:
            sampled_token_ids = pretrain_helpers.sample_from_softmax(
                logits,
                randomness.key("sampling"),
                temperature=self.config.temperature,
                disallow=inputs.masked_lm_ids if self.config.disallow_correct else None,
                first_example=randomness.first_example,
            )
        corrupted, written = pretrain_helpers.scatter_update(
            inputs.input_ids, sampled_token_ids, inputs.masked_lm_positions
        )
        labels = written * tf.cast(corrupted != inputs.input_ids, tf.int32)
        return FakeData(inputs._replace(input_ids=corrupted), labels, sampled_token_ids)

    def _get_discriminator_output(
        self, inputs: PretrainInputs, labels: tf.Tensor, randomness: Randomness
    ) -> DiscriminatorOutput:
        """Tells for every real token whether it was replaced (paper, eq. 2)."""
        sequence = self.electra(
            inputs.input_ids,
            inputs.input_mask,
            inputs.segment_ids,
            randomness.dropout_key("discriminator_dropout"),
        ).sequence_output
        logits = self.discriminator_predictions(sequence)
        weights = tf.cast(inputs.input_mask, tf.float32)
        losses = weights * tf.nn.sigmoid_cross_entropy_with_logits(
            labels=tf.cast(labels, tf.float32), logits=logits
        )
        per_example_loss = tf.reduce_sum(losses, axis=-1) / (
            WEIGHT_EPSILON + tf.reduce_sum(weights, axis=-1)
        )
        loss = tf.reduce_sum(losses) / (WEIGHT_EPSILON + tf.reduce_sum(weights))
        preds = tf.cast(logits > 0, tf.int32)
        return DiscriminatorOutput(logits, tf.sigmoid(logits), preds, per_example_loss, loss)


def get_token_logits(x: tf.Tensor, embedding_table: tf.Tensor, head: MaskedLMHead) -> tf.Tensor:
    """Returns logits [batch, n, vocab] of [batch, n, hidden]: the tied output layer."""
    return head(x, embedding_table)


def get_softmax_output(
    logits: tf.Tensor, targets: tf.Tensor, weights: tf.Tensor
) -> MaskedLMOutput:
    """Returns cross-entropy and predictions.

    Args:
        logits: [batch, n, vocab]; the softmax is float32 whatever their dtype.
        targets: int32 [batch, n].
        weights: float32 [batch, n].
    """
    per_example_loss = softmax_cross_entropy(logits, targets)
    loss = tf.reduce_sum(weights * per_example_loss) / (tf.reduce_sum(weights) + WEIGHT_EPSILON)
    preds = tf.argmax(logits, axis=-1, output_type=tf.int32)
    return MaskedLMOutput(logits, per_example_loss, preds, loss)


@fused()
def softmax_cross_entropy(logits: tf.Tensor, targets: tf.Tensor) -> tf.Tensor:
    """Returns -log softmax(logits)[target], float32 [batch, n]."""
    logits = tf.cast(logits, tf.float32)
    shifted = logits - tf.stop_gradient(tf.reduce_max(logits, axis=-1, keepdims=True))
    log_sum = tf.math.log(tf.reduce_sum(tf.exp(shifted), axis=-1))
    hit = tf.range(logits.shape[-1]) == targets[..., None]
    return log_sum - tf.reduce_sum(tf.where(hit, shifted, 0.0), axis=-1)
