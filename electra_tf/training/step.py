"""The compiled training step: forward, backward, clipping, update; several steps per call."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import keras
import numpy as np
import tensorflow as tf

from electra_tf.model import metrics
from electra_tf.model.batch_types import LossTerm
from electra_tf.model.compilation import compile_ahead
from electra_tf.model.metrics import MetricAccumulator
from electra_tf.model.randomness import Randomness
from electra_tf.training.accumulation import sum_over_parts
from electra_tf.training.diagnoses import GRADIENT_NORM, UPDATE_RATIO
from electra_tf.training.distribution.context import runs_on_one_cpu
from electra_tf.training.layer_groups import UpdateRatios, group_norms, group_of
from electra_tf.training.nonfinite import (
    MOST_IN_A_ROW,
    SKIPPED,
    WeightsCheck,
    all_finite,
    apply_if,
)
from electra_tf.training.optimizer import clip_by_global_norm, squared_norms

# Sums of the norms of the gradients by group of layers, float32 [2, groups].
_GROUP_NORMS = "group_norms"


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
        """Returns the `weight` of each loss term of a batch, without running an encoder."""

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


class TrainingSteps:
    """Training steps of a model on a distributed iterator.

    Create it inside `strategy.scope()`.

    Args:
        model: model to train.
        optimizer: optimizer built for the model's trainable variables. With a
            `keras.optimizers.LossScaleOptimizer`, a step whose gradients overflow only halves
            the loss scale.
        strategy: distribution strategy.
        step: int64 variable, the global step.
        seed: random seed, an integer or integer variable; all randomness is a function of it
            and the step.
        clip_norm: gradient clipping by global norm.
        accumulation_steps: micro-batches per update on each replica.
        jit_compile: compile the replica step with XLA.
        skip_nonfinite: leave out updates that are not finite, and count them, until there are
            `MOST_IN_A_ROW`; otherwise the first one ends `run`.
    """

    def __init__(
        self,
        model: TrainableModel,
        optimizer: keras.optimizers.Optimizer,
        strategy: tf.distribute.Strategy,
        step: tf.Variable,
        *,
        seed: int | tf.Variable,
        clip_norm: float,
        accumulation_steps: int = 1,
        jit_compile: bool = False,
        skip_nonfinite: bool = False,
    ) -> None:
        self._model = model
        self._optimizer = optimizer
        self._strategy = strategy
        self._step = step
        self._seed = seed
        self._clip_norm = clip_norm
        self._accumulation_steps = accumulation_steps
        self._sums = MetricAccumulator()
        self._skips = skip_nonfinite
        self._skipped_in_a_row = tf.Variable(0, dtype=tf.int32, trainable=False)
        self._weights_check = WeightsCheck(model.trainable_variables, optimizer)
        self._groups: list[str] = []
        self._update_ratios = UpdateRatios(optimizer)
        # Of the last update; a vector once there was one.
        self._last_terms = tf.Variable(0.0, trainable=False, shape=tf.TensorShape(None))
        self._term_names: list[str] = []
        self._replica_function = self.replica_step
        if jit_compile:
            self._replica_function = tf.function(
                self.replica_step, jit_compile=True, autograph=False
            )
        self._run = tf.function(self._run_steps, autograph=False)
        # Element specs of the iterators and lengths that the kernels are compiled for; None on
        # devices where the first call compiles them.
        self._compiled: list | None = None
        if runs_on_one_cpu(strategy) and not jit_compile:
            self._compiled = []

    def run(
        self, iterator: tf.data.Iterator, num_steps: int, lengths: Sequence[int] = ()
    ) -> None:
        """Runs up to `num_steps` updates; stops after one with a non-finite loss or norm.

        With `skip_nonfinite`, it stops after `MOST_IN_A_ROW` of them.

        Args:
            iterator: distributed iterator over the batches.
            num_steps: number of updates.
            lengths: sequence lengths of the batches, if they differ.
        """
        inputs = iterator, tf.constant(num_steps, tf.int32)
        compiled, wanted = self._compiled, (iterator.element_spec, tuple(lengths))
        if compiled is not None and wanted not in compiled:
            compile_ahead(self._run, *inputs, lengths=lengths)
            compiled.append(wanted)
        self._run(*inputs)

    def read_metrics(self) -> dict[str, np.ndarray]:
        """Returns the sums of the metrics since the last call.

        By group of layers, there are the norms of the gradients and, of the last update alone,
        the update-to-weight ratios.
        """
        sums = self._sums.read_and_reset()
        if f"train/{SKIPPED}" in sums:  # a number, not a mean
            sums[f"train/{SKIPPED}"] = np.array([sums[f"train/{SKIPPED}"][0], 1.0])
        norms = sums.pop(_GROUP_NORMS, np.zeros([2, 0]))
        for group, norm in zip(self._groups, norms.T, strict=True):
            sums[f"train/{GRADIENT_NORM}{group}"] = norm
        if self._groups:
            ratios = self._update_ratios.read(self._groups)
            sums |= {f"train/{UPDATE_RATIO}{g}": np.array([r, 1.0]) for g, r in ratios.items()}
        return sums

    def non_finite_terms(self) -> list[str]:
        """Returns the names of the non-finite terms of the last update."""
        values = np.broadcast_to(self._last_terms.numpy(), len(self._term_names))
        return [
            name
            for name, value in zip(self._term_names, values, strict=True)
            if not np.isfinite(value)
        ]

    def non_finite_weights(self) -> list[str]:
        """Returns which weights or moments are not finite; reads all of them."""
        return self._weights_check.failed()

    def _run_steps(self, iterator: tf.data.Iterator, num_steps: tf.Tensor) -> None:
        def body(done: tf.Tensor, _: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            per_replica = self._strategy.run(self._replica_function, args=(next(iterator),))
            sums = {
                name: self._strategy.reduce(tf.distribute.ReduceOp.SUM, value, axis=None)
                for name, value in per_replica.items()
            }
            # The sums of a skipped step are 0.
            terms = {
                name: tf.math.divide_no_nan(sums[name][0], sums[name][1])
                for name in self._watched(sums)
            }
            if self._skips:
                was_skipped = sums[f"train/{SKIPPED}"][0] > 0.5
                in_a_row = tf.where(was_skipped, self._skipped_in_a_row + 1, 0)
                self._skipped_in_a_row.assign(in_a_row)
            self._sums.add(sums)
            values = tf.stack(list(terms.values()))
            self._term_names = list(terms)
            self._last_terms.assign(values)
            self._step.assign_add(1)
            finite = tf.reduce_all(tf.math.is_finite(values))
            return done + 1, finite

        tf.while_loop(
            lambda done, finite: (done < num_steps) & finite,
            body,
            (tf.constant(0), tf.constant(True)),
            parallel_iterations=1,
        )

    def replica_step(self, features: dict[str, tf.Tensor]) -> metrics.MetricSums:
        """Updates the model with one replica's rows, and returns the sums of the metrics.

        To be called in a compiled function and, with several replicas, in the replica's
        context. The caller counts the step.
        """
        context = tf.distribute.get_replica_context()
        replicas = context.num_replicas_in_sync
        scale = self._loss_scale()
        whole = self._contribution(features, context, scale)
        # A variable that the objective does not depend on is not updated, nor decayed.
        variables = [v for v in self._model.trainable_variables if v.path in whole.gradients]
        gradients = [whole.gradients[variable.path] for variable in variables]
        if replicas > 1:
            gradients = context.all_reduce(tf.distribute.ReduceOp.SUM, gradients)
        squares = squared_norms(gradients)
        gradients, norm = clip_by_global_norm(gradients, self._clip_norm * scale, squares)
        # Keras optimizers sum gradients over replicas.
        gradients = [g / replicas for g in gradients] if replicas > 1 else gradients
        finite = None
        if self._skips:
            finite = all_finite([*whole.losses.values(), norm])
            # A scaled loss whose gradients overflow is its optimizer's matter.
            applied = finite | ~tf.math.is_finite(norm) if self._scales_loss else finite
            apply_if(applied, self._optimizer, gradients, variables)
        else:
            self._optimizer.apply(gradients, variables)

        once = 1.0 / replicas  # the sum over replicas counts a step once
        sums = {
            f"train/{name}": tf.stack([value, once]) for name, value in whole.losses.items()
        }
        sums["train/gradient_norm"] = tf.stack([norm / scale * once, once])
        groups = [group_of(variable.path) for variable in variables]
        self._groups = list(dict.fromkeys(groups))
        by_group = group_norms(squares, groups) / scale * once
        sums[_GROUP_NORMS] = tf.stack([by_group, once * tf.ones_like(by_group)])
        sums |= whole.metric_sums
        return self._without_skipped(sums, norm, scale, finite, once)

    def _without_skipped(
        self,
        sums: metrics.MetricSums,
        norm: tf.Tensor,
        scale: tf.Tensor | float,
        finite: tf.Tensor | None,
        once: float,
    ) -> metrics.MetricSums:
        """Returns the sums of a step, which are 0 if its update was left out.

        Args:
            sums: sums of the step.
            norm: norm of its scaled gradients.
            scale: scale of its loss.
            finite: whether it is finite; None if updates are not left out for that.
            once: share of this replica in a step.
        """
        counts: tf.Tensor | bool = True
        added = {}
        if self._scales_loss:
            # An overflow is a divergence only if the gradients are not scaled up.
            counts = tf.math.is_finite(norm) | (scale <= 1.0)
            added["train/loss_scale"] = tf.stack([scale * once, once])
        if finite is not None:
            skipped = counts & ~finite
            added[f"train/{SKIPPED}"] = tf.stack([tf.cast(skipped, tf.float32) * once, once])
            counts &= finite | (self._skipped_in_a_row >= MOST_IN_A_ROW - 1)
        if counts is not True:
            sums = {name: tf.where(counts, x, tf.zeros_like(x)) for name, x in sums.items()}
        return sums | added

    def _contribution(
        self,
        features: dict[str, tf.Tensor],
        context: tf.distribute.ReplicaContext,
        scale: tf.Tensor | float,
    ) -> PartialStep:
        """Returns the contribution of this replica, with gradients scaled by `scale`."""
        parts = self._accumulation_steps
        replica = context.replica_id_in_sync_group
        num_examples = tf.shape(features["input_ids"])[0]
        first_example = replica * num_examples
        # Once for all micro-batches: random streams are indexed by rows of the global batch.
        batch = self._model.prepare(
            features, randomness=Randomness(self._seed, self._step, first_example)
        )
        totals = self._total_weights(batch, context)
        variables = self._model.trainable_variables

        def contribution(part: Any, index: tf.Tensor) -> PartialStep:
            randomness = Randomness(
                seed=self._seed,
                step=self._step,
                first_example=first_example + index * (num_examples // parts),
                replica=replica * parts + index,
            )
            with tf.GradientTape() as tape:
                output = self._model.forward(part, randomness=randomness)
                shares = {
                    name: weight_fraction(term.weight, totals, name)
                    for name, term in output.terms.items()
                }
                total = tf.add_n(
                    [_objective(term, shares[name]) for name, term in output.terms.items()]
                )
                scaled = total * scale
            gradients = tape.gradient(scaled, [variable.value for variable in variables])
            losses = {f"{n}_loss": t.loss * shares[n] for n, t in output.terms.items()}
            return PartialStep(
                {
                    variable.path: tf.convert_to_tensor(gradient)
                    for variable, gradient in zip(variables, gradients, strict=True)
                    if gradient is not None
                },
                {"loss": total, **losses},
                self._model.metric_sums(output),
            )

        return sum_over_parts(contribution, batch, parts)

    def _total_weights(
        self, batch: Any, context: tf.distribute.ReplicaContext
    ) -> dict[str, tf.Tensor] | None:
        """Returns the term weights over all replicas and micro-batches; None if only one."""
        replicas = context.num_replicas_in_sync
        if replicas * self._accumulation_steps == 1:
            return None
        weights = self._model.term_weights(batch)
        if replicas == 1:
            return weights
        return context.all_reduce(tf.distribute.ReduceOp.SUM, weights)

    @property
    def _scales_loss(self) -> bool:
        return isinstance(self._optimizer, keras.optimizers.LossScaleOptimizer)

    def _loss_scale(self) -> tf.Tensor | float:
        if not self._scales_loss:
            return 1.0
        return tf.convert_to_tensor(self._optimizer.dynamic_scale)

    @staticmethod
    def _watched(sums: metrics.MetricSums) -> list[str]:
        return [name for name in sums if name.startswith("train/")]


def weight_fraction(
    weight: tf.Tensor, totals: Mapping[str, tf.Tensor] | None, name: str
) -> tf.Tensor | float:
    """Returns the fraction of a term's tokens that are in this micro-batch."""
    return 1.0 if totals is None else weight / tf.maximum(totals[name], 1e-6)


def _objective(term: LossTerm, share: tf.Tensor | float) -> tf.Tensor:
    """Returns the contribution of a term to the objective."""
    return term.coefficient * term.loss * (term.weight if term.summed else share)
