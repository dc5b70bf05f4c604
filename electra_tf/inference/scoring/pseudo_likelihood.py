"""The scorer of each `--method`, and those that need one pass: Electric's and two towers'.

A pseudo-log-likelihood is the sum over tokens of log p(token | all others). Four methods
compute the conditional probabilities:

- `mlm`: a masked language model, one pass per token, with that token masked (Salazar et al.
  2020, "Masked Language Model Scoring", eq. 1).
- `electra`: the generator in the same way, and the discriminator in one pass (Clark et al.
  2020, "ELECTRA", appendix G), see `electra.py`.
- `two_tower`: the softmax of the two towers, one pass for all tokens.
- `electric`: exp(-E(x)_t) of the energies, one pass for all tokens; approximately normalized
  by noise-contrastive estimation (Clark et al. 2020, "Pre-Training Transformers as
  Energy-Based Cloze Models", section 2.2).
"""

import tensorflow as tf

from electra_tf.config.choices import ELECTRIC as ELECTRIC_OBJECTIVE
from electra_tf.inference.scoring.config import (
    AUTO,
    ELECTRA,
    ELECTRIC,
    MASKED,
    METHODS,
    TWO_TOWER,
)
from electra_tf.inference.scoring.electra import ElectraScorer
from electra_tf.inference.scoring.masked import MaskedScorer
from electra_tf.inference.scoring.scorer import (
    DiscriminatorScorer,
    OnePassScorer,
    Scorer,
    attention_mask,
)
from electra_tf.model.layers import Linear
from electra_tf.model.randomness import Randomness
from electra_tf.pretraining_model import PretrainingModel
from electra_tf.util.errors import UserError

_NO_RANDOMNESS = Randomness(0, 0, dropout=False)


class ElectricScorer(DiscriminatorScorer):
    """Scores by negative energies; the energies are the discriminator's logits."""

    def _score_batch(
        self, input_ids: tf.Tensor, text_numbers: tf.Tensor, position_ids: tf.Tensor
    ) -> tf.Tensor:
        return -super()._score_batch(input_ids, text_numbers, position_ids)


class TwoTowerScorer(OnePassScorer):
    """Scores by the softmax of the two-tower generator."""

    def _linears(self) -> list[Linear]:
        towers = self._model.two_tower
        return [*towers.ltr.linears, *towers.rtl.linears, towers.head.dense]

    def _score_batch(
        self, input_ids: tf.Tensor, text_numbers: tf.Tensor, position_ids: tf.Tensor
    ) -> tf.Tensor:
        logits = self._model.two_tower(
            input_ids,
            attention_mask(text_numbers),
            tf.zeros_like(input_ids),
            position_ids=position_ids,
            randomness=_NO_RANDOMNESS,
            float32=True,
        ).logits
        return tf.gather(tf.nn.log_softmax(logits), input_ids, batch_dims=2)


def create_scorer(
    model: PretrainingModel,
    method: str,
    batch_size: int,
    num_cores: int = 1,
    *,
    num_candidates: int = 0,
) -> Scorer:
    """Returns the scorer selected by `--method`.

    Args:
        model, batch_size, num_cores: as for `Scorer`.
        method: one of `METHODS`.
        num_candidates: also predict every token, among this many candidates; 0 predicts none.

    Raises:
        UserError: there is no such method, the model does not support it, or it predicts no
            tokens.
    """
    if method not in METHODS:
        raise UserError(f"--method must be one of {', '.join(METHODS)}, not {method!r}")
    if method == AUTO:
        method = _method_of(model)
    is_available = {
        MASKED: model.generator is not None,
        ELECTRA: model.generator is not None
        and model.unmasked_per_masked(model.config) is not None,
        TWO_TOWER: model.two_tower is not None,
        ELECTRIC: model.config.objective == ELECTRIC_OBJECTIVE,
    }
    if not is_available[method]:
        usable = [name for name, available in is_available.items() if available]
        raise UserError(
            f"--method={method} is unavailable for a model of --objective="
            f"{model.config.objective} and --generator_type={model.config.generator_type}"
            + (f": choose {' or '.join(usable)}" if usable else ", as are all other methods")
        )
    if method in (ELECTRA, ELECTRIC):
        model.warn_of_untrained(model.config, "its scores")
    if method in (MASKED, ELECTRA):
        if method == MASKED:  # it predicts its most likely token
            num_candidates = min(num_candidates, 1)
        scorer = {MASKED: MaskedScorer, ELECTRA: ElectraScorer}[method]
        return scorer(model, batch_size, num_cores, num_candidates=num_candidates)
    if num_candidates:
        raise UserError(
            f"--predict_tokens needs --method={MASKED} or {ELECTRA}: {method} scores only the "
            "tokens of the text"
        )
    return {TWO_TOWER: TwoTowerScorer, ELECTRIC: ElectricScorer}[method](
        model, batch_size, num_cores
    )


def _method_of(model: PretrainingModel) -> str:
    if model.config.objective == ELECTRIC_OBJECTIVE:
        return ELECTRIC
    return TWO_TOWER if model.two_tower is not None else MASKED
