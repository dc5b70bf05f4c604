"""Gradients of the objective over the rows of a replica, in one part or several.

`electra_tf/training/step.py` clips and applies them.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import tensorflow as tf

from electra_tf.model import metrics
from electra_tf.model.batch_types import LossTerm
from electra_tf.model.compilation import largest_divisor
from electra_tf.model.randomness import Randomness
from electra_tf.text.framing import INPUT_IDS
from electra_tf.training.accumulation import sum_over_parts
from electra_tf.training.monitoring.run_info import RATES
from electra_tf.training.nonfinite import SKIPPED

# Names of logged values that are not metrics of the model.
_LOGGED = {"step", "kind", "gradient_norm", "loss_scale", "learning_rate", SKIPPED, *RATES}


class TermsOutput(Protocol):
    """Output of a trainable model for a batch."""

    terms: dict[str, LossTerm]


class TrainableModel(Protocol):
    """Interface of a model to the training step, for pre-training and fine-tuning.

    A prepared batch is a nested structure of tensors [batch, ...]; any subset of its rows is
    a batch, too.
    """

    trainable_variables: list

    def prepare(self, features: Mapping[str, tf.Tensor], *, randomness: Randomness) -> Any:
        """Prepares a batch without gradients, such as by masking it."""

    def term_weights(self, batch: Any) -> dict[str, tf.Tensor]:
        """Returns the `weight` of each loss term of a batch, without running an encoder.

        With several devices or micro-batches, the totals are needed before any term.
        """

    def forward(self, batch: Any, *, randomness: Randomness) -> TermsOutput:
        """Returns the loss terms of a batch."""

    def metric_sums(self, output: TermsOutput) -> dict[str, tf.Tensor]:
        """Returns the sums of the metrics of a batch; see `electra_tf.model.metrics`."""


class PartialStep(NamedTuple):
    """Contribution of some examples to the step of the global batch; contributions add up.

    `gradients` are by variable path, for the variables that the objective depends on;
    `losses` are "loss", the objective, and "<term>_loss" of each term, float32 scalars;
    `metric_sums` are those of the model.
    """

    gradients: dict[str, tf.Tensor]
    losses: dict[str, tf.Tensor]
    metric_sums: metrics.MetricSums


def gradients_of_replica(
    model: TrainableModel,
    features: dict[str, tf.Tensor],
    *,
    seed: int | tf.Variable,
    step: tf.Variable,
    num_micro_batches: int,
    max_side_by_side: int,
    scale: tf.Tensor | float,
) -> PartialStep:
    """Returns the contribution of one replica, to be called in its context.

    Args:
        model: the model.
        features: the rows of this replica.
        seed, step: random seed and global step.
        num_micro_batches: micro-batches, computed one after another.
        max_side_by_side: maximum number of parts of each micro-batch to compute in parallel.
            The number divides its rows, and is 1 if they are unknown when tracing.
        scale: factor of the gradients, for loss scaling.
    """
    context = tf.distribute.get_replica_context()
    replica = context.replica_id_in_sync_group
    num_examples = tf.shape(features[INPUT_IDS])[0]
    first_example = replica * num_examples
    # Once for all micro-batches: random streams are indexed by rows of the global batch.
    batch = model.prepare(features, randomness=Randomness(seed, step, first_example))
    rows = features[INPUT_IDS].shape[0]
    side_by_side = largest_divisor(rows and rows // num_micro_batches, max_side_by_side)
    num_parts = num_micro_batches * side_by_side
    weights = model.term_weights(batch)
    totals = _total_weights(weights, num_parts, context)
    variables = model.trainable_variables

    def contribution(part: Any, index: tf.Tensor) -> PartialStep:
        randomness = Randomness(
            seed=seed,
            step=step,
            first_example=first_example + index * (num_examples // num_parts),
            replica=replica * num_parts + index,
        )
        with tf.GradientTape() as tape:
            output = model.forward(part, randomness=randomness)
            _refuse_new_variables(variables, model.trainable_variables)
            _require_weights(output.terms, weights)
            shares = {
                name: _weight_fraction(term.weight, totals, name)
                for name, term in output.terms.items()
            }
            total = tf.add_n(
                [_objective(term, shares[name]) for name, term in output.terms.items()]
            )
            scaled = total * scale
        gradients = tape.gradient(scaled, [variable.value for variable in variables])
        losses = {f"{n}_loss": t.loss * shares[n] for n, t in output.terms.items()}
        sums = model.metric_sums(output)
        refuse_reserved_metrics(output.terms, sums)
        return PartialStep(
            {
                variable.path: tf.convert_to_tensor(gradient)
                for variable, gradient in zip(variables, gradients, strict=True)
                if gradient is not None
            },
            {"loss": total, **losses},
            sums,
        )

    return sum_over_parts(contribution, batch, num_micro_batches, side_by_side)


def refuse_reserved_metrics(terms: Mapping[str, LossTerm], sums: metrics.MetricSums) -> None:
    """Raises ValueError if a metric has the name of another logged value.

    One of the two would be lost. Other logged values are losses, the learning rate, norms and
    rates.
    """
    both = sums.keys() & {"loss", *(f"{name}_loss" for name in terms)}
    what = "the name of a loss"
    if not both:
        both, what = sums.keys() & _LOGGED, "which the log has for something else"
    if both:
        raise ValueError(
            f"metric_sums has {', '.join(sorted(both))}, {what}: rename the metric"
        )


def _refuse_new_variables(before: Sequence[Any], after: Sequence[Any]) -> None:
    """Raises ValueError for variables that a layer has created in the forward pass."""
    known = {variable.path for variable in before}
    new = [variable.path for variable in after if variable.path not in known]
    if new:
        raise ValueError(
            f"the forward pass creates the variables {', '.join(new)}, which are neither "
            "trained nor restored: build their layers where they are created"
        )


def _require_weights(terms: Mapping[str, LossTerm], weights: Mapping[str, tf.Tensor]) -> None:
    """Raises ValueError if `term_weights` lacks a loss term."""
    missing = terms.keys() - weights.keys()
    if missing:
        raise ValueError(
            f"term_weights lacks the loss term {', '.join(sorted(missing))}: return its number "
            "of tokens, by which devices and micro-batches are averaged"
        )


def _total_weights(
    weights: dict[str, tf.Tensor], num_parts: int, context: tf.distribute.ReplicaContext
) -> dict[str, tf.Tensor] | None:
    """Returns the term weights over all replicas and micro-batches; None if only one."""
    replicas = context.num_replicas_in_sync
    if replicas * num_parts == 1:
        return None
    if replicas == 1:
        return weights
    return context.all_reduce(tf.distribute.ReduceOp.SUM, weights)


def _weight_fraction(
    weight: tf.Tensor, totals: Mapping[str, tf.Tensor] | None, name: str
) -> tf.Tensor | float:
    """Returns the fraction of a term's tokens that are in this micro-batch."""
    return 1.0 if totals is None else weight / tf.maximum(totals[name], 1e-6)


def _objective(term: LossTerm, share: tf.Tensor | float) -> tf.Tensor:
    """Returns the contribution of a term to the objective."""
    return term.coefficient * term.loss * (term.weight if term.summed else share)
