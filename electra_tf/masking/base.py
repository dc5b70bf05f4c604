"""Base class of masking strategies, and the token statistics they use."""

import abc
import dataclasses
from typing import ClassVar, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from electra_tf.config import choices
from electra_tf.config.encoder import EncoderConfig
from electra_tf.config.hyperparameters import NoHparams, parse_hparams
from electra_tf.config.pretraining import PretrainingConfig
from electra_tf.masking.word_list import WordTrie, load_word_list
from electra_tf.model.batch_types import LossTerm, MaskedLMOutput, PretrainInputs
from electra_tf.model.encoder import Encoder
from electra_tf.text.vocabulary import CONTINUATION, Vocabulary


@dataclasses.dataclass(frozen=True)
class TokenStatistics:
    """Statistics by token id.

    Attributes:
        continues_word: bool [vocab], True for `##` pieces.
        counts: int64 [vocab], occurrences of each token in the records; None if not needed.
        words: words of several tokens without `##`, of `--word_list`; None if not given.
    """

    continues_word: np.ndarray
    counts: np.ndarray | None = None
    words: WordTrie | None = None

    @classmethod
    def of(
        cls,
        tokens: tuple[str, ...],
        counts: np.ndarray | None = None,
        words: WordTrie | None = None,
    ) -> "TokenStatistics":
        """Returns the statistics of WordPiece tokens in the order of their ids."""
        continues = np.array([token.startswith(CONTINUATION) for token in tokens])
        return cls(continues, counts, words)

    def log_frequencies(self) -> np.ndarray:
        """Returns log relative frequencies with add-one smoothing, float32 [vocab].

        Raises:
            ValueError: the tokens were not counted.
        """
        if self.counts is None:
            raise ValueError("The tokens of the records must be counted first")
        smoothed = self.counts.astype(np.float64) + 1.0
        return np.log(smoothed / smoothed.sum()).astype(np.float32)


class MaskingOrder(NamedTuple):
    """The order in which positions are masked, until enough are.

    `priority`, float32 [batch, seq]: highest first; ties are broken left to right.
    Candidates with -inf or NaN come last, but before positions that are not candidates.
    `units`, int32 [batch, seq]: index of the unit that is masked as a whole or not at all, such
    as a word. Its positions are adjacent and have the same priority. None if every position is
    a unit.
    """

    priority: tf.Tensor
    units: tf.Tensor | None = None


class MaskingStrategy(abc.ABC):
    """Chooses masked positions.

    Args:
        hparams: instance of `Hparams`.
        tokens: token statistics; None if the model is never trained.

    Attributes:
        Hparams: frozen dataclass of the strategy's hyperparameters (`--masking_hparams`).
        is_uniform: whether the masking rate of a token depends neither on it nor its position.
        needs_counts: whether the tokens of the records must be counted.
        learns: whether it is trained on the losses of a masked language model.
    """

    Hparams: ClassVar[type] = NoHparams
    is_uniform: ClassVar[bool] = True
    needs_counts: ClassVar[bool] = False
    learns: ClassVar[bool] = False

    def __init__(self, hparams: object, tokens: TokenStatistics | None) -> None:
        self.hparams = hparams
        self.tokens = tokens

    def create_layers(self, encoder: Encoder) -> dict[str, keras.layers.Layer]:
        """Creates the layers of the strategy, by attribute name in the model.

        Args:
            encoder: encoder whose token embeddings they may read.
        """
        return {}

    @classmethod
    def warn_of_untrained(cls, hparams: object) -> None:
        """Warns if the strategy learns, but no loss trains it.

        Args:
            hparams: instance of `Hparams`.
        """
        del hparams

    @classmethod
    def head_sizes(cls, encoder: EncoderConfig) -> tuple[int, int] | None:
        """Returns the input and hidden width of the head that scores tokens, to count FLOPs.

        Args:
            encoder: shape of the encoder that `create_layers` gets.

        Returns:
            None if there is no head.
        """
        return None

    def terms(self, original: PretrainInputs, output: MaskedLMOutput) -> dict[str, LossTerm]:
        """Returns the loss terms that train the layers.

        Args:
            original: masked inputs with the original tokens in `input_ids`.
            output: predictions at the masked positions.
        """
        return {}

    def term_weights(self, inputs: PretrainInputs) -> dict[str, tf.Tensor]:
        """Returns the number of tokens of each loss term, float32."""
        return {}

    @abc.abstractmethod
    def order(
        self,
        input_ids: tf.Tensor,
        candidates: tf.Tensor,
        key: tf.Tensor,
        first_example: tf.Tensor | int,
    ) -> MaskingOrder:
        """Returns the masking order; positions that are not candidates are skipped.

        Args:
            input_ids: int32 [batch, seq].
            candidates: bool [batch, seq], positions that may be masked.
            key: uint32 [2], key of the random stream.
            first_example: index of row 0 within the global batch.
        """


def masking_class(config: PretrainingConfig) -> type[MaskingStrategy]:
    """Returns the class selected by `--masking`."""
    return choices.load(choices.MASKING, config.masking)


def token_statistics(
    config: PretrainingConfig, vocabulary: Vocabulary, counts: np.ndarray | None
) -> TokenStatistics:
    """Returns the statistics that the strategy of a configuration needs to mask.

    Args:
        config: configuration of the run.
        vocabulary: vocabulary of the run.
        counts: occurrences of each token in the records, int64 [vocab]; None if not needed.

    Raises:
        UserError: the word list cannot be used.
    """
    words = config.word_list and load_word_list(
        config.word_list,
        vocabulary,
        do_lower_case=config.do_lower_case,
        strip_accents=config.strip_accents,
    )
    return TokenStatistics.of(vocabulary.tokens, counts, words)


def create_masking(
    config: PretrainingConfig, tokens: TokenStatistics | None
) -> MaskingStrategy:
    """Returns the masking strategy of a configuration.

    Raises:
        UserError: a hyperparameter is unknown to the strategy.
    """
    return masking_class(config)(parse_masking_hparams(config), tokens)


def parse_masking_hparams(config: PretrainingConfig) -> object:
    """Returns the hyperparameters of the masking strategy of a configuration.

    Raises:
        UserError: a hyperparameter is unknown to the strategy.
    """
    hparams_class = masking_class(config).Hparams
    return parse_hparams(hparams_class, config.masking_hparams, "--masking_hparams")
