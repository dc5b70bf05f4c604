"""Pseudo-log-likelihoods: the sum over tokens of log p(token | all others).

Three methods compute the conditional probabilities:

- `mlm`: a masked language model, one pass per token, with that token masked (Salazar et al.
  2020, "Masked Language Model Scoring", eq. 1).
- `two_tower`: the softmax of the two towers, one pass for all tokens.
- `electric`: exp(-E(x)_t) of the energies, one pass for all tokens; approximately normalized
  by noise-contrastive estimation (Clark et al. 2020, "Pre-Training Transformers as
  Energy-Based Cloze Models", section 2.2).

Whatever the precision of the run, logits and energies are float32: sums over tokens are
compared with each other, and bfloat16 has three digits.
"""

import abc
import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, TypeVar

import numpy as np
import tensorflow as tf

from electra_tf.config.choices import ELECTRIC as ELECTRIC_OBJECTIVE
from electra_tf.inference.scoring.config import AUTO, ELECTRIC, MASKED, TWO_TOWER
from electra_tf.inference.scoring.padding import compilation_cost, padded_lengths
from electra_tf.model.compilation import side_by_side
from electra_tf.model.kernels import CastKernels, without_fusion
from electra_tf.model.layers import Linear
from electra_tf.model.positions import gather_positions
from electra_tf.model.randomness import Randomness
from electra_tf.objectives.electric import token_log_probs
from electra_tf.pretraining_model import PretrainingModel
from electra_tf.util.errors import UserError

_NO_RANDOMNESS = Randomness(0, 0, dropout=False)
Item = TypeVar("Item")


class TextScore(NamedTuple):
    """`log_probs`, float64 [tokens], log p(token | all others) of each token of a text."""

    log_probs: np.ndarray

    @property
    def total(self) -> float:
        """The pseudo-log-likelihood, in nats."""
        return float(self.log_probs.sum())


class Scorer(abc.ABC):
    """Scores sequences of ids with one model.

    Args:
        model: pre-trained model, which must no longer be trained.
        batch_size: rows per pass.
        num_cores: of the CPU, which compute parts of the rows.
    """

    def __init__(self, model: PretrainingModel, batch_size: int, num_cores: int = 1) -> None:
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

    def _compile(self, function: Callable, num_inputs: int) -> Callable:
        """Compiles a function of int32 inputs [batch, n], once per length.

        In float32, XLA compiles the whole function, and divides it between the cores. In
        narrower types, its products are slower than TensorFlow's, so only what is between them
        is compiled, and each core computes a part of the rows.
        """
        whole = compiles_all(self._model.compute_dtype)

        def compute(inputs: tuple[tf.Tensor, ...]) -> tf.Tensor:
            with self._cast_kernels, without_fusion() if whole else contextlib.nullcontext():
                return function(*inputs)

        divided = compute if whole else side_by_side(compute, self._num_cores)
        return tf.function(
            lambda *inputs: divided(inputs),
            input_signature=[tf.TensorSpec([self._batch_size, None], tf.int32)] * num_inputs,
            autograph=False,
            jit_compile=whole,
        )

    def _batches(
        self, items: Sequence[Item], lengths: Sequence[int]
    ) -> Iterator[tuple[Sequence[Item], int]]:
        """Yields batches of items, sorted by length, and the length to pad them to."""
        starts = range(0, len(items), self._batch_size)
        batches = [items[start : start + self._batch_size] for start in starts]
        longest = [lengths[min(start + self._batch_size, len(items)) - 1] for start in starts]
        padded = padded_lengths(
            longest,
            self._batch_size,
            cost=compilation_cost(self._width),
            compiled=self._compiled_lengths,
        )
        self._compiled_lengths.update(padded)
        yield from zip(batches, padded, strict=True)

    @abc.abstractmethod
    def score(self, texts: Sequence[Sequence[int]]) -> list[TextScore]:
        """Returns the score of each text.

        Args:
            texts: ids with [CLS] and [SEP], which are not scored.
        """


class _OnePassScorer(Scorer):
    """Scores all tokens of a text in one pass."""

    def __init__(self, model: PretrainingModel, batch_size: int, num_cores: int = 1) -> None:
        super().__init__(model, batch_size, num_cores)
        self._log_probs = self._compile(self._score_batch, 2)

    def score(self, texts: Sequence[Sequence[int]]) -> list[TextScore]:
        """Returns the score of each text."""
        scores: list[TextScore | None] = [None] * len(texts)
        by_length = sorted(range(len(texts)), key=lambda i: len(texts[i]))
        for chosen, length in self._batches(by_length, [len(texts[i]) for i in by_length]):
            rows = [texts[i] for i in chosen]
            log_probs = self._log_probs(*_padded(rows, self._batch_size, length)).numpy()
            for i, row, values in zip(chosen, rows, log_probs, strict=False):
                scores[i] = TextScore(values[1 : len(row) - 1].astype(np.float64))
        return scores

    @abc.abstractmethod
    def _score_batch(self, input_ids: tf.Tensor, input_mask: tf.Tensor) -> tf.Tensor:
        """Returns float32 [batch, seq], the log-probability of every token."""


