"""ELECTRA: a generator replaces tokens, and a discriminator detects them.

Clark et al. 2020, "ELECTRA: Pre-training Text Encoders as Discriminators Rather Than
Generators", section 2, in its order: mask, predict, sample, discriminate, weight the losses.
The other objectives are subclasses, in `electra_tf.objectives`.
"""

import keras
import tensorflow as tf

from electra_tf.config import choices
from electra_tf.config.phases import Stage
from electra_tf.config.pretraining import (
    PretrainingConfig,
    discriminator_config,
    generator_config,
)
from electra_tf.generators.replacements import replacement_tokens
from electra_tf.generators.sharing import DISCRIMINATOR, Encoders, Shapes
from electra_tf.masking.base import TokenStatistics, create_masking
from electra_tf.masking.masked_batch import mask_batch, unmask
from electra_tf.model.batch_types import (
    DiscriminatorOutput,
    FakeData,
    LossTerm,
    MaskedLMOutput,
    PretrainingOutput,
    PretrainInputs,
    SpecialTokenIds,
)
from electra_tf.model.heads import WEIGHT_EPSILON, DiscriminatorHead
from electra_tf.model.metrics import (
    MetricSums,
    discriminator_sums,
    masked_lm_sums,
    sampling_sums,
)
from electra_tf.model.positions import require_positions, scatter_update
from electra_tf.model.randomness import Randomness
from electra_tf.model.token_scores import TokenScores
from electra_tf.pretraining_objective import Objective


