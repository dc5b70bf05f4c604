"""Two-stage ELECTRA: the generator first, then the discriminator (section 3.2).

The first stage trains only the generator. The second initializes the discriminator from the
generator's weights and trains it with the generator frozen.
"""

import dataclasses

import tensorflow as tf

from electra_tf.config.choices import MASKED_LM, SHARE_NONE
from electra_tf.config.model_parts import ModelPart, discriminator_part
from electra_tf.config.phases import Stage
from electra_tf.config.pretraining import (
    PretrainingConfig,
    discriminator_config,
    generator_config,
)
from electra_tf.model import metrics
from electra_tf.model.batch_types import PretrainingOutput, PretrainInputs
from electra_tf.model.metrics import masked_lm_sums
from electra_tf.model.randomness import Randomness
from electra_tf.pretraining_model import PretrainingModel
from electra_tf.pretraining_objective import refuse_zero_weights
from electra_tf.util.console import warn_once
from electra_tf.util.errors import UserError

GENERATOR_STAGE, DISCRIMINATOR_STAGE = 0, 1


@dataclasses.dataclass(frozen=True)
class TwoStageHparams:
    """`generator_share`: fraction of the steps that train the generator."""

    generator_share: float = 0.5


class TwoStage(PretrainingModel):
    """L_MLM for the first steps, then L_Disc with the generator frozen.

    The initialization requires both models to have the same shape; freezing requires that
    they share no weights.
    """

    Hparams = TwoStageHparams
    generator_types = (MASKED_LM,)

    @classmethod
    def check(cls, config: PretrainingConfig) -> None:
        """Rejects different shapes, shared weights, and stages without steps."""
        super().check(config)
        if config.embedding_sharing != SHARE_NONE:
            raise UserError(
                "--objective=two_stage freezes the generator while it trains the "
                "discriminator, so they cannot share weights: pass --embedding_sharing=none, "
                "not "
                f"{config.embedding_sharing}"
            )
        generator, full_size = generator_config(config), discriminator_config(config)
        differing = [
            f"{field.name} is {getattr(generator, field.name)} in the generator and "
            f"{getattr(full_size, field.name)} in the discriminator"
            for field in dataclasses.fields(full_size)
            if getattr(generator, field.name) != getattr(full_size, field.name)
        ]
        if differing:
            raise UserError(
                "--objective=two_stage initializes the discriminator from the generator, so "
                "both must have the same shape: pass --generator_hidden_size=1, "
                "--generator_layers=1 and an --embedding_size equal to the hidden size. "
                + "; ".join(differing)
            )
        share = cls.parse_hparams(config).generator_share
        if not 0 < round(config.num_train_steps * share) < config.num_train_steps:
            raise UserError(
                f"generator_share={share} in --objective_hparams leaves no steps of "
                f"--num_train_steps={config.num_train_steps} for one of the two stages"
            )

    @classmethod
    def check_loss_weights(cls, config: PretrainingConfig) -> None:
        """Raises UserError if one of the stages trains nothing."""
        weights = cls.generator_class(config).loss_weights(config)
        refuse_zero_weights(weights, "The first stage of --objective=two_stage")
        weights = {"--disc_weight": config.disc_weight}
        refuse_zero_weights(weights, "The second stage of --objective=two_stage")

    @classmethod
    def warn_of_unused(cls, config: PretrainingConfig) -> None:
        """Also warns of initial weights that the second stage replaces."""
        super().warn_of_unused(config)
        if config.init_checkpoint:
            warn_once(
                "--objective=two_stage starts the discriminator of its second stage from the "
                "generator, so only the generator of "
                f"--init_checkpoint={config.init_checkpoint} is used, not its encoder"
            )

    @classmethod
    def stages_of(cls, config: PretrainingConfig) -> list[Stage]:
        """Returns the stages of generator and discriminator."""
        share = cls.parse_hparams(config).generator_share
        first = round(config.num_train_steps * share)
        return [
            Stage("generator", first),
            Stage("discriminator", config.num_train_steps - first),
        ]

    @property
    def has_trained_electra(self) -> bool:
        """Whether the stage of the discriminator has begun."""
        return self.stage == DISCRIMINATOR_STAGE

    def start_stage(self) -> None:
        """Copies the generator's weights to the discriminator before the second stage."""
        if self.stage == DISCRIMINATOR_STAGE:
            pairs = zip(self.electra.variables, self.generator.variables, strict=True)
            for target, source in pairs:
                target.assign(source)

    def forward(
        self,
        inputs: PretrainInputs,
        *,
        randomness: Randomness,
        sampled_token_ids: tf.Tensor | None = None,
    ) -> PretrainingOutput:
        """Computes the loss of the current stage."""
        if self.stage == GENERATOR_STAGE:
            masked_lm = self._get_masked_lm_output(inputs, randomness)
            return PretrainingOutput(self.masked_lm_terms(inputs, masked_lm), inputs, masked_lm)
        # A frozen generator predicts without dropout.
        masked_lm = self._get_masked_lm_output(
            inputs, dataclasses.replace(randomness, dropout=False)
        )
        fake = self._get_fake_data(inputs, masked_lm.logits, randomness, sampled_token_ids)
        discriminator = self._get_discriminator_output(
            fake.inputs, fake.is_fake_tokens, randomness
        )
        terms = self.discriminator_terms(discriminator)
        return PretrainingOutput(terms, inputs, masked_lm, fake, discriminator)

    def term_weights(self, inputs: PretrainInputs) -> dict[str, tf.Tensor]:
        """Returns the number of masked tokens, or of non-padding tokens in stage 2."""
        if self.stage == GENERATOR_STAGE:
            return self.masked_lm_term_weights(inputs)
        return self.discriminator_term_weights(inputs)

    def metric_sums(self, output: PretrainingOutput) -> metrics.MetricSums:
        """Returns the metric sums of the models of the current stage."""
        if output.discriminator is None:
            return masked_lm_sums(output.inputs, output.masked_lm)
        return super().metric_sums(output)

    @classmethod
    def parts(cls, config: PretrainingConfig) -> list[ModelPart]:
        """Returns the generator in training, the frozen one, and the discriminator."""
        (generator,) = cls.generator_class(config).parts(config)
        frozen = dataclasses.replace(generator, name="frozen generator", is_trained=False)
        return [
            dataclasses.replace(generator, stage=GENERATOR_STAGE),
            dataclasses.replace(frozen, stage=DISCRIMINATOR_STAGE),
            dataclasses.replace(discriminator_part(config), stage=DISCRIMINATOR_STAGE),
        ]
