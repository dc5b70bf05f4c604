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
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from electra_tf.config.choices import ELECTRIC as ELECTRIC_OBJECTIVE
from electra_tf.inference.scoring.config import AUTO, ELECTRIC, MASKED, TWO_TOWER
from electra_tf.inference.scoring.filling import fill_rows, lay_out, row_lengths
from electra_tf.model.compilation import side_by_side
from electra_tf.model.kernels import CastKernels, without_fusion
from electra_tf.model.layers import Linear
from electra_tf.model.randomness import Randomness
from electra_tf.objectives.electric import token_log_probs
from electra_tf.pretraining_model import PretrainingModel
from electra_tf.util.errors import UserError

_NO_RANDOMNESS = Randomness(0, 0, dropout=False)
# The last layer of a masked language model computes one state for so many tokens of a row.
_TEXT_TOKENS = 8


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
        model: pre-trained model, which is not trained any more.
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
        """Yields batches of rows, and the length of these.

        Args:
            lengths: of the texts.
            text_tokens: a row has at most one text for so many of its tokens.

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
            UserError: a text lacks one of these, is longer than the model's position
                embeddings, or has ids outside of its vocabulary.
        """
        for number, ids in enumerate(texts):
            self._check(number, ids)
        return self._score(texts)

    def _check(self, number: int, ids: Sequence[int]) -> None:
        """Refuses ids and positions without embeddings; compiled graphs take the nearest."""
        special, shape = self._model.special, self._model.encoder_config
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

    @abc.abstractmethod
    def _score(self, texts: Sequence[Sequence[int]]) -> list[TextScore]:
        """Returns the score of each text, which the model can read."""


class _OnePassScorer(Scorer):
    """Scores all tokens of a text in one pass."""

    def __init__(self, model: PretrainingModel, batch_size: int, num_cores: int = 1) -> None:
        super().__init__(model, batch_size, num_cores)
        self._log_probs = self._compile(self._score_batch, *[self._ints(None)] * 3)

    def _score(self, texts: Sequence[Sequence[int]]) -> list[TextScore]:
        """Returns the score of each text."""
        scores: list[TextScore | None] = [None] * len(texts)
        for rows, length in self._batches([len(ids) for ids in texts]):
            batch = lay_out([[texts[i] for i in row] for row in rows], self._batch_size, length)
            log_probs = self._log_probs(*batch).numpy().astype(np.float64)
            for row, values in zip(rows, log_probs, strict=False):
                start = 0
                for i in row:
                    end = start + len(texts[i])
                    scores[i] = TextScore(values[start + 1 : end - 1])
                    start = end
        return scores

    @abc.abstractmethod
    def _score_batch(
        self, input_ids: tf.Tensor, text_numbers: tf.Tensor, position_ids: tf.Tensor
    ) -> tf.Tensor:
        """Returns float32 [batch, seq], the log-probability of every token."""


class ElectricScorer(_OnePassScorer):
    """Scores by negative energies; the energies are the discriminator's logits."""

    def _linears(self) -> list[Linear]:
        return [*self._model.electra.linears, self._model.discriminator_predictions.dense]

    def _score_batch(
        self, input_ids: tf.Tensor, text_numbers: tf.Tensor, position_ids: tf.Tensor
    ) -> tf.Tensor:
        sequence = self._model.electra(
            input_ids,
            _mask(text_numbers),
            tf.zeros_like(input_ids),
            position_ids=position_ids,
        ).sequence_output
        return -self._model.discriminator_predictions(sequence, float32=True)


class TwoTowerScorer(_OnePassScorer):
    """Scores by the softmax of the two-tower generator."""

    def _linears(self) -> list[Linear]:
        towers = self._model.two_tower
        return [*towers.ltr.linears, *towers.rtl.linears, towers.head.dense]

    def _score_batch(
        self, input_ids: tf.Tensor, text_numbers: tf.Tensor, position_ids: tf.Tensor
    ) -> tf.Tensor:
        logits = self._model.two_tower(
            input_ids,
            _mask(text_numbers),
            tf.zeros_like(input_ids),
            position_ids=position_ids,
            randomness=_NO_RANDOMNESS,
            float32=True,
        ).logits
        return token_log_probs(logits, input_ids)