class PretrainingModel(Objective, keras.Model):
    """gen_weight * L_MLM + disc_weight * L_Disc (end of section 2); base of every objective.

    `disc_weight` is the paper's lambda.

    `electra_tf.model_builder.build_model` selects the class of an objective and builds it.
    `prepare` masks a batch, and `forward` computes its losses. The class methods of `Objective`
    check the settings of an objective, and describe what a run of it trains.

    Args:
        config: configuration of the run.
        special: ids of the special tokens used in masking.
        tokens: token statistics for masking and the unigram generator; None if the model does
            not mask or sample.

    Attributes:
        hparams: instance of `Hparams`, the hyperparameters of the objective.
        stage: index of the current stage; a training step is traced for one stage.
        electra: the full-size encoder, which owns tied embeddings, as in the paper.
        generator: the generator's encoder, or None.
        two_tower: the two encoders of a two-tower generator, or None.
        token_generator: predicts the masked tokens, with `generator` or without.
    """

    def __init__(
        self,
        config: PretrainingConfig,
        special: SpecialTokenIds,
        tokens: TokenStatistics | None = None,
        **kwargs,
    ) -> None:
        self.check(config)
        super().__init__(dtype=keras.DTypePolicy(config.precision), autocast=False, **kwargs)
        self.config = config
        self.special = special
        self.hparams = self.parse_hparams(config)
        self.masking = create_masking(config, tokens)
        self.stage = 0
        # Initial weights and checkpoint keys depend on the order of layer creation.
        self.encoder_config = discriminator_config(config)
        self.electra, self.generator = self._create_encoders()
        self.two_tower = None
        self.token_generator = self.generator_class(config)(
            config, Encoders(self.electra, self.generator), special, tokens
        )
        for name, layer in self.token_generator.layers.items():
            setattr(self, name, layer)
        if self.has_discriminator:
            self.discriminator_predictions = DiscriminatorHead(
                self.encoder_config, dtype=self.dtype_policy, name="discriminator_predictions"
            )
        self.create_layers()
        encoder = self.generator or self.electra
        for name, layer in self.masking.create_layers(encoder).items():
            setattr(self, name, layer)
        self.built = True

    def prepare(
        self, features: dict[str, tf.Tensor], *, randomness: Randomness
    ) -> PretrainInputs:
        """Masks a batch (section 2), once per step, before it is split into micro-batches.

        Args:
            features: `input_ids`, `input_mask`, `segment_ids` [batch, seq]; see `mask_batch`.
            randomness: random stream of masking. Without dropout (evaluation), the masking
                rate is always `mask_prob`.
        """
        return mask_batch(
            self.config, self.special, self.masking, features, randomness=randomness
        )

    def forward(
        self,
        inputs: PretrainInputs,
        *,
        randomness: Randomness,
        sampled_token_ids: tf.Tensor | None = None,
    ) -> PretrainingOutput:
        """Computes the losses of a masked batch; no gradient flows through the samples."""
        masked_lm = self._get_masked_lm_output(inputs, randomness)
        fake = self._get_fake_data(inputs, masked_lm.logits, randomness, sampled_token_ids)
        discriminator = self._get_discriminator_output(
            fake.inputs, fake.is_fake_tokens, randomness
        )
        terms = {
            **self.masked_lm_terms(inputs, masked_lm),
            **self.discriminator_terms(discriminator),
        }
        return PretrainingOutput(terms, inputs, masked_lm, fake, discriminator)

    def _get_masked_lm_output(
        self, inputs: PretrainInputs, randomness: Randomness
    ) -> MaskedLMOutput:
        """Predicts the masked tokens with the generator: p_G of section 2."""
        return self.token_generator(inputs, randomness)

    def masked_lm_terms(
        self, inputs: PretrainInputs, masked_lm: MaskedLMOutput
    ) -> dict[str, LossTerm]:
        """Returns the loss terms of the generator, and of a masking strategy that learns."""
        return {
            **self.token_generator.terms(inputs, masked_lm),
            **self.masking_terms(inputs, masked_lm),
        }

    def masking_terms(
        self, inputs: PretrainInputs, masked_lm: MaskedLMOutput
    ) -> dict[str, LossTerm]:
        """Returns the loss terms of a masking strategy that learns."""
        if not self.masking.learns:
            return {}
        return self.masking.terms(unmask(inputs), masked_lm)

    def masked_lm_term_weights(self, inputs: PretrainInputs) -> dict[str, tf.Tensor]:
        """Returns the number of tokens of each of the `masked_lm_terms`."""
        return {
            **self.token_generator.term_weights(inputs),
            **self.masking.term_weights(inputs),
        }

    def _get_fake_data(
        self,
        inputs: PretrainInputs,
        logits: tf.Tensor,
        randomness: Randomness,
        sampled_token_ids: tf.Tensor | None = None,
    ) -> FakeData:
        """Replaces the masked tokens with samples of the generator (section 2).

        A sample that equals the original token is labeled real. With `--replacement=argmax`,
        the most likely tokens are used instead of samples.
        """
        inputs = unmask(inputs)
        if sampled_token_ids is None:
            sampled_token_ids = replacement_tokens(
                self.config, logits, self._disallowed(inputs), randomness
            )
        corrupted, written = scatter_update(
            inputs.input_ids, sampled_token_ids, inputs.masked_lm_positions
        )
        labels = written * tf.cast(corrupted != inputs.input_ids, tf.int32)
        corrupted_inputs = inputs._replace(input_ids=corrupted)
        return FakeData(corrupted_inputs, labels, sampled_token_ids, written)

    def _disallowed(self, inputs: PretrainInputs) -> tf.Tensor | None:
        return inputs.masked_lm_ids if self.config.disallow_correct else None

    def _get_discriminator_output(
        self,
        inputs: PretrainInputs,
        labels: tf.Tensor,
        randomness: Randomness,
        logit_offset: tf.Tensor | None = None,
    ) -> DiscriminatorOutput:
        """Classifies every token as original or replaced: D of section 2.

        Args:
            inputs: corrupted inputs.
            labels: int32 [batch, seq], 1 for replaced tokens.
            randomness: random stream of dropout.
            logit_offset: float32 [batch, seq], added to the logits.
        """
        sequence = self.encode(inputs, randomness)
        return self.discriminate(inputs, sequence, labels, logit_offset)

    def encode(self, inputs: PretrainInputs, randomness: Randomness) -> tf.Tensor:
        """Returns the full-size encoder's output [batch, seq, hidden]."""
        return self.electra(
            inputs.input_ids,
            inputs.input_mask,
            inputs.segment_ids,
            randomness.dropout_key("discriminator_dropout"),
        ).sequence_output

    def discriminate(
        self,
        inputs: PretrainInputs,
        sequence: tf.Tensor,
        labels: tf.Tensor,
        logit_offset: tf.Tensor | None = None,
    ) -> DiscriminatorOutput:
        """Like `_get_discriminator_output`, from the encoder's output [batch, seq, hidden]."""
        weights = self.discriminator_weights(inputs)
        logits = self.discriminator_predictions(sequence)
        require_positions(weights, logits, "discriminator_weights")
        if logit_offset is not None:
            logits += logit_offset
        losses = self.detection_losses(labels, logits)
        require_positions(losses, logits, "detection_losses")
        losses *= weights
        per_example_loss = tf.reduce_sum(losses, axis=-1) / (
            WEIGHT_EPSILON + tf.reduce_sum(weights, axis=-1)
        )
        loss = tf.reduce_sum(losses) / (WEIGHT_EPSILON + tf.reduce_sum(weights))
        preds = tf.cast(logits > 0, tf.int32)
        return DiscriminatorOutput(
            logits, tf.sigmoid(logits), preds, per_example_loss, loss, weights
        )

    def detection_losses(self, labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
        """Returns the unweighted cross-entropy of every token, float32 [batch, seq].

        Args:
            labels: int32 [batch, seq], 1 for replaced tokens.
            logits: float32 [batch, seq].
        """
        return tf.nn.sigmoid_cross_entropy_with_logits(
            labels=tf.cast(labels, tf.float32), logits=logits
        )

    def discriminator_weights(self, inputs: PretrainInputs) -> tf.Tensor:
        """Returns float32 [batch, seq], the weight of each token in the discriminator's loss.

        It depends on the data and the masks only (see `term_weights`): 1, or 0 for padding.
        """
        return tf.cast(inputs.input_mask, tf.float32)

    def discriminator_terms(self, discriminator: DiscriminatorOutput) -> dict[str, LossTerm]:
        """Returns the loss term of the discriminator: disc_weight * L_Disc."""
        weight = tf.reduce_sum(discriminator.weights)
        return {"disc": LossTerm(discriminator.loss, self.config.disc_weight, weight)}

    def discriminator_term_weights(self, inputs: PretrainInputs) -> dict[str, tf.Tensor]:
        """Returns the number of tokens of each of the `discriminator_terms`."""
        return {"disc": tf.reduce_sum(self.discriminator_weights(inputs))}

    def term_weights(self, inputs: PretrainInputs) -> dict[str, tf.Tensor]:
        """Returns the number of tokens of each loss term of a masked batch.

        It depends on the data and the masks only: with gradient accumulation, the totals are
        needed before the first micro-batch.
        """
        return {
            **self.masked_lm_term_weights(inputs),
            **self.discriminator_term_weights(inputs),
        }

    def metric_sums(self, output: PretrainingOutput) -> MetricSums:
        """Returns the sums of the metrics (see `electra_tf.model.metrics`)."""
        return {
            **masked_lm_sums(output.inputs, output.masked_lm),
            **sampling_sums(output.inputs, output.fake_data),
            **discriminator_sums(output.fake_data, output.discriminator),
            **output.extra,
        }

    def token_scores(self, output: PretrainingOutput) -> TokenScores | None:
        """Returns the discriminator's scores of a batch; None without a discriminator."""
        fake, discriminator = output.fake_data, output.discriminator
        if fake is None or discriminator is None:
            return None
        return TokenScores(
            ids=fake.inputs.input_ids,
            originals=unmask(output.inputs).input_ids,
            logits=discriminator.logits,
            labels=fake.is_fake_tokens,
            weights=discriminator.weights,
            input_mask=fake.inputs.input_mask,
        )

    def call(
        self,
        features: dict[str, tf.Tensor],
        *,
        randomness: Randomness,
        masked_inputs: PretrainInputs | None = None,
        sampled_token_ids: tf.Tensor | None = None,
    ) -> PretrainingOutput:
        """Masks a batch and computes its losses.

        Args:
            features: inputs of `prepare`.
            randomness: random streams of masking, sampling and dropout.
            masked_inputs: already masked inputs, used instead of `features`.
            sampled_token_ids: int32 [batch, n], used instead of the generator's samples.
        """
        inputs = masked_inputs
        if inputs is None:
            inputs = self.prepare(features, randomness=randomness)
        return self.forward(inputs, randomness=randomness, sampled_token_ids=sampled_token_ids)

    def replaced_logits(
        self, input_ids: tf.Tensor, input_mask: tf.Tensor, segment_ids: tf.Tensor
    ) -> tf.Tensor:
        """Returns the logits of the probability of each token of a text to be replaced.

        Args:
            input_ids, input_mask, segment_ids: int32 [batch, seq], unmasked text.

        Returns:
            float32 [batch, seq].
        """
        sequence = self.electra(input_ids, input_mask, segment_ids).sequence_output
        return self.discriminator_predictions(sequence)

    def stages(self) -> list[Stage]:
        """Returns the stages of the run; the optimizer is reset at the start of each."""
        return self.stages_of(self.config)

    def start_stage(self) -> None:
        """Initializes the weights of the starting stage; called once per stage."""

    @property
    def has_trained_electra(self) -> bool:
        """Whether a stage up to the current one trains the full-size encoder."""
        return True

    def create_layers(self) -> None:
        """Creates the additional layers of the objective.

        Layers that train at `--generator_learning_rate` are attributes whose names start with
        `generator_`. Variable paths must be unique, and layers must be built here: variables
        created later would be neither trained nor restored, and training raises ValueError.
        """

    def _create_encoders(self) -> Encoders:
        config = self.config
        shapes = Shapes(
            self.encoder_config,
            generator_config(config),
            self.dtype_policy,
            config.rematerialize,
        )
        if not self.generator_class(config).has_encoder:
            return Encoders(shapes.encoder(DISCRIMINATOR), None)
        sharing = config.embedding_sharing if self.has_generator else choices.SHARE_ALL
        return choices.load(choices.EMBEDDING_SHARING, sharing)(shapes)
