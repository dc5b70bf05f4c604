"""Skips updates that are not finite (`--on_nonfinite=skip`), and finds such weights."""

from collections.abc import Sequence

import keras
import tensorflow as tf

from electra_tf.model.metrics import STEP_PREFIX
from electra_tf.training.variable_groups import group_of

# The run stops after this many skipped updates in a row.
MAX_IN_A_ROW = 50
# Metric: the number of updates skipped since the last record.
SKIPPED = "skipped_updates"


def all_finite(values: Sequence[tf.Tensor]) -> tf.Tensor:
    """Returns whether float scalars are finite on all replicas; call it in their context."""
    context = tf.distribute.get_replica_context()
    finite = tf.reduce_all(tf.math.is_finite(tf.stack(values)))
    if context.num_replicas_in_sync == 1:
        return finite
    failed = context.all_reduce(tf.distribute.ReduceOp.SUM, tf.cast(~finite, tf.float32))
    return failed < 0.5


def apply_if(
    condition: tf.Tensor,
    optimizer: keras.optimizers.Optimizer,
    gradients: Sequence[tf.Tensor],
    variables: Sequence[keras.Variable],
) -> None:
    """Applies gradients if a condition, the same on all replicas, holds.

    Otherwise weights, moments and the step of the learning rate remain as they are. Call it in
    the replicas' context.

    Args:
        condition: bool scalar.
        optimizer: optimizer built for the variables.
        gradients: a dense gradient for each of `variables`.
        variables: trainable variables.
    """

    def apply(of_replica: Sequence[tf.Tensor]) -> None:
        optimizer.apply(of_replica, variables)

    if tf.__internal__.distribute.strategy_supports_no_merge_call():
        _if_true(condition, lambda: apply(gradients))
        return

    # As in Keras's LossScaleOptimizer: such strategies need the branch outside of replicas.
    def across_replicas(strategy: tf.distribute.Strategy, each: tf.Tensor, given: list) -> None:
        first = strategy.experimental_local_results(each)[0]
        replicas = strategy.extended.call_for_each_replica
        _if_true(first, lambda: replicas(apply, args=(given,)))

    context = tf.distribute.get_replica_context()
    context.merge_call(across_replicas, args=(condition, list(gradients)))


def _if_true(condition: tf.Tensor, function) -> None:
    def run() -> tf.Tensor:
        function()
        return tf.constant(True)

    tf.cond(condition, run, lambda: tf.constant(False))


def describe_terms(terms: Sequence[str], skipping: bool) -> str:
    """Formats the names of non-finite terms for an error.

    Args:
        terms: see `TrainingSteps.non_finite_terms` and `TrainingSteps.non_finite_weights`.
        skipping: whether such updates are skipped, so that these are the last of many.
    """
    names = ", ".join(term.removeprefix(STEP_PREFIX) for term in terms)
    is_step = any(term.startswith(STEP_PREFIX) for term in terms)
    return f"{names} ({MAX_IN_A_ROW} updates in a row)" if skipping and is_step else names


class WeightsCheck:
    """Finds weights and moments that are NaN or infinite.

    A finite gradient can still make them so, for instance with a huge learning rate.

    Args:
        variables: weights.
        optimizer: their optimizer, which is built.
    """

    def __init__(
        self, variables: Sequence[keras.Variable], optimizer: keras.optimizers.Optimizer
    ) -> None:
        self._names = [f"weights of {group_of(variable.path)}" for variable in variables]
        floats = [v for v in optimizer.variables if "float" in str(v.dtype)]
        self._names += ["moments of the optimizer"] * len(floats)
        self._values = [variable.value for variable in (*variables, *floats)]

    def failed(self) -> list[str]:
        """Returns the names of what is not finite, such as "weights of electra/layer_0"."""
        # Not compiled: tracing this takes longer than a hundred calls.
        finite = tf.stack([tf.reduce_all(tf.math.is_finite(each)) for each in self._values])
        finite = finite.numpy()
        failed = [
            name for name, is_finite in zip(self._names, finite, strict=True) if not is_finite
        ]
        return list(dict.fromkeys(failed))
