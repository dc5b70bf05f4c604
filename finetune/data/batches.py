"""Batches of features with dynamic padding: each is padded to the shortest fitting bucket.

Training shuffles the examples of every epoch, sorts them by length within windows of at most
`WINDOW_BATCHES` batches, and shuffles the batches of each window. A window is part of a single
epoch: otherwise the copies of an example, which have the same length, would meet in one batch.
Batch size and buckets are fixed, so kernels are compiled once per bucket. The order is a
function of the seed, and can be resumed at any step.
"""

import dataclasses
import math
from collections.abc import Iterator, Sequence

import numpy as np
import tensorflow as tf

from electra_tf.training.distribution.shards import UNSHARDED, DataShard
from electra_tf.training.distribution.strategies import distribute_batches, iterate
from finetune.data.features import (
    INPUT_IDS,
    INPUT_MASK,
    SHARED_SPECS,
    TASK_ID,
    FeatureSpec,
    Row,
    is_input_ids,
    row_length,
)

# Longer windows sort better but mix less. With 32 examples per batch, 50 batches group examples
# of nearly the same length, while an epoch still has many windows.
WINDOW_BATCHES = 50
_DTYPES = {"int32": np.int32, "float32": np.float32}


@dataclasses.dataclass(frozen=True)
class BatchPlan:
    """Rows and padded length of each batch.

    Attributes:
        rows: int32 [batches, batch_size], indices into the feature table.
        lengths: int32 [batches], padded lengths.
        counts: int32 [batches], number of real rows; the rest are padding.
    """

    rows: np.ndarray
    lengths: np.ndarray
    counts: np.ndarray

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def distinct_lengths(self) -> tuple[int, ...]:
        """Padded lengths that occur, in ascending order."""
        return tuple(sorted(set(self.lengths.tolist())))


class FeatureTable:
    """Columnar features of all rows, for gathering batches.

    Args:
        rows: rows of each task, in the order of task ids.
        specs: features of each task in addition to the shared ones.
    """

    def __init__(
        self, rows: Sequence[Sequence[Row]], specs: Sequence[Sequence[FeatureSpec]]
    ) -> None:
        all_rows = [
            {**row, TASK_ID: task_id} for task_id, part in enumerate(rows) for row in part
        ]
        self.specs = {spec.name: spec for part in (SHARED_SPECS, *specs) for spec in part}
        self.row_lengths = np.array([row_length(row) for row in all_rows], np.int32)
        self._columns = {name: _column(all_rows, spec) for name, spec in self.specs.items()}

    def __len__(self) -> int:
        return len(self.row_lengths)

    def gather(self, rows: tf.Tensor, length: tf.Tensor | int) -> dict[str, tf.Tensor]:
        """Returns the features of `rows` (int32 [batch]), padded to `length` (scalar).

        Each `input_ids` comes with its `input_mask`.
        """
        static_length = length if isinstance(length, int) else None
        batch = {}
        for name, spec in self.specs.items():
            values = tf.gather(self._columns[name], rows)
            if is_input_ids(name):
                mask = tf.sequence_mask(values.row_lengths(), length, tf.int32)
                mask = tf.ensure_shape(mask, [rows.shape[0], static_length])
                batch[name.replace(INPUT_IDS, INPUT_MASK)] = mask
            if spec.per_token:
                values = values.to_tensor(shape=tf.stack([tf.shape(rows)[0], length]))
                values = tf.ensure_shape(values, [rows.shape[0], static_length])
            batch[name] = values
        return batch


def _column(rows: Sequence[Row], spec: FeatureSpec) -> tf.Tensor | tf.RaggedTensor:
    dtype = _DTYPES[spec.dtype]
    if spec.per_token:
        vectors = [np.asarray(row.get(spec.name, ()), dtype) for row in rows]
        values = np.concatenate([np.zeros(0, dtype), *vectors])
        return tf.RaggedTensor.from_row_lengths(values, [len(v) for v in vectors])
    missing = np.zeros(spec.size or (), dtype)
    values = [np.asarray(row.get(spec.name, missing), dtype) for row in rows]
    return tf.constant(np.stack(values) if values else np.zeros((0, *missing.shape), dtype))


def count_steps(num_examples: int, batch_size: int, num_epochs: float) -> int:
    """Returns the number of training steps as the authors count them: epochs are rounded up."""
    return int(math.ceil(num_examples / batch_size) * num_epochs)


