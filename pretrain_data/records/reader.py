"""Reads TFRecords of pre-training data in batches, in a resumable order.

The order of the examples depends only on the files and the seed: each epoch shuffles files and
records with a seed of (seed, epoch). So `start_example` resumes exactly where an uninterrupted
run would be.
"""

import dataclasses
from collections.abc import Callable, Sequence

import tensorflow as tf

from electra_tf.training.distribution.shards import UNSHARDED, DataShard
from electra_tf.util.errors import UserError
from pretrain_data.records.bad_records import scan_good_records
from pretrain_data.records.checks import find_checked_record_files
from pretrain_data.records.files import (
    DEFAULT_FLAG,
    built_counts,
    changes_of,
    count_records_by_file,
    file_size,
)
from pretrain_data.records.format import RecordSpan, parse_records, read_span
from pretrain_data.records.tfrecord_headers import FRAME_BYTES

# The same on every machine, because the order of the examples depends on it.
_FILES_READ_AT_ONCE = 16
_MAX_BAD_RECORDS_SHOWN = 10
# TensorFlow allocates a whole shuffle buffer at once, 24 bytes per example.
_LARGE_SHUFFLE_BUFFER = 1_000_000


# Nothing here needs AutoGraph, whose conversion would take a second or two.
@tf.autograph.experimental.do_not_convert
def read_pretraining_records(
    patterns: str | Sequence[str],
    *,
    max_seq_length: int,
    batch_size: int,
    seed: int = 0,
    shuffle_buffer_size: int = 0,
    deterministic: bool = True,
    skip_bad_records: bool = False,
    vocab_size: int | None = None,
    start_example: int = 0,
    repeat: bool = True,
    shard: DataShard = UNSHARDED,
    flag: str = DEFAULT_FLAG,
    print_fn: Callable[[str], None] = print,
) -> tf.data.Dataset:
    """Reads batches of examples.

    Args:
        patterns: files or glob patterns, also comma-separated.
        max_seq_length: sequence length of the records.
        batch_size: global batch size.
        seed: random seed of the shuffling.
        shuffle_buffer_size: size of the shuffle buffer, in examples; 0 disables shuffling.
        deterministic: False is faster, but cannot be resumed exactly, and workers that share
            each batch would read in different orders.
        skip_bad_records: skip and report damaged records, at the cost of reading all files
            once beforehand. Otherwise reading fails with one of
            `bad_records.BAD_RECORD_ERRORS`, and `bad_records.diagnose_bad_record` locates
            the damage. Reading also fails if a file has changed when it is opened again.
        vocab_size: upper bound of the ids; a record with other ids is damaged.
        start_example: number of examples already read by all workers.
        repeat: repeat forever; batches may span epochs. Otherwise every record is read once,
            and the last batch is padded with rows of zeros (`input_mask` 0).
        shard: shard of the worker, whose replicas take the batches in turn.
        flag: flag to name in errors.
        print_fn: gets a message about every skipped record.

    Returns:
        A dataset of `input_ids`, `input_mask` and `segment_ids`, each int32
        (rows per replica, max_seq_length).

    Raises:
        UserError: no file matches, there is no record, the records have another length, or a
            file size differs from the manifest.
        ValueError: sharding by file has no `repeat`, or sharding by record, with several
            workers, is not `deterministic`.
    """
    by_file = shard.by_file
    if shard.num_workers > 1 and not (by_file or deterministic):
        raise ValueError("Sharding by record needs `deterministic`")
    if by_file and not repeat:
        raise ValueError("Sharding by file needs `repeat`")
    files = find_checked_record_files(
        patterns, max_seq_length, flag, skip_bad_records=skip_bad_records
    )
    needs_counts = by_file or bool(start_example)
    spans, counts = _readable_spans(
        files, max_seq_length, vocab_size, skip_bad_records, needs_counts, flag, print_fn
    )
    num_records = sum(counts)
    part = None
    if by_file:
        part = _worker_part(counts, shard, flag)
        num_records = part.until - part.first
        start_example //= shard.num_workers

    first_epoch, position = 0, start_example
    if repeat and start_example:
        first_epoch, position = divmod(start_example, num_records)
    if shuffle_buffer_size > _LARGE_SHUFFLE_BUFFER:
        # A buffer for more than all records does not change their order.
        most_records = sum(map(file_size, files)) // FRAME_BYTES
        shuffle_buffer_size = min(shuffle_buffer_size, most_records + 1)
    # Files are opened again in every epoch, and may have changed by then.
    check = changes_of(files)
    epochs = tf.data.Dataset.range(first_epoch, tf.int64.max if repeat else first_epoch + 1)
    records = epochs.flat_map(
        lambda epoch: _epoch_records(
            spans, seed, epoch, shuffle_buffer_size, deterministic, part, check
        )
    )
    batches = _batches_of_shard(records.skip(position), batch_size, shard, repeat)
    batches = batches.map(
        lambda batch: parse_records(batch, max_seq_length, vocab_size),
        num_parallel_calls=tf.data.AUTOTUNE,
        deterministic=deterministic,
    )
    _, num_rows = shard.rows(batch_size)
    if not repeat:
        batches = batches.map(lambda batch: _pad_batch(batch, num_rows, max_seq_length))
    if shard.replicas > 1:
        batches = batches.rebatch(num_rows // shard.replicas, drop_remainder=True)
    if repeat:
        # Tells strategies that no worker runs out of batches.
        batches = batches.apply(
            tf.data.experimental.assert_cardinality(tf.data.INFINITE_CARDINALITY)
        )
    return batches.prefetch(tf.data.AUTOTUNE)


def _batches_of_shard(
    records: tf.data.Dataset, batch_size: int, shard: DataShard, repeat: bool
) -> tf.data.Dataset:
    """Returns batches of the worker's rows, still serialized."""
    first_row, num_rows = shard.rows(batch_size)
    if shard.by_file:
        return records.batch(num_rows, drop_remainder=True)
    batches = records.batch(batch_size, drop_remainder=repeat)
    return batches.map(lambda batch: batch[first_row : first_row + num_rows])


@dataclasses.dataclass(frozen=True)
class _Part:
    """Records `first` to `until` (exclusive) of an epoch; `counts` has the records per span."""

    counts: list[int]
    first: int
    until: int
    worker: int


def _worker_part(counts: list[int], shard: DataShard, flag: str) -> _Part:
    """Returns the part of each epoch that a worker reads, if sharded by file.

    Raises:
        UserError: the part is empty.
    """
    num_records = sum(counts)
    part = _Part(counts, *shard.range(num_records), shard.worker)
    if part.until == part.first:
        raise UserError(
            f"{flag} has {num_records} records, too few for {shard.num_workers} workers"
        )
    return part


def _readable_spans(
    files: list[str],
    max_seq_length: int,
    vocab_size: int | None,
    skip_bad_records: bool,
    needs_counts: bool,
    flag: str,
    print_fn: Callable[[str], None],
) -> tuple[list[list[RecordSpan]], list[int]]:
    """Returns the spans to read from each file and, if needed, the records of each span."""
    if not skip_bad_records:
        counts = count_records_by_file(files) if needs_counts else []
        return [[RecordSpan(path)] for path in files], counts
    scans = scan_good_records(files, max_seq_length, vocab_size, flag)
    spans = [list(scan.spans) for scan in scans]
    bad_records = [bad_record for scan in scans for bad_record in scan.bad_records]
    num_records = sum(scan.num_records for scan in scans)
    for bad_record in bad_records[:_MAX_BAD_RECORDS_SHOWN]:
        rest = "; the rest of the file is skipped with it" if bad_record.loses_rest else ""
        print_fn(f"Skipping {bad_record}{rest}")
    if bad_records:
        print_fn(
            f"Skipping {len(bad_records):,} bad records, reading {num_records:,} good ones."
        )
    counts = built_counts(files)
    for scan, path in zip(scans, files, strict=True):
        built = counts.get(path, scan.num_records)
        if scan.num_records < built:
            print_fn(f"{path}: {scan.num_records:,} of the {built:,} records built are good.")
    return spans, [span.count for file_spans in spans for span in file_spans]


def _epoch_records(
    spans_by_file: list[list[RecordSpan]],
    seed: int,
    epoch: tf.Tensor,
    shuffle_buffer_size: int,
    deterministic: bool,
    part: _Part | None,
    check: Callable[[str], None],
) -> tf.data.Dataset:
    """Returns the serialized records of one epoch, or of a worker's part of it.

    Files are shuffled, not their spans: skipped damage then shifts the order only by the lost
    records, and a run that resumes without them does not read others again.
    """
    # Otherwise, tf.random.set_seed would affect the seed of the shuffling.
    tf.compat.v1.get_default_graph().seed = None
    spans = [span for file_spans in spans_by_file for span in file_spans]
    paths = tf.constant([span.path for span in spans])
    offsets = [span.offset for span in spans]
    # Without damage, each span is a whole file and needs no offset.
    offset_of = tf.constant(offsets, tf.int64).__getitem__ if any(offsets) else lambda i: 0
    counts = tf.constant([span.count for span in spans], tf.int64)
    lengths = [len(file_spans) for file_spans in spans_by_file]
    indices = tf.RaggedTensor.from_row_lengths(tf.range(len(spans)), lengths)
    order = tf.range(len(lengths))
    key = tf.stack([tf.constant(seed, tf.int64), epoch])
    if shuffle_buffer_size:
        order = tf.random.experimental.stateless_shuffle(order, seed=key, alg="philox")
    starts, ends = tf.zeros_like(counts), counts
    if part is not None:
        in_order = tf.gather(indices, order).flat_values
        overlapping, starts, ends = _overlapping_spans(in_order, part)
        order, _ = tf.unique(tf.gather(indices.value_rowids(), overlapping))

    def read(span: tf.Tensor) -> tf.data.Dataset:
        records = read_span(paths[span], offset_of(span), ends[span], check)
        return records.skip(starts[span])

    def read_file(file: tf.Tensor) -> tf.data.Dataset:
        if set(lengths) == {1}:
            return read(file)
        return tf.data.Dataset.from_tensor_slices(indices[file]).flat_map(read)

    num_files = len(lengths)
    records = tf.data.Dataset.from_tensor_slices(order).interleave(
        read_file,
        cycle_length=_FILES_READ_AT_ONCE if shuffle_buffer_size else 1,
        num_parallel_calls=min(_FILES_READ_AT_ONCE, num_files) if shuffle_buffer_size else 1,
        deterministic=deterministic,
    )
    if shuffle_buffer_size:
        if part is not None:
            key = tf.random.experimental.stateless_fold_in(key, part.worker, alg="philox")
        buffer_seed = tf.random.stateless_uniform(
            [], seed=key, minval=None, maxval=None, dtype=tf.int64, alg="philox"
        )
        records = records.shuffle(
            shuffle_buffer_size, seed=buffer_seed, reshuffle_each_iteration=False
        )
    return records


def _overlapping_spans(order: tf.Tensor, part: _Part) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Returns the spans that overlap a part, in order, and the start and end in each span.

    Each epoch shuffles the spans before dividing them, so a worker reads all over time.
    """
    counts = tf.constant(part.counts, tf.int64)
    lengths = tf.gather(counts, order)
    before = tf.cumsum(lengths, exclusive=True)
    first = tf.clip_by_value(part.first - before, 0, lengths)
    until = tf.clip_by_value(part.until - before, 0, lengths)

    def by_span(values: tf.Tensor) -> tf.Tensor:
        return tf.scatter_nd(order[:, None], values, tf.shape(counts, tf.int32))

    return tf.boolean_mask(order, until > first), by_span(first), by_span(until)


def _pad_batch(
    batch: dict[str, tf.Tensor], batch_size: int, max_seq_length: int
) -> dict[str, tf.Tensor]:
    def pad(values: tf.Tensor) -> tf.Tensor:
        missing_rows = batch_size - tf.shape(values)[0]
        return tf.ensure_shape(
            tf.pad(values, [[0, missing_rows], [0, 0]]), [batch_size, max_seq_length]
        )

    return {name: pad(values) for name, values in batch.items()}
