"""What the parts of pre-training hand to each other."""

import dataclasses
from collections.abc import Mapping
from typing import NamedTuple, Protocol

import tensorflow as tf

from electra_tf import random_bits
from electra_tf.pretrain_helpers import PretrainInputs


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


@dataclasses.dataclass(frozen=True)
class Randomness:
    """Where the random choices of one batch come from.

    Attributes:
        seed, step: integers; every choice is a function of them.
        first_example: index of row 0 in the batch over all replicas.
        dropout: whether the encoders drop; False at evaluation.
        replica: index of this replica, or of its part of an accumulated batch; it enters
            the dropout masks alone.
    """

    seed: tf.Tensor | int
    step: tf.Tensor | int
    first_example: tf.Tensor | int = 0
    dropout: bool = True
    replica: tf.Tensor | int = 0

    def key(self, purpose: str) -> tf.Tensor:
        """Returns the uint32 [2] key of the stream named `purpose`."""
        return random_bits.make_key(self.seed, self.step, purpose)

    def dropout_key(self, purpose: str) -> tf.Tensor | None:
        """Returns a key for dropout, or None where there is none."""
        return random_bits.fold_in(self.key(purpose), self.replica) if self.dropout else None


class TermsOutput(Protocol):
    """What a model that is trained returns for a batch."""

    terms: dict[str, LossTerm]


class TrainableModel(Protocol):
    """What the training step asks of a model (pre-training and fine-tuning models)."""

    trainable_variables: list

    def __call__(
        self, features: Mapping[str, tf.Tensor], *, randomness: Randomness
    ) -> TermsOutput: ...

    def term_weights(
        self, features: Mapping[str, tf.Tensor], *, randomness: Randomness
    ) -> dict[str, tf.Tensor]:
        """Returns the `weight` of each loss term of a batch, without running any encoder."""

    def metric_sums(self, output: TermsOutput) -> dict[str, tf.Tensor]:
        """Returns the sums behind the metrics of a batch; see `electra_tf.metrics`."""
