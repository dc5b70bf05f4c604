"""What masking strategies have in common, and what they know of the tokens."""

import abc
import dataclasses
from typing import ClassVar, NamedTuple

import numpy as np
import tensorflow as tf

from electra_tf.config import choices
from electra_tf.config.hyperparameters import NoHparams, parse_hparams
from electra_tf.config.pretraining import PretrainingConfig

CONTINUATION_PREFIX = "##"


@dataclasses.dataclass(frozen=True)
class TokenStatistics:
    """Facts by token id.

    Attributes:
        continues_word: bool [vocab], True of pieces that go on with the word before them.
        counts: int64 [vocab], how often each token is met in the records; None where
            nothing needs them.
    """

    continues_word: np.ndarray
    counts: np.ndarray | None = None

    @classmethod
    def of(cls, tokens: tuple[str, ...], counts: np.ndarray | None = None) -> "TokenStatistics":
        """Returns the facts of WordPiece tokens in the order of their ids."""
        continues = np.array([token.startswith(CONTINUATION_PREFIX) for token in tokens])
        return cls(continues, counts)

    def log_frequencies(self, smoothing: float = 1.0) -> np.ndarray:
        """Returns float32 [vocab], log((count + smoothing) / sum of that over all tokens).

        Raises:
            ValueError: the tokens were not counted.
        """
        if self.counts is None:
            raise ValueError("The tokens of the records have to be counted first")
        smoothed = self.counts.astype(np.float64) + smoothing
        return np.log(smoothed / smoothed.sum()).astype(np.float32)


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

    def __init__(self, hparams: object, tokens: TokenStatistics | None) -> None:
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


def create_masking(
    config: PretrainingConfig, tokens: TokenStatistics | None
) -> MaskingStrategy:
    """Returns the strategy that the configuration selects.

    Raises:
        UserError: for a hyperparameter that it does not have.
    """
    chosen = strategy_class(config)
    hparams = parse_hparams(chosen.Hparams, config.masking_hparams, "--masking_hparams")
    return chosen(hparams, tokens)
