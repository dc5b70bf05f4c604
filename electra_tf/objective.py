"""What every pre-training objective provides, and what objectives are made of."""

import abc
from typing import TYPE_CHECKING, ClassVar

import keras
import tensorflow as tf

from electra_tf.config import choices
from electra_tf.config.choices import TWO_TOWER
from electra_tf.config.hyperparameters import NoHparams, parse_hparams
from electra_tf.config.model_parts import ModelPart
from electra_tf.config.phases import Stage
from electra_tf.config.pretraining import (
    PretrainingConfig,
)
from electra_tf.generators.two_tower import cloze_weights
from electra_tf.model import metrics
from electra_tf.model.batch_types import (
    FakeData,
    LossTerm,
    MaskedLMOutput,
    PretrainingOutput,
    PretrainInputs,
    SpecialTokenIds,
)
from electra_tf.model.randomness import Randomness
from electra_tf.pretrain_helpers import num_masked_tokens
from electra_tf.util.errors import UserError

if TYPE_CHECKING:
    from electra_tf.pretraining_model import PretrainingModel


class Objective(abc.ABC):
    """One way to pre-train.

    Args:
        config: of the run.
        special: ids of the tokens that masking treats apart.

    Attributes:
        Hparams: frozen dataclass of its own hyperparameters, given by `--objective_hparams`.
        has_generator: replacements are made; where from, `generator_type` says. Without them
            the full-size encoder is the masked language model.
        has_discriminator: the full-size encoder tells real from replaced tokens.
        generator_types: those that the objective can use.
        stage: index of the stage that the run is in; a step is traced for one stage.
    """

    Hparams: ClassVar[type] = NoHparams
    has_generator: ClassVar[bool] = True
    has_discriminator: ClassVar[bool] = True
    generator_types: ClassVar[tuple[str, ...] | None] = None

    def __init__(self, config: PretrainingConfig, special: SpecialTokenIds) -> None:
        self.config = config
        self.special = special
        self.hparams = parse_hparams(
            self.Hparams, config.objective_hparams, "--objective_hparams"
        )
        self.stage = 0
        if self.generator_types and config.generator_type not in self.generator_types:
            raise UserError(
                f"--objective={config.objective} needs --generator_type="
                f"{' or '.join(self.generator_types)}, not {config.generator_type}"
            )

    def create_layers(
        self, model: "PretrainingModel", dtype: keras.DTypePolicy
    ) -> dict[str, keras.layers.Layer]:
        """Returns the layers that the model has for this objective alone, by attribute."""
        return {}

    def stages(self) -> list[Stage]:
        """Returns the stages of the run; the optimizer starts anew in each."""
        return [Stage(self.config.objective, self.config.num_train_steps)]

    def start_stage(self, model: "PretrainingModel") -> None:  # noqa: B027
        """Moves weights where the stage that begins starts from others; called once."""

    @abc.abstractmethod
    def forward(
        self,
        model: "PretrainingModel",
        inputs: PretrainInputs,
        randomness: Randomness,
        sampled_token_ids: tf.Tensor | None,
    ) -> PretrainingOutput:
        """Computes the losses of one masked batch."""

    @abc.abstractmethod
    def term_weights(self, inputs: PretrainInputs) -> dict[str, tf.Tensor]:
        """Returns the weight of each loss term of a masked batch: the tokens it is over.

        It follows from the data and the masks alone: a batch that is computed in parts
        needs the weights of the whole before the first part.
        """

    @abc.abstractmethod
    def metric_sums(self, output: PretrainingOutput) -> metrics.MetricSums:
        """Returns the sums behind the metrics (see `electra_tf.metrics`)."""

    @classmethod
    @abc.abstractmethod
    def parts(cls, config: PretrainingConfig) -> list[ModelPart]:
        """Returns what a step runs, for counting its FLOPs."""

    @staticmethod
    def corrupt(
        model: "PretrainingModel",
        inputs: PretrainInputs,
        randomness: Randomness,
        sampled_token_ids: tf.Tensor | None,
    ) -> tuple[MaskedLMOutput, FakeData]:
        """Returns the generator's predictions, and the text with its samples."""
        masked_lm = model.get_generator_output(inputs, randomness)
        fake = model._get_fake_data(inputs, masked_lm.logits, randomness, sampled_token_ids)
        return masked_lm, fake

    def generator_terms(
        self, inputs: PretrainInputs, masked_lm: MaskedLMOutput
    ) -> dict[str, LossTerm]:
        """Returns the terms that train a masked language model or two-tower generator."""
        weights = self.generator_weights(inputs)
        # A two-tower generator learns from all tokens at once.
        loss = masked_lm.loss if masked_lm.cloze is None else masked_lm.cloze.loss
        terms = {"gen": LossTerm(loss, self.config.gen_weight, weights["gen"])}
        if masked_lm.span_boundary_loss is not None:
            terms["span_boundary"] = LossTerm(
                masked_lm.span_boundary_loss,
                self.config.span_boundary_weight,
                weights["span_boundary"],
            )
        return terms

    def generator_weights(self, inputs: PretrainInputs) -> dict[str, tf.Tensor]:
        """Returns the weights of `generator_terms`."""
        if self.config.generator_type == TWO_TOWER and self.has_generator:
            return {"gen": tf.reduce_sum(cloze_weights(inputs, self.special))}
        weights = {"gen": num_masked_tokens(inputs)}
        if self.config.span_boundary_weight:
            weights["span_boundary"] = num_masked_tokens(inputs)
        return weights


def objective_class(config: PretrainingConfig) -> type[Objective]:
    """Returns the class that `--objective` names."""
    return choices.load(choices.OBJECTIVES, config.objective)
