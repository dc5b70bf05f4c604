"""Reads records once, in bounded memory, and returns their statistics and a sample."""

import contextlib
import dataclasses
import heapq
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tqdm

from electra_tf.text.framing import INPUT_IDS
from electra_tf.text.vocabulary import Vocabulary
from electra_tf.util.errors import UserError
from pretrain_data.inspect.duplicates import DuplicateCounter
from pretrain_data.inspect.statistics import RecordCounts, row_bytes
from pretrain_data.records.bad_records import scan_file
from pretrain_data.records.checks import recorded_length
from pretrain_data.records.files import DEFAULT_FLAG, file_size, locate_bad_records
from pretrain_data.records.format import RecordSpan, parse_records, read_span

_BATCH_SIZE = 1024


@dataclasses.dataclass(frozen=True)
class Inspection:
    """Statistics and a sample of record files.

    Attributes:
        report: statistics of each file and of all, as JSON values.
        rows: the sampled examples: `input_ids`, `input_mask`, `segment_ids`, int32 [length].
        token_counts: number of occurrences of every id, without padding, int64 [vocabulary].
    """

    report: dict[str, Any]
    rows: list[dict[str, np.ndarray]]
    token_counts: np.ndarray


def inspect_files(
    files: Sequence[str],
    vocabulary: Vocabulary,
    *,
    max_records: int | None = None,
    num_examples: int = 0,
    num_frequent: int = 20,
    skip_bad_records: bool = False,
    seed: int = 0,
    flag: str = DEFAULT_FLAG,
) -> Inspection:
    """Reads record files.

    Args:
        files: TFRecord files.
        vocabulary: vocabulary of the records.
        max_records: read about this many records, the same number from the start of each
            file; None reads all.
        num_examples: number of examples to sample from the records that are read.
        num_frequent: number of most frequent tokens to report.
        skip_bad_records: skip damaged records, and count them.
        seed: random seed of the sample.
        flag: flag to name in errors.

    Raises:
        UserError: a record is damaged, or a file has none.
    """
    limit = None if max_records is None else -(-max_records // len(files))
    duplicates = DuplicateCounter()
    sample = _Sample(num_examples, seed)
    total = RecordCounts()
    reports = []
    for path in tqdm.tqdm(files, unit="file", leave=False, disable=not sys.stderr.isatty()):
        counts = RecordCounts()
        length = 0
        if file_size(path):
            length, _ = recorded_length([path], flag)
            spans, counts.skipped = _spans(path, length, vocabulary, skip_bad_records)
            with _locating(path, flag, length, vocabulary):
                for batch in _batches(spans, length, vocabulary.size, limit):
                    counts.add_batch(batch, vocabulary)
                    counts.duplicates += duplicates.add(row_bytes(batch))
                    sample.add(batch)
        total.add(counts)
        statistics = counts.to_dict(vocabulary, num_frequent)
        reports.append({"file": path, "seq_length": length, **statistics})
    if not total.num_records:
        raise UserError(f"{flag}: no record in {len(files)} files, first: {files[0]}")
    report = {
        "files": reports,
        "total": total.to_dict(vocabulary, num_frequent),
        "duplicates_estimated": not duplicates.is_exact,
        "records_per_file": limit,
        "vocabulary": {"file": str(vocabulary.path), "size": vocabulary.size},
    }
    return Inspection(report, sample.rows(), total.tokens)


def _spans(
    path: str, length: int, vocabulary: Vocabulary, skip_bad_records: bool
) -> tuple[Sequence[RecordSpan], int]:
    """Returns the spans of a file to read, and the number of records that are skipped."""
    if not skip_bad_records:
        return [RecordSpan(path)], 0
    scan = scan_file(path, length, vocabulary.size)
    return scan.spans, len(scan.bad_records)


@contextlib.contextmanager
def _locating(path: str, flag: str, length: int, vocabulary: Vocabulary) -> Iterator[None]:
    """Turns the errors of damaged records into a UserError that locates the first one."""
    try:
        with locate_bad_records(path, flag, length, vocabulary.size):
            yield
    except ValueError as error:
        # A record is longer than the rest of the file.
        if isinstance(error, UserError):
            raise
        bad = scan_file(path, length, vocabulary.size).bad_records
        if not bad:
            raise
        raise UserError(
            f"{flag}: {bad[0]}. Rebuild the file, or pass --skip_bad_records"
        ) from error


def _batches(
    spans: Sequence[RecordSpan], length: int, vocab_size: int, limit: int | None
) -> Iterator[Mapping[str, np.ndarray]]:
    left = limit
    for span in spans:
        records = read_span(span.path, span.offset, span.count)
        if left is not None:
            records = records.take(left)
        for serialized in records.batch(_BATCH_SIZE):
            parsed = parse_records(serialized, length, vocab_size)
            batch = {name: values.numpy() for name, values in parsed.items()}
            left = None if left is None else left - len(batch[INPUT_IDS])
            yield batch


class _Sample:
    """A uniform sample of rows without replacement: the ones with the lowest random numbers."""

    def __init__(self, size: int, seed: int) -> None:
        self._size = size
        self._random = np.random.default_rng(seed)
        # (-priority, order of arrival, row), the highest priority first.
        self._heap: list[tuple[float, int, dict[str, np.ndarray]]] = []
        self._seen = 0

    def add(self, batch: Mapping[str, np.ndarray]) -> None:
        priorities = self._random.random(len(batch[INPUT_IDS]))
        for i, priority in enumerate(priorities if self._size else ()):
            is_full = len(self._heap) == self._size
            if not is_full or -priority > self._heap[0][0]:
                row = {name: values[i].copy() for name, values in batch.items()}
                item = (-priority, self._seen + i, row)
                (heapq.heappushpop if is_full else heapq.heappush)(self._heap, item)
        self._seen += len(priorities)

    def rows(self) -> list[dict[str, np.ndarray]]:
        """Returns the sample in the order of the files."""
        return [row for _, _, row in sorted(self._heap, key=lambda item: item[1])]
