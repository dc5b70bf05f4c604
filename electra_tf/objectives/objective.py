"""What every pre-training objective provides."""

import abc
from typing import TYPE_CHECKING, ClassVar

import tensorflow as tf

from electra_tf import metrics
from electra_tf.config import PretrainingConfig
from electra_tf.outputs import MaskedLMOutput, PretrainingOutput, Randomness
from electra_tf.pretrain_helpers import PretrainInputs

if TYPE_CHECKING:
    from electra_tf.pretraining_model import PretrainingModel


class Objective(abc.ABC):
    """One way to pre-train.

    Attributes:
        trains_generator: the model has a generator (or masked language model).
        has_discriminator: the model has a discriminator's head.
    """

    trains_generator: ClassVar[bool]
    has_discriminator: ClassVar[bool]

    def __init__(self, config: PretrainingConfig) -> None:
        self.config = config

    @classmethod
    @abc.abstractmethod
    def selected_by(cls, config: PretrainingConfig) -> bool:
        """Whether the flags ask for this objective."""

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
    def metric_sums(self, output: PretrainingOutput) -> metrics.Sums:
        """Returns the sums behind the metrics (see `electra_tf.metrics`)."""


def num_masked_tokens(inputs: PretrainInputs) -> tf.Tensor:
    """Returns the float32 number of masked tokens, the weight of a masked LM's loss."""
    return tf.reduce_sum(inputs.masked_lm_weights)


def num_real_tokens(inputs: PretrainInputs) -> tf.Tensor:
    """Returns the float32 number of tokens that are no padding."""
    return tf.reduce_sum(tf.cast(inputs.input_mask, tf.float32))


def masked_lm_sums(inputs: PretrainInputs, output: MaskedLMOutput) -> metrics.Sums:
    """Returns the sums of `masked_lm_loss` and `masked_lm_accuracy`."""
    weights = inputs.masked_lm_weights
    return {
        "masked_lm_loss": metrics.mean_sums(output.per_example_loss, weights),
        "masked_lm_accuracy": metrics.mean_sums(
            tf.equal(output.preds, inputs.masked_lm_ids), weights
        ),
    }