def plan_training_batches(
    row_lengths: np.ndarray,
    *,
    batch_size: int,
    num_steps: int,
    buckets: Sequence[int],
    seed: int,
) -> BatchPlan:
    """Plans the batches of a training run; every epoch contains each row once.

    Args:
        row_lengths: int [rows], number of tokens of each row.
        batch_size: global batch size.
        num_steps: number of batches.
        buckets: increasing lengths; a single one disables dynamic padding.
        seed: random seed of the order.
    """
    rows = _epochs(len(row_lengths), batch_size * num_steps, seed)
    generator = np.random.default_rng([seed, 1])
    batches = []
    for start, end in _windows(num_steps, batch_size, len(row_lengths)):
        part = rows[start * batch_size : end * batch_size]
        if len(buckets) > 1:
            part = part[np.argsort(row_lengths[part], kind="stable")]
            parts = part.reshape(-1, batch_size)
            part = parts[generator.permutation(len(parts))]
        batches.append(part.reshape(-1, batch_size))
    rows = np.concatenate(batches)
    counts = np.full(len(rows), batch_size, np.int32)
    return BatchPlan(rows, _batch_lengths(row_lengths, rows, buckets), counts)


def plan_evaluation(
    row_lengths: np.ndarray, *, batch_size: int, buckets: Sequence[int]
) -> BatchPlan:
    """Plans batches with every row once, sorted by length; the last one is padded."""
    order = np.arange(len(row_lengths), dtype=np.int32)
    if len(buckets) > 1:
        order = np.argsort(row_lengths, kind="stable").astype(np.int32)
    filled = -len(order) % batch_size
    rows = np.concatenate([order, np.repeat(order[-1:], filled)]).reshape(-1, batch_size)
    counts = np.full(len(rows), batch_size, np.int32)
    counts[-1] -= filled
    return BatchPlan(rows, _batch_lengths(row_lengths, rows, buckets), counts)


@tf.autograph.experimental.do_not_convert  # needless, and slow
def make_dataset(
    table: FeatureTable, plan: BatchPlan, start_step: int = 0, shard: DataShard = UNSHARDED
) -> tf.data.Dataset:
    """Returns the batches of a plan, starting at `start_step`.

    Args:
        table: features of all rows.
        plan: global batches.
        start_step: number of batches to skip.
        shard: share of the worker; its replicas take the batches in turn.

    Returns:
        A dataset of features, each [rows per replica, ...].
    """
    rows = shard.split(plan.rows[start_step:])
    lengths = np.repeat(plan.lengths[start_step:], shard.replicas)
    # A single length is part of the static shape, as TPUs need.
    common = int(lengths[0]) if len(set(lengths.tolist())) == 1 else None
    dataset = tf.data.Dataset.from_tensor_slices((rows, lengths)).map(
        lambda rows, length: table.gather(rows, common or length),
        num_parallel_calls=2,
        deterministic=True,
    )
    return dataset.prefetch(tf.data.AUTOTUNE)


def iterate_batches(
    strategy: tf.distribute.Strategy, table: FeatureTable, plan: BatchPlan, start_step: int = 0
) -> Iterator:
    """Returns a distributed iterator over the batches of a plan, starting at `start_step`.

    It repeats the plan forever; the caller reads as many batches as the plan has. The batches
    are those of `make_dataset`, one for each replica.
    """

    def make(shard: DataShard) -> tf.data.Dataset:
        # Tells strategies that no worker runs out of batches.
        return make_dataset(table, plan, start_step, shard).repeat()

    return iterate(distribute_batches(strategy, make))


def _windows(num_steps: int, batch_size: int, num_rows: int) -> Iterator[tuple[int, int]]:
    """Yields the first batch of each window, and the first one after it.

    A batch that the end of an epoch divides is a window of its own.
    """
    start = 0
    while start < num_steps:
        epoch = start * batch_size // num_rows
        end_of_epoch = max((epoch + 1) * num_rows // batch_size, start + 1)
        end = min(end_of_epoch, start + WINDOW_BATCHES, num_steps)
        yield start, end
        start = end


def _epochs(num_rows: int, num_examples: int, seed: int) -> np.ndarray:
    epochs = -(-num_examples // num_rows)
    orders = [
        np.random.default_rng([seed, 0, epoch]).permutation(num_rows).astype(np.int32)
        for epoch in range(epochs)
    ]
    return np.concatenate(orders)[:num_examples]


def _batch_lengths(
    row_lengths: np.ndarray, rows: np.ndarray, buckets: Sequence[int]
) -> np.ndarray:
    longest = row_lengths[rows].max(axis=1)
    edges = np.asarray(buckets, np.int32)
    index = np.searchsorted(edges, longest)
    if index.max(initial=0) >= len(edges):
        raise ValueError(f"A row of {longest.max()} tokens exceeds the buckets {buckets}")
    return edges[index]
