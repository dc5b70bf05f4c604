"""Inputs and outputs of the parts of a model."""

from collections.abc import Mapping
from typing import NamedTuple

import tensorflow as tf


class SpecialTokenIds(NamedTuple):
    """Ids of the special tokens used in masking."""

    cls: int
    sep: int
    mask: int


class PretrainInputs(NamedTuple):
    """One batch with its masked positions; int32 except for the weights.

    `input_ids`, `input_mask` and `segment_ids` are [batch, seq]. `masked_lm_positions`,
    `masked_lm_ids` (the original tokens) and `masked_lm_weights` (float32, 1 for used slots)
    are [batch, max_predictions]; unused slots have position 0 and id 0.
    """

    input_ids: tf.Tensor
    input_mask: tf.Tensor
    segment_ids: tf.Tensor
    masked_lm_positions: tf.Tensor | None = None
    masked_lm_ids: tf.Tensor | None = None
    masked_lm_weights: tf.Tensor | None = None


class ClozeOutput(NamedTuple):
    """Predictions of all tokens by a two-tower generator.

    `logits` [batch, seq, vocab] in the compute dtype; `per_token_loss` float32, `preds` int32
    and `weights` float32 (1 for predicted tokens) [batch, seq]; `loss` float32 scalar, the
    weighted mean.
    """

    logits: tf.Tensor
    per_token_loss: tf.Tensor
    preds: tf.Tensor
    weights: tf.Tensor
    loss: tf.Tensor


class MaskedLMOutput(NamedTuple):
    """Predictions at the masked positions.

    `logits` [batch, n, vocab] in the compute dtype; `per_example_loss` float32 and `preds`
    int32 [batch, n]; `loss` float32 scalar, the weighted mean. Generators with an encoder add
    `states` [batch, n, hidden], the input of the head; two-tower ones `cloze`; the
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
    """`inputs` with masked tokens replaced by samples; all int32.

    `is_fake_tokens` [batch, seq] is 1 where the token changed, `written` [batch, seq] where a
    sample was inserted, and `sampled_token_ids` [batch, n] are the samples.
    """

    inputs: PretrainInputs
    is_fake_tokens: tf.Tensor
    sampled_token_ids: tf.Tensor
    written: tf.Tensor


class DiscriminatorOutput(NamedTuple):
    """`logits`, `probs` float32 and `preds` int32 [batch, seq]; `per_example_loss` [batch].

    `loss` is the mean over the tokens, with `weights` float32 [batch, seq].
    """

    logits: tf.Tensor
    probs: tf.Tensor
    preds: tf.Tensor
    per_example_loss: tf.Tensor
    loss: tf.Tensor
    weights: tf.Tensor


class LossTerm(NamedTuple):
    """One term of the objective: `coefficient * loss`.

    `loss` is the float32 mean over the tokens of the term, and `weight` their number, by
    which replicas and micro-batches are averaged. A `summed` term enters the objective as the
    sum over tokens instead of the mean. In training, `coefficient` may be a float32 scalar,
    such as a function of the step; in evaluations, it must be a number.
    """

    loss: tf.Tensor
    coefficient: tf.Tensor | float
    weight: tf.Tensor
    summed: bool = False


class PretrainingOutput(NamedTuple):
    """Output of an objective: its loss terms by name, and intermediate results.

    `full_size_lm` is the output of a full-size masked language model next to a generator;
    `extra` has the sums of the objective's own metrics.
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
        """Losses of the terms without coefficients, and "total", the objective of the batch.

        Raises ValueError if a term is called "total".
        """
        if "total" in self.terms:
            raise ValueError('the loss term "total" has the name of the objective: rename it')
        losses = {name: term.loss for name, term in self.terms.items()}
        total = tf.add_n(
            [
                term.coefficient * term.loss * (term.weight if term.summed else 1.0)
                for term in self.terms.values()
            ]
        )
        return {"total": total, **losses}
