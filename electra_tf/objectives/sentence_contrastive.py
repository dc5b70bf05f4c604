"""ELECTRA with a sentence-level objective: detect corrupted inputs (appendix H)."""

import dataclasses

import tensorflow as tf

from electra_tf.config.hyperparameters import within
from electra_tf.config.pretraining import PretrainingConfig
from electra_tf.masking.masked_batch import unmask
from electra_tf.model import metrics
from electra_tf.model import randomness as model_randomness
from electra_tf.model.batch_types import LossTerm, PretrainingOutput, PretrainInputs
from electra_tf.model.layers import Linear
from electra_tf.model.randomness import Randomness
from electra_tf.pretraining_model import PretrainingModel
from electra_tf.util.console import warn_once
from electra_tf.util.errors import UserError


@dataclasses.dataclass(frozen=True)
class SentenceContrastiveHparams:
    """`unchanged_share`: fraction of unmodified inputs; `sentence_weight`: loss weight."""

    unchanged_share: float = within(0.2, 0.0, 1.0)
    sentence_weight: float = within(1.0, 0.0)


class SentenceContrastive(PretrainingModel):
    """Replaced-token detection, plus classification of corrupted inputs.

    Paper, appendix H: 20 % of the inputs are unmodified, and a head on [CLS] detects them. An
    input whose samples all equal the original tokens counts as unmodified.
    """

    Hparams = SentenceContrastiveHparams

    def create_layers(self) -> None:
        """Creates the head on [CLS]."""
        shape = self.encoder_config
        self.sentence_predictions = Linear(
            shape.hidden_size, 1, shape, dtype=self.dtype_policy, name="sentence_predictions"
        )

    def forward(
        self,
        inputs: PretrainInputs,
        *,
        randomness: Randomness,
        sampled_token_ids: tf.Tensor | None = None,
    ) -> PretrainingOutput:
        """Computes the two losses of ELECTRA and the sentence loss."""
        masked_lm = self._get_masked_lm_output(inputs, randomness)
        fake = self._get_fake_data(inputs, masked_lm.logits, randomness, sampled_token_ids)
        rows = tf.shape(inputs.input_ids)[:1]
        draws = model_randomness.uniform(
            randomness.key("unchanged_sentences"),
            model_randomness.counters(rows, randomness.first_example),
        )
        unchanged = (draws < self.hparams.unchanged_share)[:, None]
        original = unmask(inputs).input_ids
        fake = fake._replace(
            inputs=fake.inputs._replace(
                input_ids=tf.where(unchanged, original, fake.inputs.input_ids)
            ),
            is_fake_tokens=tf.where(unchanged, 0, fake.is_fake_tokens),
        )
        sequence = self.encode(fake.inputs, randomness)
        discriminator = self.discriminate(fake.inputs, sequence, fake.is_fake_tokens)
        logits = tf.cast(self.sentence_predictions(sequence[:, 0]), tf.float32)[:, 0]
        labels = tf.cast(tf.reduce_max(fake.is_fake_tokens, axis=-1), tf.float32)
        losses = tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits)
        weights = real_rows(inputs)
        count = tf.reduce_sum(weights)
        loss = tf.math.divide_no_nan(tf.reduce_sum(weights * losses), count)
        terms = {
            **self.masked_lm_terms(inputs, masked_lm),
            **self.discriminator_terms(discriminator),
            "sentence": LossTerm(loss, self.hparams.sentence_weight, count),
        }
        correct = tf.equal(logits > 0, labels > 0)
        extra = {
            "sentence_accuracy": metrics.mean_sums(correct, weights),
            "corrupted_sentences": metrics.mean_sums(labels, weights),
        }
        return PretrainingOutput(terms, inputs, masked_lm, fake, discriminator, extra=extra)

    def term_weights(self, inputs: PretrainInputs) -> dict[str, tf.Tensor]:
        """Returns the numbers of masked tokens, non-padding tokens and sentences."""
        return {**super().term_weights(inputs), "sentence": tf.reduce_sum(real_rows(inputs))}

    @classmethod
    def warn_of_unused(cls, config: PretrainingConfig) -> None:
        """Also warns if no loss trains the head on [CLS]."""
        super().warn_of_unused(config)
        if not cls.parse_hparams(config).sentence_weight:
            warn_once(
                "sentence_weight=0 of --objective_hparams does not train the head on [CLS], so "
                "sentence_accuracy is meaningless"
            )
        if not cls.parse_hparams(config).unchanged_share:
            warn_once(
                "unchanged_share=0 of --objective_hparams leaves hardly any input unmodified, "
                "so the head on [CLS] learns to call all of them corrupted"
            )

    @classmethod
    def check_loss_weights(cls, config: PretrainingConfig) -> None:
        """Also raises UserError if no input is corrupted: there is nothing to detect."""
        super().check_loss_weights(config)
        if cls.parse_hparams(config).unchanged_share == 1:
            raise UserError(
                "unchanged_share=1 of --objective_hparams leaves no corrupted inputs to learn "
                "from: pass less than 1"
            )

    @classmethod
    def unmasked_per_masked(cls, config: PretrainingConfig) -> float | None:
        """Counts the tokens of unchanged inputs as unmasked; None if all are unchanged."""
        ratio = super().unmasked_per_masked(config)
        changed = 1 - cls.parse_hparams(config).unchanged_share
        if ratio is None or not changed:
            return None
        return (1 + ratio) / changed - 1

    @classmethod
    def loss_weights(cls, config: PretrainingConfig) -> dict[str, float]:
        """Returns the weights of all losses that train an encoder."""
        weight = cls.parse_hparams(config).sentence_weight
        return super().loss_weights(config) | {"sentence_weight of --objective_hparams": weight}


def real_rows(inputs: PretrainInputs) -> tf.Tensor:
    """Returns float32 [batch], 1 for rows that are not entirely padding."""
    return tf.cast(tf.reduce_max(inputs.input_mask, axis=-1), tf.float32)
