"""The compiled training step: gradients, clipping, update; several steps per call."""

import contextlib
import functools
from collections.abc import Sequence

import keras
import numpy as np
import tensorflow as tf

from electra_tf.model import metrics
from electra_tf.model.compilation import compile_ahead, few_graph_passes
from electra_tf.model.gpu.calls import gpu_kernels
from electra_tf.model.kernels import compiled_as_a_whole
from electra_tf.model.metrics import STEP_PREFIX, MetricAccumulator
from electra_tf.training.clipping import clip_by_global_norm, squared_norms
from electra_tf.training.distribution.cores import has_only_cpus, runs_on_one_cpu
from electra_tf.training.gradients import TrainableModel, gradients_of_replica
from electra_tf.training.layer_statistics import UpdateRatios, group_norms
from electra_tf.training.nonfinite import (
    MAX_IN_A_ROW,
    SKIPPED,
    WeightsCheck,
    all_finite,
    apply_if,
)
from electra_tf.training.variable_groups import GRADIENT_NORM, UPDATE_RATIO, group_of

# Sums of the norms of the gradients by group of layers, float32 [2, groups].
_GROUP_NORMS = "group_norms"
_SKIPPED = f"{STEP_PREFIX}{SKIPPED}"


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
            and the step, and that of dropout also of replicas and parts of a batch.
        clip_norm: gradient clipping by global norm.
        accumulation_steps: micro-batches per update on each replica.
        max_side_by_side: maximum number of parts of a micro-batch to compute in parallel; see
            `training.distribution.cores.share_cores`.
        jit_compile: compile the replica step with XLA.
        kernel_capability: compute capability of the GPUs, to use Triton's kernels where there
            are some (see `model.gpu.calls.gpu_kernels`); needs `jit_compile`. None uses none.
        skip_nonfinite: skip updates that are not finite, and count them, until there are
            `MAX_IN_A_ROW`; otherwise the first one ends `run`.
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
        max_side_by_side: int = 1,
        jit_compile: bool = False,
        kernel_capability: int | None = None,
        skip_nonfinite: bool = False,
    ) -> None:
        _refuse_shared_paths(model.trainable_variables)
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
        # Losses and norms of the last update; a vector after the first update.
        self._last_terms = tf.Variable(0.0, trainable=False, shape=tf.TensorShape(None))
        self._term_names: list[str] = []
        self._max_side_by_side = max_side_by_side
        self._compiles_as_a_whole = jit_compile
        self._kernel_capability = kernel_capability
        self._replica_function = self.replica_step
        if jit_compile:
            self._replica_function = tf.function(
                self.replica_step, jit_compile=True, autograph=False
            )
        self._run = tf.function(self._run_steps, autograph=False)
        # Iterator specs and lengths for which kernels are compiled; None on devices where the
        # first call compiles them.
        self._compiled: list | None = None
        if has_only_cpus() and not jit_compile:
            self._compiled = []

    def run(
        self, iterator: tf.data.Iterator, num_steps: int, lengths: Sequence[int] = ()
    ) -> None:
        """Runs up to `num_steps` updates; stops after one with a non-finite loss or norm.

        With `skip_nonfinite`, it stops after `MAX_IN_A_ROW` of them.

        Args:
            iterator: distributed iterator over the batches.
            num_steps: number of updates.
            lengths: sequence lengths of the batches, if they differ.
        """
        inputs = iterator, tf.constant(num_steps, tf.int32)
        if self._compiled is None:
            self._run(*inputs)
            return
        shapes = (iterator.element_spec, tuple(lengths))
        is_alone = runs_on_one_cpu(self._strategy)
        # Fewer passes have only been measured with one replica and known shapes.
        with few_graph_passes() if is_alone and not lengths else contextlib.nullcontext():
            if shapes not in self._compiled:
                # Meanwhile, a first call without a step prepares the graph on another core.
                no_step = functools.partial(self._run, iterator, tf.constant(0, tf.int32))
                meanwhile = no_step if is_alone else None
                compile_ahead(self._run, *inputs, lengths=lengths, meanwhile=meanwhile)
                self._compiled.append(shapes)
            self._run(*inputs)

    def read_metrics(self) -> dict[str, np.ndarray]:
        """Returns the sums of the metrics since the last call.

        They include, by group of layers, the gradient norms, and the update-to-weight ratios of
        the last update alone.
        """
        sums = self._sums.read_and_reset()
        if _SKIPPED in sums:  # a number, not a mean
            sums[_SKIPPED] = np.array([sums[_SKIPPED][0], 1.0])
        norms = sums.pop(_GROUP_NORMS, np.zeros([2, 0]))
        for group, norm in zip(self._groups, norms.T, strict=True):
            sums[f"{STEP_PREFIX}{GRADIENT_NORM}{group}"] = norm
        if self._groups:
            ratios = self._update_ratios.read(self._groups)
            sums |= {
                f"{STEP_PREFIX}{UPDATE_RATIO}{group}": np.array([ratio, 1.0])
                for group, ratio in ratios.items()
            }
        return sums

    def reset(self) -> None:
        """Resets the metrics, and the number of steps skipped in a row."""
        self._sums.read_and_reset()
        self._skipped_in_a_row.assign(0)

    def non_finite_terms(self) -> list[str]:
        """Returns the names of the non-finite terms of the last update."""
        values = np.broadcast_to(self._last_terms.numpy(), len(self._term_names))
        return [
            name
            for name, value in zip(self._term_names, values, strict=True)
            if not np.isfinite(value)
        ]

    def non_finite_weights(self) -> list[str]:
        """Returns the names of non-finite weights and moments; reads all of them."""
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
                for name in sums
                if name.startswith(STEP_PREFIX)
            }
            if self._skips:
                was_skipped = sums[_SKIPPED][0] > 0.5
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
        if not self._compiles_as_a_whole:
            return self._replica_step(features)
        with compiled_as_a_whole(), gpu_kernels(self._kernel_capability):
            return self._replica_step(features)

    def _replica_step(self, features: dict[str, tf.Tensor]) -> metrics.MetricSums:
        context = tf.distribute.get_replica_context()
        replicas = context.num_replicas_in_sync
        scale = self._loss_scale()
        contribution = gradients_of_replica(
            self._model,
            features,
            seed=self._seed,
            step=self._step,
            num_micro_batches=self._accumulation_steps,
            max_side_by_side=self._max_side_by_side,
            scale=scale,
        )
        # A variable that the objective does not depend on is not updated, nor decayed.
        by_path = contribution.gradients
        variables = [v for v in self._model.trainable_variables if v.path in by_path]
        gradients = [by_path[variable.path] for variable in variables]
        if replicas > 1:
            gradients = context.all_reduce(tf.distribute.ReduceOp.SUM, gradients)
        squares = squared_norms(gradients)
        gradients, norm = clip_by_global_norm(gradients, self._clip_norm * scale, squares)
        # Keras optimizers sum gradients over replicas.
        gradients = [g / replicas for g in gradients] if replicas > 1 else gradients
        finite = None
        if self._skips:
            finite = all_finite([*contribution.losses.values(), norm])
            # With loss scaling, the optimizer handles gradients that overflow.
            applied = finite | ~tf.math.is_finite(norm) if self._scales_loss else finite
            apply_if(applied, self._optimizer, gradients, variables)
        else:
            self._optimizer.apply(gradients, variables)

        once = 1.0 / replicas  # the sum over replicas counts a step once
        sums = {
            f"{STEP_PREFIX}{name}": tf.stack([value, once])
            for name, value in contribution.losses.items()
        }
        sums[f"{STEP_PREFIX}gradient_norm"] = tf.stack([norm / scale * once, once])
        groups = [group_of(variable.path) for variable in variables]
        self._groups = list(dict.fromkeys(groups))
        by_group = group_norms(squares, groups) / scale * once
        sums[_GROUP_NORMS] = tf.stack([by_group, once * tf.ones_like(by_group)])
        sums |= contribution.metric_sums
        return self._without_skipped(sums, norm, scale, finite, once)

    def _without_skipped(
        self,
        sums: metrics.MetricSums,
        norm: tf.Tensor,
        scale: tf.Tensor | float,
        finite: tf.Tensor | None,
        once: float,
    ) -> metrics.MetricSums:
        """Returns the sums of a step, which are 0 if its update was skipped.

        Args:
            sums: sums of the step.
            norm: norm of its scaled gradients.
            scale: scale of its loss.
            finite: whether the step is finite; None without `skip_nonfinite`.
            once: share of this replica in a step.
        """
        counts: tf.Tensor | bool = True
        added = {}
        if self._scales_loss:
            # An overflow is a divergence only if the gradients are not scaled up.
            counts = tf.math.is_finite(norm) | (scale <= 1.0)
            added[f"{STEP_PREFIX}loss_scale"] = tf.stack([scale * once, once])
        if finite is not None:
            skipped = counts & ~finite
            added[_SKIPPED] = tf.stack([tf.cast(skipped, tf.float32) * once, once])
            counts &= finite | (self._skipped_in_a_row >= MAX_IN_A_ROW - 1)
        if counts is not True:
            sums = {name: tf.where(counts, x, tf.zeros_like(x)) for name, x in sums.items()}
        return sums | added

    @property
    def _scales_loss(self) -> bool:
        return isinstance(self._optimizer, keras.optimizers.LossScaleOptimizer)

    def _loss_scale(self) -> tf.Tensor | float:
        if not self._scales_loss:
            return 1.0
        return tf.convert_to_tensor(self._optimizer.dynamic_scale)


def _refuse_shared_paths(variables: Sequence[keras.Variable]) -> None:
    """Raises ValueError if two variables have the same path, the key of their gradients."""
    paths = [variable.path for variable in variables]
    shared = sorted({path for path in paths if paths.count(path) > 1})
    if shared:
        raise ValueError(
            f"several variables are called {', '.join(shared)}: give their layers names of "
            "their own, and create the layers of a layer in `with keras.name_scope(self.name)`"
        )
