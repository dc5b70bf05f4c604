"""Predictions of a fine-tuning model: the outputs of its heads, row by row."""

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from electra_tf.model.compilation import compile_ahead, largest_divisor, side_by_side
from electra_tf.model.kernels import CastKernels
from electra_tf.training.distribution.cores import cores_of, has_only_cpus, parts_of
from finetune.data.batches import BatchPlan, FeatureTable, iterate_batches, plan_evaluation
from finetune.data.features import Row
from finetune.model import FinetuningModel
from finetune.tasks.base import Outputs, SplitData, Task


def prediction_function(
    model: FinetuningModel,
    task_name: str,
    cast_kernels: CastKernels,
    *,
    num_parts: int,
    jit_compile: bool,
) -> Callable[[Mapping[str, tf.Tensor]], dict[str, tf.Tensor]]:
    """Returns a function of features, to be traced, that computes a head's outputs and "loss".

    Args:
        model: the model.
        task_name: one of its tasks.
        cast_kernels: copies of its kernels in the compute dtype.
        num_parts: maximum number of parts of a batch, which run in parallel on CPU cores.
        jit_compile: compile with XLA, which distributes the work over the cores itself.
    """

    def predict(features: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        with cast_kernels:
            output = model.predict_task(features, task_name)
        return {**output.outputs, "loss": output.losses}

    if jit_compile:
        return tf.function(predict, autograph=False, jit_compile=True)
    return side_by_side(predict, num_parts)


class _Batches(NamedTuple):
    """Batches of rows, and an iterator that repeats them."""

    rows: Sequence[Row]
    batch_size: int
    plan: BatchPlan
    iterator: Iterator


class Predictor:
    """Predicts with the current weights of a model.

    Compiles one function per task and number of parts of a batch.

    Args:
        model: created inside `strategy.scope()`.
        strategy: distribution strategy; the replicas share the rows.
        buckets: lengths that batches are padded to.
        jit_compile: compile with XLA.
    """

    def __init__(
        self,
        model: FinetuningModel,
        strategy: tf.distribute.Strategy,
        *,
        buckets: Sequence[int],
        jit_compile: bool = False,
    ) -> None:
        self._model = model
        self._strategy = strategy
        self._buckets = buckets
        self._jit_compile = jit_compile
        self._functions: dict[tuple[str, int], Callable] = {}
        # Cached by task and split: predictions are repeated with other weights, building
        # batches takes longer than reading them, and TensorFlow never frees a dataset fully.
        self._batches: dict[tuple[str, str], _Batches] = {}

    def predict(self, task: Task, data: SplitData, batch_size: int) -> list[Outputs]:
        """Returns the outputs of the task's head for every row, in order, on every worker.

        Args:
            task: one of the model's tasks.
            data: rows of features.
            batch_size: global batch size, rounded up to a multiple of the number of replicas.
        """
        if not data.rows:  # for example, no context has tokens
            return []
        # Cached again only after the last batch: after an error, the iterator is mid-epoch.
        batches = self._batches.pop((task.name, data.split), None)
        if batches is None or batches.rows is not data.rows or batches.batch_size != batch_size:
            batches = self._make_batches(task, data.rows, batch_size)
        plan, iterator = batches.plan, batches.iterator
        outputs: list[Outputs] = [{}] * len(data.rows)
        self._cast_kernels.refresh()
        functions = self._compile_lengths(task.name, plan, iterator)
        for rows, length, count in zip(plan.rows, plan.lengths, plan.counts, strict=True):
            predicted = functions[length](iterator)
            arrays = {name: value.numpy() for name, value in predicted.items()}
            for i, row in enumerate(rows[:count]):
                outputs[row] = {name: array[i] for name, array in arrays.items()}
        self._batches[task.name, data.split] = batches
        return outputs

    def _make_batches(self, task: Task, rows: Sequence[Row], batch_size: int) -> _Batches:
        replicas = self._strategy.num_replicas_in_sync
        table = FeatureTable([rows], [task.feature_specs])
        plan = plan_evaluation(
            table.row_lengths,
            batch_size=-(-batch_size // replicas) * replicas,
            buckets=self._buckets,
        )
        iterator = iterate_batches(self._strategy, table, plan)
        return _Batches(rows, batch_size, plan, iterator)

    @functools.cached_property
    def _cast_kernels(self) -> CastKernels:
        with self._strategy.scope():
            return CastKernels(self._model.electra.linears)

    def _compile_lengths(
        self, task_name: str, plan: BatchPlan, iterator: tf.data.Iterator
    ) -> dict[int, Callable[[tf.data.Iterator], dict[str, tf.Tensor]]]:
        """Returns the compiled functions for the lengths of a plan."""
        num_rows = plan.rows.shape[1]
        num_sequences = num_rows * self._model.head(task_name).num_sequences
        cores = 1 if self._jit_compile else cores_of(self._strategy)
        by_parts: dict[int, list[int]] = {}
        for length in plan.distinct_lengths:
            parts = largest_divisor(num_rows, parts_of(cores, num_sequences * length))
            by_parts.setdefault(parts, []).append(length)
        functions = {}
        for parts, lengths in by_parts.items():
            key = task_name, parts
            if key not in self._functions:
                self._functions[key] = self._compile(task_name, parts)
            if has_only_cpus() and not self._jit_compile:
                compile_ahead(self._functions[key], iterator, lengths=lengths)
            functions |= dict.fromkeys(lengths, self._functions[key])
        return functions

    def _compile(
        self, task_name: str, num_parts: int
    ) -> Callable[[tf.data.Iterator], dict[str, tf.Tensor]]:
        predict = prediction_function(
            self._model,
            task_name,
            self._cast_kernels,
            num_parts=num_parts,
            jit_compile=self._jit_compile,
        )

        def predict_batch(iterator: tf.data.Iterator) -> dict[str, tf.Tensor]:
            per_replica = self._strategy.run(predict, args=(next(iterator),))
            return {name: self._gather(value) for name, value in per_replica.items()}

        return tf.function(predict_batch, autograph=False, reduce_retracing=True)

    def _gather(self, per_replica: Any) -> tf.Tensor:
        """Returns the rows of all replicas, in order."""
        if self._strategy.num_replicas_in_sync == 1:
            return self._strategy.experimental_local_results(per_replica)[0]
        return self._strategy.gather(per_replica, axis=0)
