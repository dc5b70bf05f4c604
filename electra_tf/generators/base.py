"""What every generator provides."""

import abc
from typing import ClassVar

import keras
import tensorflow as tf

from electra_tf.config.model_parts import ModelPart
from electra_tf.config.pretraining import PretrainingConfig
from electra_tf.generators.sharing import Encoders
from electra_tf.masking.base import TokenStatistics
from electra_tf.model.batch_types import MaskedLMOutput, PretrainInputs, SpecialTokenIds
from electra_tf.model.randomness import Randomness
from electra_tf.pretrain_helpers import num_masked_tokens
from electra_tf.util.errors import UserError


class Generator(abc.ABC):
    """A source of replacements: predicts the tokens at the masked positions.

    It is no layer itself: the model keeps the encoders and `layers`, and their names there
    are those of the checkpoints.

    Args:
        config: of the run.
        encoders: the model's.
        special: ids of the tokens that masking treats apart.
        tokens: facts by token id; None serves a model that never samples.

    Attributes:
        has_encoder: it has an encoder, which shares with the discriminator what
            `--embedding_sharing` says.
        needs_counts: the tokens of the records have to be counted.
        layers: those that it adds to the encoders, by attribute of the model.
    """

    has_encoder: ClassVar[bool] = False
    needs_counts: ClassVar[bool] = False

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
        """Returns the layers that the generator needs beside the encoders."""
        return {}

    @abc.abstractmethod
    def __call__(self, inputs: PretrainInputs, randomness: Randomness) -> MaskedLMOutput:
        """Predicts the masked tokens.

        Args:
            inputs: masked.
            randomness: of dropout.
        """

    def num_predicted(self, inputs: PretrainInputs) -> tf.Tensor:
        """Returns the float32 number of tokens that the generator's loss is over."""
        return num_masked_tokens(inputs)

    @classmethod
    def check(cls, config: PretrainingConfig) -> None:
        """Raises UserError for hyperparameters that this generator does not have."""
        if config.span_boundary_weight:
            raise UserError(
                "--span_boundary_weight is for a masked language model, which "
                f"--generator_type={config.generator_type} is not"
            )

    @classmethod
    def parts(cls, config: PretrainingConfig) -> list[ModelPart]:
        """Returns what a step runs of it, for counting FLOPs."""
        return []