class MaskedScorer(Scorer):
    """Scores by a masked language model: the generator, or that of `--objective=mlm`."""

    def __init__(self, model: PretrainingModel, batch_size: int, num_cores: int = 1) -> None:
        super().__init__(model, batch_size, num_cores)
        self._states = self._compile(self._encode, *[self._ints(None)] * 4)
        state = tf.TensorSpec([batch_size, self._width], tf.float32)
        self._log_probs = self._compile(self._predict, state, self._ints())

    def _linears(self) -> list[Linear]:
        return [*self._model.generator.linears, self._model.generator_predictions.dense]

    def _score(self, texts: Sequence[Sequence[int]]) -> list[TextScore]:
        """Returns the score of each text, from a copy of it per masked token."""
        places = [(i, t) for i, ids in enumerate(texts) for t in range(1, len(ids) - 1)]
        targets = np.array([texts[i][t] for i, t in places], np.int32)
        values = np.zeros(len(places))
        waiting: list[tuple[int, np.ndarray]] = []  # masked copies, and their states
        for rows, length in self._batches([len(texts[i]) for i, _ in places], _TEXT_TOKENS):
            waiting += self._encode_rows(texts, places, rows, length)
            while len(waiting) >= self._batch_size:
                self._predict_copies(waiting[: self._batch_size], targets, values)
                waiting = waiting[self._batch_size :]
        if waiting:
            self._predict_copies(waiting, targets, values)
        ends = np.cumsum([max(0, len(ids) - 2) for ids in texts])
        return [TextScore(each) for each in np.split(values, ends)[:-1]]

    def _encode_rows(
        self,
        texts: Sequence[Sequence[int]],
        places: Sequence[tuple[int, int]],
        rows: Sequence[Sequence[int]],
        length: int,
    ) -> list[tuple[int, np.ndarray]]:
        """Returns the copies in rows, and the states float32 [width] at their [MASK]."""
        originals = [[texts[places[copy][0]] for copy in row] for row in rows]
        batch = lay_out(originals, self._batch_size, length)
        positions = np.zeros([self._batch_size, length // _TEXT_TOKENS], np.int32)
        for i, (row, originals_in_row) in enumerate(zip(rows, originals, strict=True)):
            starts = np.cumsum([0, *(len(ids) for ids in originals_in_row[:-1])])
            positions[i, : len(row)] = starts + [places[copy][1] for copy in row]
            batch.input_ids[i, positions[i, : len(row)]] = self._model.special.mask
        states = self._states(*batch, positions).numpy()
        return [
            (copy, states[i, j]) for i, row in enumerate(rows) for j, copy in enumerate(row)
        ]

    def _encode(
        self,
        input_ids: tf.Tensor,
        text_numbers: tf.Tensor,
        position_ids: tf.Tensor,
        positions: tf.Tensor,
    ) -> tf.Tensor:
        """Returns float32 [batch, n, width], the states at `positions` [batch, n]."""
        encoded = self._model.generator(
            input_ids,
            _mask(text_numbers),
            tf.zeros_like(input_ids),
            positions=positions,
            position_ids=position_ids,
        )
        return tf.cast(encoded.sequence_output, tf.float32)

    def _predict_copies(
        self, copies: Sequence[tuple[int, np.ndarray]], targets: np.ndarray, values: np.ndarray
    ) -> None:
        """Writes the log-probabilities of the targets of up to `batch_size` copies."""
        chosen = [copy for copy, _ in copies]
        states = np.zeros([self._batch_size, self._width], np.float32)
        states[: len(chosen)] = [state for _, state in copies]
        wanted = np.zeros([self._batch_size], np.int32)
        wanted[: len(chosen)] = targets[chosen]
        values[chosen] = self._log_probs(states, wanted).numpy()[: len(chosen)]

    def _predict(self, states: tf.Tensor, targets: tf.Tensor) -> tf.Tensor:
        """Returns float32 [batch], the log-probability of a token for each state."""
        states = tf.cast(states, self._model.generator.compute_dtype)
        logits = self._model.generator_predictions(
            states[:, None], self._model.generator.embeddings.word_embeddings, float32=True
        )
        return token_log_probs(logits, targets[:, None])[:, 0]


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


def _mask(text_numbers: tf.Tensor) -> tf.Tensor:
    """Returns int32 [batch, seq, seq], 1 where both positions are of the same text."""
    same = tf.equal(text_numbers[:, :, None], text_numbers[:, None, :])
    return tf.cast(same, tf.int32)