class ElectricScorer(_OnePassScorer):
    """Scores by negative energies; the energies are the discriminator's logits."""

    def _linears(self) -> list[Linear]:
        return [*self._model.electra.linears, self._model.discriminator_predictions.dense]

    def _score_batch(self, input_ids: tf.Tensor, input_mask: tf.Tensor) -> tf.Tensor:
        sequence = self._model.electra(
            input_ids, input_mask, tf.zeros_like(input_ids)
        ).sequence_output
        return -self._model.discriminator_predictions(sequence, float32=True)


class TwoTowerScorer(_OnePassScorer):
    """Scores by the softmax of the two-tower generator."""

    def _linears(self) -> list[Linear]:
        towers = self._model.two_tower
        return [*towers.ltr.linears, *towers.rtl.linears, towers.head.dense]

    def _score_batch(self, input_ids: tf.Tensor, input_mask: tf.Tensor) -> tf.Tensor:
        logits = self._model.two_tower(
            input_ids,
            input_mask,
            tf.zeros_like(input_ids),
            randomness=_NO_RANDOMNESS,
            float32=True,
        ).logits
        return token_log_probs(logits, input_ids)


class MaskedScorer(Scorer):
    """Scores by a masked language model: the generator, or that of `--objective=mlm`."""

    def __init__(self, model: PretrainingModel, batch_size: int, num_cores: int = 1) -> None:
        super().__init__(model, batch_size, num_cores)
        self._at_mask = self._compile(self._score_masked, 3)

    def _linears(self) -> list[Linear]:
        return [*self._model.generator.linears, self._model.generator_predictions.dense]

    def score(self, texts: Sequence[Sequence[int]]) -> list[TextScore]:
        """Returns the score of each text, from one row per masked token."""
        places = [(i, t) for i, ids in enumerate(texts) for t in range(1, len(ids) - 1)]
        places.sort(key=lambda place: len(texts[place[0]]))
        log_probs = [np.zeros(max(0, len(ids) - 2)) for ids in texts]
        for chosen, length in self._batches(places, [len(texts[i]) for i, _ in places]):
            ids, mask = _padded([texts[i] for i, _ in chosen], self._batch_size, length)
            positions = np.ones([self._batch_size, 1], np.int32)
            positions[: len(chosen), 0] = [t for _, t in chosen]
            values = self._at_mask(ids, mask, positions).numpy()
            for (i, t), value in zip(chosen, values, strict=False):
                log_probs[i][t - 1] = value
        return [TextScore(values) for values in log_probs]

    def _score_masked(
        self, input_ids: tf.Tensor, input_mask: tf.Tensor, positions: tf.Tensor
    ) -> tf.Tensor:
        """Returns float32 [batch], the log-probability of the token at each position."""
        model, length = self._model, tf.shape(input_ids)[1]
        masked = tf.where(tf.range(length) == positions, model.special.mask, input_ids)
        encoded = model.generator(
            masked, input_mask, tf.zeros_like(masked), positions=positions
        )
        logits = model.generator_predictions(
            encoded.sequence_output, model.generator.embeddings.word_embeddings, float32=True
        )
        return token_log_probs(logits, gather_positions(input_ids, positions))[:, 0]


def compiles_all(compute_dtype: str) -> bool:
    """Whether XLA compiles a scorer's whole function."""
    return compute_dtype == "float32"


def create_scorer(
    model: PretrainingModel, method: str, batch_size: int, num_cores: int = 1
) -> Scorer:
    """Returns the scorer selected by `--method`; the other arguments are those of `Scorer`.

    Raises:
        UserError: the model does not support the method.
    """
    if method == AUTO:
        method = _method_of(model)
    is_there = {
        MASKED: model.generator is not None,
        TWO_TOWER: model.two_tower is not None,
        ELECTRIC: model.config.objective == ELECTRIC_OBJECTIVE,
    }
    if not is_there[method]:
        usable = [name for name, there in is_there.items() if there]
        raise UserError(
            f"--method={method} is unavailable for a model of --objective="
            f"{model.config.objective} and --generator_type={model.config.generator_type}"
            + (f": choose {' or '.join(usable)}" if usable else ", as are all other methods")
        )
    scorers = {MASKED: MaskedScorer, TWO_TOWER: TwoTowerScorer, ELECTRIC: ElectricScorer}
    return scorers[method](model, batch_size, num_cores)


def _method_of(model: PretrainingModel) -> str:
    if model.config.objective == ELECTRIC_OBJECTIVE:
        return ELECTRIC
    return TWO_TOWER if model.two_tower is not None else MASKED


def _padded(
    rows: Sequence[Sequence[int]], batch_size: int, length: int
) -> tuple[np.ndarray, np.ndarray]:
    """Returns `input_ids` and `input_mask`, int32 [batch_size, length]."""
    shape = (batch_size, length)
    ids, mask = np.zeros(shape, np.int32), np.zeros(shape, np.int32)
    for i, row in enumerate(rows):
        ids[i, : len(row)], mask[i, : len(row)] = row, 1
    return ids, mask
