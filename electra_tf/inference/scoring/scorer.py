"""What scorers of texts have in common: their batches, and how their functions are compiled.

Whatever the precision of the run, logits and energies are float32: sums over tokens are
compared with each other, and bfloat16 has three digits.
"""

import abc
import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from electra_tf.inference.scoring.filling import fill_rows, lay_out, row_lengths
from electra_tf.model.compilation import side_by_side
from electra_tf.model.kernels import CastKernels, without_fusion
from electra_tf.model.layers import Linear
from electra_tf.pretraining_model import PretrainingModel
from electra_tf.util.errors import UserError


class TextScore(NamedTuple):
    """The score of a text.

    Attributes:
        log_probs: float64 [tokens], log p(token | all others) of each token.
        predictions: int32 [tokens], the most likely tokens given all others, by the name of
            the predictor, the scored model first; empty unless requested.
    """

    log_probs: np.ndarray
    predictions: Mapping[str, np.ndarray] = MappingProxyType({})

    @property
    def total(self) -> float:
        """The pseudo-log-likelihood, in nats."""
        return float(self.log_probs.sum())


class Scorer(abc.ABC):
    """Scores sequences of ids with one model.

    Args:
        model: pre-trained model, which is not trained any more.
        batch_size: rows per pass.
        num_cores: of the CPU, which compute parts of the rows.

    Raises:
        UserError: `batch_size` is less than 1.
    """

    def __init__(self, model: PretrainingModel, batch_size: int, num_cores: int = 1) -> None:
        if batch_size < 1:
            raise UserError(f"batch_size must be at least 1, not {batch_size}")
        self._model = model
        self._batch_size = batch_size
        self._num_cores = num_cores
        linears = self._linears()
        self._cast_kernels = CastKernels(linears)
        self._width = linears[-1].kernel.shape[0]
        self._compiled_lengths: set[int] = set()

    @abc.abstractmethod
    def _linears(self) -> list[Linear]:
        """Returns the layers whose kernels are cast to the compute dtype once."""

    def _compile(self, function: Callable, *inputs: tf.TensorSpec) -> Callable:
        """Compiles a function of tensors [batch, ...], once per length of rows.

        In float32, XLA compiles the whole function, and divides it between the cores. In
        narrower types, its products are slower than TensorFlow's, so only what is between them
        is compiled, and each core computes a part of the rows.
        """
        whole = compiles_all(self._model.compute_dtype)

        def compute(values: tuple[tf.Tensor, ...]) -> tf.Tensor:
            with self._cast_kernels, without_fusion() if whole else contextlib.nullcontext():
                return function(*values)

        divided = compute if whole else side_by_side(compute, self._num_cores)
        return tf.function(
            lambda *values: divided(values),
            input_signature=inputs,
            autograph=False,
            jit_compile=whole,
        )

    def _ints(self, *sizes: int | None) -> tf.TensorSpec:
        return tf.TensorSpec([self._batch_size, *sizes], tf.int32)

    def _batches(
        self, lengths: Sequence[int], text_tokens: int = 1
    ) -> Iterator[tuple[list[list[int]], int]]:
        """Yields batches of rows, and the row length of each.

        Args:
            lengths: of the texts.
            text_tokens: a row has at most one text per this many tokens.

        Yields:
            The indices of the texts of each row, and the number of tokens of a row.
        """
        chosen = row_lengths(
            lengths,
            self._batch_size,
            self._width,
            text_tokens=text_tokens,
            compiled=self._compiled_lengths,
        )
        self._compiled_lengths.update(chosen)
        for row_length in sorted(set(chosen)):
            texts = [i for i, length in enumerate(chosen) if length == row_length]
            rows = fill_rows([lengths[i] for i in texts], row_length, row_length // text_tokens)
            for start in range(0, len(rows), self._batch_size):
                batch = rows[start : start + self._batch_size]
                yield [[texts[i] for i in row] for row in batch], row_length

    def score(self, texts: Sequence[Sequence[int]]) -> list[TextScore]:
        """Returns the score of each text.

        Args:
            texts: ids with [CLS] and [SEP], which are not scored.

        Raises:
            UserError: a text is no list of ids, lacks one of these, is longer than the model's
                position embeddings, or has ids outside of its vocabulary.
        """
        texts = list(texts)  # an iterator could be read only once
        for number, ids in enumerate(texts):
            self._check(number, ids)
        return self._score(texts)

    def _check(self, number: int, ids: Sequence[int]) -> None:
        """Refuses ids and positions without embeddings; compiled graphs take the nearest."""
        special, shape = self._model.special, self._model.encoder_config
        if not hasattr(ids, "__len__"):
            raise UserError(f"texts must be a list of lists of ids, not of {ids!r:.80}")
        if len(ids) < 2 or ids[0] != special.cls or ids[-1] != special.sep:
            raise UserError(
                f"Text {number} does not start with [CLS] and end with [SEP]: see "
                "electra_tf.text.framing.frame"
            )
        if len(ids) > shape.max_position_embeddings:
            raise UserError(
                f"Text {number} has {len(ids)} tokens, but the model takes at most "
                f"{shape.max_position_embeddings}, with [CLS] and [SEP]: split it"
            )
        if not 0 <= min(ids) <= max(ids) < shape.vocab_size:
            raise UserError(
                f"Text {number} has ids from {min(ids)} to {max(ids)}, but the model's "
                f"vocabulary has {shape.vocab_size} tokens"
            )

    def num_computed(self, length: int) -> int:
        """Returns how many tokens are computed to score a text of `length` tokens."""
        return length

    @abc.abstractmethod
    def _score(self, texts: Sequence[Sequence[int]]) -> list[TextScore]:
        """Returns the score of each text, which the model can read."""


class OnePassScorer(Scorer):
    """Scores all tokens of a text in one pass."""

    def __init__(self, model: PretrainingModel, batch_size: int, num_cores: int = 1) -> None:
        super().__init__(model, batch_size, num_cores)
        self._values = self._compile(self._score_batch, *[self._ints(None)] * 3)

    def _score(self, texts: Sequence[Sequence[int]]) -> list[TextScore]:
        """Returns the score of each text."""
        return [TextScore(values) for values in self._token_values(texts)]

    def _token_values(self, texts: Sequence[Sequence[int]]) -> list[np.ndarray]:
        """Returns the values of `_score_batch` for each text, float64 [tokens]."""
        found: list[np.ndarray | None] = [None] * len(texts)
        for rows, length in self._batches([len(ids) for ids in texts]):
            batch = lay_out([[texts[i] for i in row] for row in rows], self._batch_size, length)
            computed = self._values(*batch).numpy().astype(np.float64)
            for row, values in zip(rows, computed, strict=False):
                start = 0
                for i in row:
                    end = start + len(texts[i])
                    found[i] = values[start + 1 : end - 1]
                    start = end
        return found

    @abc.abstractmethod
    def _score_batch(
        self, input_ids: tf.Tensor, text_numbers: tf.Tensor, position_ids: tf.Tensor
    ) -> tf.Tensor:
        """Returns float32 [batch, seq]: log-probabilities of tokens, or what gives them."""


class DiscriminatorScorer(OnePassScorer):
    """Computes the discriminator's logits, and scores by them."""

    def _linears(self) -> list[Linear]:
        return [*self._model.electra.linears, self._model.discriminator_predictions.dense]

    def _score_batch(
        self, input_ids: tf.Tensor, text_numbers: tf.Tensor, position_ids: tf.Tensor
    ) -> tf.Tensor:
        """Returns float32 [batch, seq], the logit of every token."""
        sequence = self._model.electra(
            input_ids,
            attention_mask(text_numbers),
            tf.zeros_like(input_ids),
            position_ids=position_ids,
        ).sequence_output
        return self._model.discriminator_predictions(sequence, float32=True)


def compiles_all(compute_dtype: str) -> bool:
    """Whether XLA compiles a scorer's whole function."""
    return compute_dtype == "float32"


def attention_mask(text_numbers: tf.Tensor) -> tf.Tensor:
    """Returns int32 [batch, seq, seq], 1 where both positions are of the same text."""
    same = tf.equal(text_numbers[:, :, None], text_numbers[:, None, :])
    return tf.cast(same, tf.int32)
