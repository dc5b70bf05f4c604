"""The pre-training model: encoders and heads, and what every objective shares."""

import keras
import tensorflow as tf

from electra_tf import pretrain_helpers
from electra_tf.config.choices import MASKED_LM, TWO_TOWER, UNIFORM
from electra_tf.config.pretraining import (
    PretrainingConfig,
    discriminator_config,
    generator_config,
    max_predictions,
)
from electra_tf.generators.sharing import DISCRIMINATOR, MODES, Shapes
from electra_tf.generators.span_boundary import SpanBoundaryHead
from electra_tf.generators.two_tower import TwoTowerGenerator, cloze_weights
from electra_tf.masking.base import TokenStatistics, create_masking
from electra_tf.model.batch_types import (
    ClozeOutput,
    DiscriminatorOutput,
    FakeData,
    MaskedLMOutput,
    PretrainingOutput,
    PretrainInputs,
    SpecialTokenIds,
)
from electra_tf.model.heads import DiscriminatorHead, MaskedLMHead, softmax_cross_entropy
from electra_tf.model.randomness import Randomness
from electra_tf.objective import objective_class
from electra_tf.pretrain_helpers import WEIGHT_EPSILON, get_softmax_output, get_token_logits
from electra_tf.util.errors import UserError


class PretrainingModel(keras.Model):
    """Generator and discriminator as the configuration shares and sizes them.

    Which of them exist, and how the losses come about, is the objective's business
    (`electra_tf.objectives`); the methods with the authors' names are what objectives
    are made of.

    Args:
        config: of the run.
        special: ids of the tokens that masking treats apart.
        tokens: facts by token id, which some ways of masking and the unigram generator
            need; None serves a model that neither masks nor samples.
    """

    def __init__(
        self,
        config: PretrainingConfig,
        special: SpecialTokenIds,
        tokens: TokenStatistics | None = None,
        **kwargs,
    ) -> None:
        super().__init__(dtype=keras.DTypePolicy(config.precision), autocast=False, **kwargs)
        self.config = config
        self.special = special
        self.tokens = tokens
        self.objective = objective_class(config)(config, special)
        self.masking = create_masking(config, tokens)
        self.encoder_config = discriminator_config(config)
        dtype = self.dtype_policy

        # The tied embeddings belong to the discriminator ("electra"), as in the paper.
        shapes = Shapes(
            self.encoder_config, generator_config(config), dtype, config.rematerialize
        )
        self.generator = self.two_tower = None
        if not self.objective.has_generator:
            self.electra = self.generator = shapes.encoder(DISCRIMINATOR)
        elif config.generator_type == MASKED_LM:
            self.electra, self.generator = MODES[config.embedding_sharing](shapes)
        else:
            self.electra = shapes.encoder(DISCRIMINATOR)
            if config.generator_type == TWO_TOWER:
                self.two_tower = TwoTowerGenerator(
                    config, self.electra.embeddings, dtype=dtype, name="two_tower"
                )
        if self.generator is not None:
            shape, width = (
                self.generator.config,
                self.generator.embeddings.config.embedding_size,
            )
            self.generator_predictions = MaskedLMHead(
                shape, width, dtype=dtype, name="generator_predictions"
            )
            if config.span_boundary_weight:
                self.generator_span_boundary = SpanBoundaryHead(
                    shape, width, dtype=dtype, name="generator_span_boundary"
                )
        elif config.span_boundary_weight:
            raise UserError(
                "--span_boundary_weight is for a masked language model, which "
                f"--generator_type={config.generator_type} is not"
            )
        if self.objective.has_discriminator:
            self.discriminator_predictions = DiscriminatorHead(
                self.encoder_config, dtype=dtype, name="discriminator_predictions"
            )
        for name, layer in self.objective.create_layers(self, dtype).items():
            setattr(self, name, layer)
        self.built = True

    @property
    def generator_paths(self) -> set[str]:
        """Paths of the variables that the generator has for itself."""
        if not self.objective.has_generator or self.generator is self.electra:
            return set()
        layers = [layer for layer in (self.generator, self.two_tower) if layer is not None] + [
            layer
            for name, layer in vars(self).items()
            if name.startswith("generator_") and isinstance(layer, keras.layers.Layer)
        ]
        own = {variable.path for layer in layers for variable in layer.variables}
        return own - {variable.path for variable in self.electra.variables}

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
        config = self.config
        return pretrain_helpers.mask(
            PretrainInputs(
                features["input_ids"], features["input_mask"], features["segment_ids"]
            ),
            self.special,
            randomness.key("masking"),
            mask_prob=self._mask_prob(randomness),
            max_predictions_per_seq=max_predictions(config, features["input_ids"].shape[1]),
            strategy=self.masking,
            with_replacement=config.masking_with_replacement,
            first_example=randomness.first_example,
        )

    def _mask_prob(self, randomness: Randomness) -> tf.Tensor | float:
        """Returns the share of the step; evaluation always masks `mask_prob`."""
        start, end = self.config.mask_prob, self.config.mask_prob_end
        if end is None or not randomness.dropout:
            return start
        done = tf.cast(randomness.step, tf.float32) / self.config.num_train_steps
        return start + (end - start) * tf.minimum(done, 1.0)

    def get_generator_output(
        self, inputs: PretrainInputs, randomness: Randomness
    ) -> MaskedLMOutput:
        """Returns the predictions at the masked positions by whatever the generator is.

        Uniform and unigram generators predict the same for every position, and their loss
        is a constant.
        """
        if self.two_tower is not None:
            return self._get_cloze_output(inputs, randomness)
        return self._get_masked_lm_output(inputs, randomness)

    def _get_masked_lm_output(
        self, inputs: PretrainInputs, randomness: Randomness
    ) -> MaskedLMOutput:
        """Runs the generator and predicts the masked tokens (paper, eq. 1)."""
        if self.generator is None:
            return get_softmax_output(
                self._constant_logits(inputs), inputs.masked_lm_ids, inputs.masked_lm_weights
            )
        sequence = self.generator(
            inputs.input_ids,
            inputs.input_mask,
            inputs.segment_ids,
            randomness.dropout_key("generator_dropout"),
        ).sequence_output
        states = pretrain_helpers.gather_positions(sequence, inputs.masked_lm_positions)
        table = self.generator.embeddings.word_embeddings
        logits = get_token_logits(states, table, self.generator_predictions)
        output = get_softmax_output(logits, inputs.masked_lm_ids, inputs.masked_lm_weights)
        output = output._replace(states=states)
        if self.config.span_boundary_weight:
            boundary = self.generator_span_boundary(sequence, inputs, table)
            boundary = get_softmax_output(
                boundary, inputs.masked_lm_ids, inputs.masked_lm_weights
            )
            output = output._replace(span_boundary_loss=boundary.loss)
        return output

    def _constant_logits(self, inputs: PretrainInputs) -> tf.Tensor:
        shape = tf.concat([tf.shape(inputs.masked_lm_ids), [self.config.vocab_size]], axis=0)
        if self.config.generator_type == UNIFORM:
            return tf.ensure_shape(tf.zeros(shape), [None, None, self.config.vocab_size])
        logits = self.tokens.log_frequencies()
        logits[list(self.special)] -= pretrain_helpers.DISALLOWED_LOGIT
        return tf.broadcast_to(tf.constant(logits), shape)

    def _get_cloze_output(
        self, inputs: PretrainInputs, randomness: Randomness
    ) -> MaskedLMOutput:
        """Runs the two-tower generator on the text before it was masked."""
        original = pretrain_helpers.unmask(inputs)
        cloze = self.two_tower(
            original.input_ids,
            original.input_mask,
            original.segment_ids,
            randomness=randomness,
        )
        at_masked = get_softmax_output(
            pretrain_helpers.gather_positions(cloze.logits, inputs.masked_lm_positions),
            inputs.masked_lm_ids,
            inputs.masked_lm_weights,
        )
        weights = cloze_weights(inputs, self.special)
        whole = get_softmax_output(cloze.logits, original.input_ids, weights)
        return at_masked._replace(
            cloze=ClozeOutput(
                cloze.logits, whole.per_example_loss, whole.preds, weights, whole.loss
            )
        )

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
                disallow=self._disallowed(inputs),
                first_example=randomness.first_example,
            )
        corrupted, written = pretrain_helpers.scatter_update(
            inputs.input_ids, sampled_token_ids, inputs.masked_lm_positions
        )
        labels = written * tf.cast(corrupted != inputs.input_ids, tf.int32)
        corrupted_inputs = inputs._replace(input_ids=corrupted)
        return FakeData(corrupted_inputs, labels, sampled_token_ids, written)

    def sampling_logits(self, inputs: PretrainInputs, logits: tf.Tensor) -> tf.Tensor:
        """Returns float32 logits [batch, n, vocab] of what the replacements are drawn from.

        Args:
            inputs: masked.
            logits: [batch, n, vocab], the generator's at the masked positions.
        """
        return pretrain_helpers.sampling_logits(
            logits, self.config.temperature, self._disallowed(inputs)
        )

    def _disallowed(self, inputs: PretrainInputs) -> tf.Tensor | None:
        return inputs.masked_lm_ids if self.config.disallow_correct else None

    def encode(self, inputs: PretrainInputs, randomness: Randomness) -> tf.Tensor:
        """Returns the full-size encoder's output [batch, seq, hidden]."""
        return self.electra(
            inputs.input_ids,
            inputs.input_mask,
            inputs.segment_ids,
            randomness.dropout_key("discriminator_dropout"),
        ).sequence_output

    def _get_discriminator_output(
        self,
        inputs: PretrainInputs,
        labels: tf.Tensor,
        randomness: Randomness,
        weights: tf.Tensor | None = None,
        logit_offset: tf.Tensor | None = None,
    ) -> DiscriminatorOutput:
        """Tells for every real token whether it was replaced (paper, eq. 2).

        Args:
            inputs: corrupted.
            labels: int32 [batch, seq].
            randomness: of dropout.
            weights: float32 [batch, seq], tokens that count; the real ones if None.
            logit_offset: float32 [batch, seq], added to the logits.
        """
        if weights is None:
            weights = tf.cast(inputs.input_mask, tf.float32)
        sequence = self.encode(inputs, randomness)
        return self.discriminate(sequence, labels, weights, logit_offset)

    def discriminate(
        self,
        sequence: tf.Tensor,
        labels: tf.Tensor,
        weights: tf.Tensor,
        logit_offset: tf.Tensor | None = None,
    ) -> DiscriminatorOutput:
        """Does the same from the encoder's output [batch, seq, hidden]."""
        logits = self.discriminator_predictions(sequence)
        if logit_offset is not None:
            logits += logit_offset
        losses = weights * tf.nn.sigmoid_cross_entropy_with_logits(
            labels=tf.cast(labels, tf.float32), logits=logits
        )
        per_example_loss = tf.reduce_sum(losses, axis=-1) / (
            WEIGHT_EPSILON + tf.reduce_sum(weights, axis=-1)
        )
        loss = tf.reduce_sum(losses) / (WEIGHT_EPSILON + tf.reduce_sum(weights))
        preds = tf.cast(logits > 0, tf.int32)
        return DiscriminatorOutput(
            logits, tf.sigmoid(logits), preds, per_example_loss, loss, weights
        )

    def predict_tokens(
        self, x: tf.Tensor, targets: tf.Tensor, weights: tf.Tensor
    ) -> MaskedLMOutput:
        """Predicts words from the full-size encoder's output, beside a generator.

        Args:
            x: [batch, n, hidden].
            targets: int32 [batch, n].
            weights: float32 [batch, n].
        """
        table = self.electra.embeddings.word_embeddings
        logits = get_token_logits(x, table, self.full_size_predictions)
        return get_softmax_output(logits, targets, weights)

    @staticmethod
    def token_losses(logits: tf.Tensor, targets: tf.Tensor) -> tf.Tensor:
        """Returns -log softmax(logits)[target], float32 [batch, n]."""
        return softmax_cross_entropy(logits, targets)
