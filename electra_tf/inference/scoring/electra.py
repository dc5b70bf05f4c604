"""Scores texts by ELECTRA as a masked language model (Clark et al. 2020, appendix G).

Where the generator's samples replace one token in a + 1, and the others are real, the
probability "real" of the best discriminator is

    D(x) = p(x) (a + p_G(x)) / (a p(x) + p_G(x)),

with p(x) and p_G(x) the probabilities of token x, given all others, of text and of samples.
A discriminator therefore says of every token, as if it were the best,

    p(x) = D(x) p_G(x) / (a (1 - D(x)) + p_G(x)),

which is not normalized. p_G takes a pass of the generator per token, and D one pass per text.
To predict tokens, the discriminator reads the text with each candidate in turn: the most likely
ones of the generator, 100 in the paper.
"""

import math
from collections.abc import Sequence

import numpy as np

from electra_tf.config.choices import ARGMAX
from electra_tf.inference.scoring.config import ELECTRA
from electra_tf.inference.scoring.masked import Cloze, MaskedScorer
from electra_tf.inference.scoring.scorer import DiscriminatorScorer, TextScore
from electra_tf.masking.base import masking_class
from electra_tf.pretraining_model import PretrainingModel
from electra_tf.util.console import warn_once
from electra_tf.util.errors import UserError

GENERATOR = "generator"
# Copies of a text that are laid out at the same time.
_COPIES_AT_ONCE = 4096


class ElectraScorer(DiscriminatorScorer):
    """Scores by the discriminator's probabilities and those of the generator.

    Args:
        model: one with a generator that is a masked language model, and with a discriminator of
            its samples, see `Objective.unmasked_per_masked`.
        batch_size, num_cores: as for `Scorer`.
        num_candidates: number of the generator's most likely tokens among which tokens are
            predicted; 0 predicts none.

    Raises:
        UserError: the model was not trained on samples of the generator's softmax.
    """

    def __init__(
        self,
        model: PretrainingModel,
        batch_size: int,
        num_cores: int = 1,
        *,
        num_candidates: int = 0,
    ) -> None:
        _check(model)
        super().__init__(model, batch_size, num_cores)
        config = model.config
        temperature = config.temperature_end
        self._generator = MaskedScorer(
            model,
            batch_size,
            num_cores,
            num_candidates=num_candidates,
            temperature=config.temperature if temperature is None else temperature,
        )
        self._num_candidates = num_candidates
        self._unmasked_per_masked = model.unmasked_per_masked(config)

    def num_computed(self, length: int) -> int:
        """Returns the tokens of the text, of its masked copies and of those with candidates."""
        return length + self._generator.num_computed(length) * (1 + self._num_candidates)

    def _score(self, texts: Sequence[Sequence[int]]) -> list[TextScore]:
        """Returns the score of each text."""
        scores = []
        clozes, logits = self._generator.cloze(texts), self._token_values(texts)
        for ids, cloze, values in zip(texts, clozes, logits, strict=True):
            predictions = {}
            if self._num_candidates:
                predictions[ELECTRA] = self._predict(ids, cloze)
                predictions[GENERATOR] = cloze.candidates[:, 0]
            log_probs = text_log_probs(values, cloze.log_probs, self._unmasked_per_masked)
            scores.append(TextScore(log_probs, predictions))
        return scores

    def _predict(self, ids: Sequence[int], cloze: Cloze) -> np.ndarray:
        """Returns int32 [tokens], the most likely candidate for each token of a text."""
        places = [(t, c) for t, row in enumerate(cloze.candidates.tolist()) for c in row]
        logits: list[float] = []
        for start in range(0, len(places), _COPIES_AT_ONCE):
            some = places[start : start + _COPIES_AT_ONCE]
            values = self._token_values([[*ids[: t + 1], c, *ids[t + 2 :]] for t, c in some])
            logits += [each[t] for each, (t, _) in zip(values, some, strict=True)]
        logits = np.reshape(logits, cloze.candidates.shape)
        log_probs = text_log_probs(logits, cloze.candidate_log_probs, self._unmasked_per_masked)
        best = log_probs.argmax(axis=-1)[:, None]
        return np.take_along_axis(cloze.candidates, best, axis=-1)[:, 0]


def text_log_probs(
    logits: np.ndarray, generator_log_probs: np.ndarray, unmasked_per_masked: float
) -> np.ndarray:
    """Returns log p(x), see the formula of this module.

    Args:
        logits: of "replaced", log (1 - D(x)) / D(x), float64 of any shape.
        generator_log_probs: log p_G(x), of the same shape.
        unmasked_per_masked: a.
    """
    log_real, log_replaced = -np.logaddexp(0, logits), -np.logaddexp(0, -logits)
    log_ratio = math.log(unmasked_per_masked) if unmasked_per_masked else -math.inf
    others = np.logaddexp(log_ratio + log_replaced, generator_log_probs)
    return log_real + generator_log_probs - others


def _check(model: PretrainingModel) -> None:
    """Refuses models without samples, and warns of tokens masked at different rates."""
    config = model.config
    reason = None
    if config.disallow_correct:
        reason = "--disallow_correct, which samples other tokens than the original one"
    elif config.replacement == ARGMAX:
        reason = "--replacement=argmax, which samples no tokens"
    if reason:
        raise UserError(
            "--method=electra derives probabilities from samples of the generator's softmax, "
            f"but the model was trained with {reason}"
        )
    ratio = model.unmasked_per_masked(config)
    if not ratio:  # p(x) = D(x), whatever is masked
        return
    rate, most = 1 / (1 + ratio), config.max_predictions_per_seq
    cause = None
    if not masking_class(config).is_uniform:
        cause = f"--masking={config.masking}"
    elif config.masking_with_replacement:
        cause = "--masking_with_replacement, which masks fewer tokens"
    elif most < int(rate * config.max_seq_length):
        cause = f"--max_predictions_per_seq={most}"
    if cause:
        warn_once(
            f"--method=electra assumes that every token is masked with probability {rate:g}, "
            f"but the model was trained with {cause}: its probabilities are biased"
        )
