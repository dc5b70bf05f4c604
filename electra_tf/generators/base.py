"""Base class of generators."""

import abc
from typing import ClassVar

import keras
import tensorflow as tf

from electra_tf.config.model_parts import ModelPart
from electra_tf.config.pretraining import PretrainingConfig
from electra_tf.generators.sharing import Encoders
from electra_tf.masking.base import TokenStatistics
from electra_tf.masking.masked_batch import num_masked_tokens
from electra_tf.model.batch_types import (
    LossTerm,
    MaskedLMOutput,
    PretrainInputs,
    SpecialTokenIds,
)
from electra_tf.model.randomness import Randomness
from electra_tf.util.errors import UserError


class Generator(abc.ABC):
    """Predicts the tokens at the masked positions, to sample replacements from.

    It is not a layer: the model owns the encoders and `layers`, and the names of its attributes
    are the checkpoint keys.

    Args:
        config: configuration of the run.
        encoders: encoders of the model.
        special: ids of the special tokens used in masking.
        tokens: token statistics; None if the model never samples.

    Attributes:
        has_encoder: whether its encoder is one of `encoders`, created as `--embedding_sharing`
            says; the two towers are in `layers` instead.
        needs_counts: whether the tokens of the records must be counted.
        is_constant: whether it predicts the same distribution at every position.
        layers: additional layers, by attribute name in the model.
    """

    has_encoder: ClassVar[bool] = False
    needs_counts: ClassVar[bool] = False
    is_constant: ClassVar[bool] = False

    def __init__(
        self,
        config: PretrainingConfig,
        encoders: Encoders,
        special: SpecialTokenIds,
        tokens: TokenStatistics | None,
    ) -> None:
        self.config = config
        self.encoders = encoders
        self.special = special
        self.tokens = tokens
        self.layers = self.create_layers()

    def create_layers(self) -> dict[str, keras.layers.Layer]:
        """Creates the layers that are needed in addition to the encoders."""
        return {}

    @abc.abstractmethod
    def __call__(self, inputs: PretrainInputs, randomness: Randomness) -> MaskedLMOutput:
        """Predicts the masked tokens.

        Args:
            inputs: masked inputs.
            randomness: random stream of dropout.
        """

    def terms(self, inputs: PretrainInputs, output: MaskedLMOutput) -> dict[str, LossTerm]:
        """Returns the loss terms that train the generator."""
        weight = self.term_weights(inputs)["gen"]
        return {"gen": LossTerm(output.loss, self.config.gen_weight, weight)}

    def term_weights(self, inputs: PretrainInputs) -> dict[str, tf.Tensor]:
        """Returns the number of tokens of each loss term, float32."""
        return {"gen": num_masked_tokens(inputs)}

    @classmethod
    def check(cls, config: PretrainingConfig) -> None:
        """Raises UserError for hyperparameters that this generator does not support."""
        if config.span_boundary_weight:
            raise UserError(
                "--span_boundary_weight requires a masked language model, not "
                f"--generator_type={config.generator_type}"
            )

    @classmethod
    def loss_weights(cls, config: PretrainingConfig) -> dict[str, float]:
        """Returns the weights of the losses that train its encoder, by the flag of each."""
        return {} if cls.is_constant else {"--gen_weight": config.gen_weight}

    @classmethod
    def parts(cls, config: PretrainingConfig) -> list[ModelPart]:
        """Returns the encoders that a training step runs for it, for counting FLOPs."""
        return []
