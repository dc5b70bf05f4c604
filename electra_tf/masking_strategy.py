"""What every way to choose masked positions provides."""

import abc
import dataclasses
from typing import ClassVar, NamedTuple

import tensorflow as tf

from electra_tf.config import choices
from electra_tf.config.hyperparameters import parse_hparams
from electra_tf.config.pretraining import PretrainingConfig
from electra_tf.token_facts import TokenFacts


@dataclasses.dataclass(frozen=True)
class NoHparams:
    """A choice without hyperparameters of its own."""


class MaskingOrder(NamedTuple):
    """The order in which positions are masked until enough are.

    `priority` float32 [batch, seq], the highest first, and of equal ones the leftmost.
    `units` int32 [batch, seq] numbers what is masked as a whole or not at all; its positions
    lie side by side and have one priority. None if each position is a unit.
    """

    priority: tf.Tensor
    units: tf.Tensor | None = None


class MaskingStrategy(abc.ABC):
    """One way to choose masked positions.

    Args:
        hparams: of its own.
        tokens: facts by token id; None serves a model that is never masked.

    Attributes:
        Hparams: frozen dataclass of its own hyperparameters, given by `--masking_hparams`.
        needs_counts: the tokens of the records have to be counted.
    """

    Hparams: ClassVar[type] = NoHparams
    needs_counts: ClassVar[bool] = False

    def __init__(self, hparams: object, tokens: TokenFacts | None) -> None:
        self.hparams = hparams
        self.tokens = tokens

    @abc.abstractmethod
    def order(
        self,
        input_ids: tf.Tensor,
        candidates: tf.Tensor,
        key: tf.Tensor,
        first_example: tf.Tensor | int,
    ) -> MaskingOrder:
        """Returns the order of masking; positions that are no candidates are passed over.

        Args:
            input_ids: int32 [batch, seq].
            candidates: bool [batch, seq].
            key: uint32 [2], of the stream.
            first_example: index of row 0 within the batch over all replicas.
        """


def strategy_class(config: PretrainingConfig) -> type[MaskingStrategy]:
    """Returns the class that `--masking` names."""
    return choices.load(choices.MASKING, config.masking)


def create_strategy(config: PretrainingConfig, tokens: TokenFacts | None) -> MaskingStrategy:
    """Returns the strategy that the configuration selects.

    Raises:
        UserError: for a hyperparameter that it does not have.
    """
    chosen = strategy_class(config)
    hparams = parse_hparams(chosen.Hparams, config.masking_hparams, "--masking_hparams")
    return chosen(hparams, tokens)
