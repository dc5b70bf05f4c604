"""What the parts of a model hand to each other."""

from collections.abc import Mapping
from typing import NamedTuple

import tensorflow as tf


class SpecialTokenIds(NamedTuple):
    """Ids of the tokens that masking treats apart."""

    cls: int
    sep: int
    mask: int


class PretrainInputs(NamedTuple):
    """One batch with its masked positions; everything but the weights is int32.

    `input_ids`, `input_mask` and `segment_ids` are [batch, seq]; `masked_lm_positions`,
    `masked_lm_ids` (the original tokens) and `masked_lm_weights` (float32, 1 on slots
    in use, whose unused rest holds position 0 and id 0) are [batch, max_predictions].
    """

    input_ids: tf.Tensor
    input_mask: tf.Tensor
    segment_ids: tf.Tensor
    masked_lm_positions: tf.Tensor | None = None
    masked_lm_ids: tf.Tensor | None = None
    masked_lm_weights: tf.Tensor | None = None


class ClozeOutput(NamedTuple):
    """A two-tower generator's predictions of all tokens.

    `logits` [batch, seq, vocab] in the compute dtype, `per_token_loss` float32, `preds`
    int32 and `weights` float32 [batch, seq] (1 on what is predicted), `loss` float32
    scalar, the weighted mean.
    """

    logits: tf.Tensor
    per_token_loss: tf.Tensor
    preds: tf.Tensor
    weights: tf.Tensor
    loss: tf.Tensor


class MaskedLMOutput(NamedTuple):
    """Predictions at the masked positions.

    `logits` [batch, n, vocab] in the compute dtype, `per_example_loss` float32 and
    `preds` int32 [batch, n], `loss` float32 scalar, the weighted mean. A generator adds
    `states` [batch, n, hidden], what it predicted from; a two-tower one `cloze`; the
    span-boundary objective `span_boundary_loss`, a float32 scalar.
    """

    logits: tf.Tensor
    per_example_loss: tf.Tensor
    preds: tf.Tensor
    loss: tf.Tensor
    states: tf.Tensor | None = None
    cloze: ClozeOutput | None = None
    span_boundary_loss: tf.Tensor | None = None


class FakeData(NamedTuple):
    """`inputs` with sampled tokens in place of the masked ones; everything is int32.

    `is_fake_tokens` [batch, seq] is 1 where the token changed, `written` where a sample was
    put, and `sampled_token_ids` [batch, n] are the samples.
    """

    inputs: PretrainInputs
    is_fake_tokens: tf.Tensor
    sampled_token_ids: tf.Tensor
    written: tf.Tensor


class DiscriminatorOutput(NamedTuple):
    """`logits`, `probs` float32 and `preds` int32 [batch, seq]; `per_example_loss` [batch].

    `loss` is the mean over the tokens whose `weights`, float32 [batch, seq], are 1.
    """

    logits: tf.Tensor
    probs: tf.Tensor
    preds: tf.Tensor
    per_example_loss: tf.Tensor
    loss: tf.Tensor
    weights: tf.Tensor


class LossTerm(NamedTuple):
    """One term of the objective: `coefficient * loss`.

    `loss` is the float32 mean over the batch's tokens that count, and `weight` their
    number, so that replicas and parts of a batch are averaged by tokens. A term that is
    `summed` enters the objective as the sum over all tokens, not as their mean.
    """

    loss: tf.Tensor
    coefficient: float
    weight: tf.Tensor
    summed: bool = False


class PretrainingOutput(NamedTuple):
    """What an objective returns: its loss terms by name, and what led to them.

    `full_size_lm` are the predictions of words by the full-size encoder beside a generator,
    and `extra` what an objective keeps for its own metrics.
    """

    terms: dict[str, LossTerm]
    inputs: PretrainInputs
    masked_lm: MaskedLMOutput | None = None
    fake_data: FakeData | None = None
    discriminator: DiscriminatorOutput | None = None
    full_size_lm: MaskedLMOutput | None = None
    extra: Mapping[str, tf.Tensor] = {}

    @property
    def losses(self) -> dict[str, tf.Tensor]:
        """The terms' losses without their coefficients, and "total" with them."""
        losses = {name: term.loss for name, term in self.terms.items()}
        total = tf.add_n([term.coefficient * term.loss for term in self.terms.values()])
        return {"total": total, **losses}
