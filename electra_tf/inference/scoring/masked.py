"""Scores texts by a masked language model, which predicts a masked token from all others."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from electra_tf.inference.scoring.config import MASKED
from electra_tf.inference.scoring.filling import lay_out
from electra_tf.inference.scoring.scorer import Scorer, TextScore, attention_mask
from electra_tf.model.layers import Linear
from electra_tf.pretraining_model import PretrainingModel

# The last layer computes one state per this many tokens of a row.
_TEXT_TOKENS = 8


class Cloze(NamedTuple):
    """Predictions of a masked language model for each token of a text, given all others.

    Attributes:
        log_probs: float64 [tokens], of the token of the text.
        candidates: int32 [tokens, num_candidates], the most likely tokens, in order.
        candidate_log_probs: float64 [tokens, num_candidates], of these.
    """

    log_probs: np.ndarray
    candidates: np.ndarray
    candidate_log_probs: np.ndarray


class MaskedScorer(Scorer):
    """Scores by a masked language model: the generator, or that of `--objective=mlm`.

    Args:
        model, batch_size, num_cores: as for `Scorer`.
        num_candidates: number of most likely tokens that `cloze` returns, at most those of the
            vocabulary; if positive, scores include the predictions of the model.
        temperature: of the softmax.
    """

    def __init__(
        self,
        model: PretrainingModel,
        batch_size: int,
        num_cores: int = 1,
        *,
        num_candidates: int = 0,
        temperature: float = 1.0,
    ) -> None:
        super().__init__(model, batch_size, num_cores)
        self._num_candidates = min(num_candidates, model.encoder_config.vocab_size)
        self._temperature = temperature
        self._states = self._compile(self._encode, *[self._ints(None)] * 4)
        state = tf.TensorSpec([batch_size, self._width], tf.float32)
        self._predictions = self._compile(self._predict, state, self._ints())

    def _linears(self) -> list[Linear]:
        return [*self._model.generator.linears, self._model.generator_predictions.dense]

    def num_computed(self, length: int) -> int:
        """Returns the tokens of all masked copies."""
        return length * length

    def _score(self, texts: Sequence[Sequence[int]]) -> list[TextScore]:
        """Returns the score of each text."""
        return [
            TextScore(
                each.log_probs,
                {MASKED: each.candidates[:, 0]} if self._num_candidates else {},
            )
            for each in self.cloze(texts)
        ]

    def cloze(self, texts: Sequence[Sequence[int]]) -> list[Cloze]:
        """Returns the predictions for the tokens of each text, from one masked copy each."""
        places = [(i, t) for i, ids in enumerate(texts) for t in range(1, len(ids) - 1)]
        targets = np.array([texts[i][t] for i, t in places], np.int32)
        size = [len(places), self._num_candidates]
        found = Cloze(np.zeros(len(places)), np.zeros(size, np.int32), np.zeros(size))
        waiting: list[tuple[int, np.ndarray]] = []  # masked copies, and their states
        for rows, length in self._batches([len(texts[i]) for i, _ in places], _TEXT_TOKENS):
            waiting += self._encode_rows(texts, places, rows, length)
            while len(waiting) >= self._batch_size:
                self._predict_copies(waiting[: self._batch_size], targets, found)
                waiting = waiting[self._batch_size :]
        if waiting:
            self._predict_copies(waiting, targets, found)
        ends = np.cumsum([max(0, len(ids) - 2) for ids in texts])
        by_text = (np.split(values, ends)[:-1] for values in found)
        return [Cloze(*values) for values in zip(*by_text, strict=True)]

    def _encode_rows(
        self,
        texts: Sequence[Sequence[int]],
        places: Sequence[tuple[int, int]],
        rows: Sequence[Sequence[int]],
        length: int,
    ) -> list[tuple[int, np.ndarray]]:
        """Returns the index of each copy, and the state float32 [width] at its [MASK]."""
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
            attention_mask(text_numbers),
            tf.zeros_like(input_ids),
            positions=positions,
            position_ids=position_ids,
        )
        return tf.cast(encoded.sequence_output, tf.float32)

    def _predict_copies(
        self, copies: Sequence[tuple[int, np.ndarray]], targets: np.ndarray, found: Cloze
    ) -> None:
        """Writes the predictions of up to `batch_size` copies into `found`.

        Args:
            copies: index and state of each.
            targets: the original tokens of all copies.
            found: predictions of all copies.
        """
        chosen = [copy for copy, _ in copies]
        states = np.zeros([self._batch_size, self._width], np.float32)
        states[: len(chosen)] = [state for _, state in copies]
        wanted = np.zeros([self._batch_size], np.int32)
        wanted[: len(chosen)] = targets[chosen]
        for values, computed in zip(found, self._predictions(states, wanted), strict=True):
            values[chosen] = computed.numpy()[: len(chosen)]

    def _predict(self, states: tf.Tensor, targets: tf.Tensor) -> Cloze:
        """Returns the predictions at each state."""
        states = tf.cast(states, self._model.generator.compute_dtype)
        logits = self._model.generator_predictions(
            states[:, None], self._model.generator.embeddings.word_embeddings, float32=True
        )
        logits = logits / self._temperature
        log_probs = tf.nn.log_softmax(logits[:, 0])
        top = tf.math.top_k(log_probs, self._num_candidates)
        return Cloze(tf.gather(log_probs, targets, batch_dims=1), top.indices, top.values)
