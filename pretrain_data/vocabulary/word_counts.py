"""Counts the words of a corpus, as split by the tokenizer, in one or several processes."""

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from operator import methodcaller
from typing import NamedTuple

from electra_tf.util.console import ProgressBar, discard
from electra_tf.util.errors import UserError
from electra_tf.util.signals import exiting_on_signals
from electra_tf.util.tensorflow_import import import_tensorflow
from pretrain_data.corpus.corpus_report import print_nulls, print_repairs
from pretrain_data.corpus.inputs import Corpus
from pretrain_data.corpus.partition import CorpusPart, divide
from pretrain_data.parallel.counts import BuildCounts, WorkerError
from pretrain_data.parallel.processes import run_jobs

# Space-separated parts of the text are counted first, and split into words when there are this
# many distinct ones, or when this much text may be in them.
_MAX_PARTS = 1_000_000
_MAX_TEXT_BYTES = 256 << 20
# Limits of one call of the tokenizer, which takes hundreds of times the bytes of its text.
_PARTS_AT_ONCE, _BYTES_AT_ONCE = 1 << 16, 2 << 20


@dataclasses.dataclass(frozen=True)
class CountJob:
    """The text that one process counts.

    Attributes:
        index: index of the process.
        parts: text to read.
        do_lower_case, strip_accents: tokenizer settings.
    """

    index: int
    parts: list[CorpusPart]
    do_lower_case: bool
    strip_accents: bool


class WordCounts(NamedTuple):
    """Words of one process; by file, records without text and invalid UTF-8 sequences."""

    words: Counter[str]
    null_texts: Counter[str]
    invalid_utf8: Counter[str]


def count_words(
    corpus: Corpus,
    do_lower_case: bool,
    strip_accents: bool,
    print_fn: Callable[[str], None] = discard,
    num_processes: int = 1,
) -> Counter[str]:
    """Counts the words of all files; prints what has no text, and what is repaired.

    Memory grows with the number of distinct words. The counts do not depend on the number of
    processes.

    Raises:
        UserError: a file cannot be read.
        WorkerError: a process failed for another reason.
    """
    jobs = [
        CountJob(index, share, do_lower_case, strip_accents)
        for index, share in enumerate(divide(corpus.parts, num_processes, True))
    ]
    num_disk_bytes = sum(part.num_disk_bytes for part in corpus.parts)
    progress = ProgressBar(num_disk_bytes, unit="distinct words")
    try:
        with exiting_on_signals():
            shares: list[WordCounts] = run_jobs(count_words_of, jobs, progress)
    finally:
        progress.close()
    words, null_texts, invalid_utf8 = shares[0]
    for share in shares[1:]:
        words.update(share.words)
        null_texts.update(share.null_texts)
        invalid_utf8.update(share.invalid_utf8)
    print_repairs(invalid_utf8, print_fn)
    print_nulls(null_texts, print_fn)
    return words


def count_words_of(job: CountJob, report: Callable[[BuildCounts], None]) -> WordCounts:
    """Counts the words of `job`, calling `report` after every block.

    Raises:
        UserError: a file cannot be read.
        WorkerError: any other failure, with the file that was being read.
    """
    import_tensorflow()
    counter = _WordCounter(job.do_lower_case, job.strip_accents)
    null_texts: Counter[str] = Counter()
    invalid_utf8: Counter[str] = Counter()
    disk_bytes = text_bytes = 0
    for part in job.parts:
        try:
            for block in part.read():
                counter.add(block.lines, block.num_text_bytes)
                if block.num_nulls:
                    null_texts[block.path] += block.num_nulls
                if block.num_repairs:
                    invalid_utf8[block.path] += block.num_repairs
                disk_bytes += block.num_disk_bytes
                text_bytes += block.num_text_bytes
                report(BuildCounts(disk_bytes, text_bytes, examples=counter.num_distinct))
        except UserError:
            raise
        except Exception as error:
            raise WorkerError(f"Counting failed in {part.path}: {error!r}") from error
    return WordCounts(counter.words(), null_texts, invalid_utf8)


class _WordCounter:
    """Counts words; space-separated parts, most of which occur often, are split only once."""

    def __init__(self, do_lower_case: bool, strip_accents: bool):
        self._settings = (do_lower_case, strip_accents)
        self._parts: Counter[str] = Counter()
        self._text_bytes = 0
        self._words: Counter[str] = Counter()

    @property
    def num_distinct(self) -> int:
        """About the number of distinct words so far, for messages."""
        return max(len(self._parts), len(self._words))

    def add(self, lines: Iterable[str], num_text_bytes: int) -> None:
        """Counts the words of lines, which have `num_text_bytes` in all."""
        self._parts.update(chain.from_iterable(map(methodcaller("split", " "), lines)))
        self._text_bytes += num_text_bytes
        if len(self._parts) > _MAX_PARTS or self._text_bytes > _MAX_TEXT_BYTES:
            self._split_parts()

    def words(self) -> Counter[str]:
        """Returns the number of occurrences of each word so far."""
        self._split_parts()
        return self._words

    def _split_parts(self) -> None:
        import tensorflow as tf

        from electra_tf.text.tokenizer import split_words

        parts, self._parts = self._parts, Counter()
        self._text_bytes = 0
        for texts, counts in _batches(parts.items()):
            rows = split_words(tf.constant(texts, tf.string), *self._settings)
            splits = rows.row_splits.numpy().tolist()
            words = [word.decode() for word in rows.values.numpy().tolist()]
            for first, last, count in zip(splits, splits[1:], counts, strict=False):
                for word in words[first:last]:
                    self._words[word] += count


def _batches(parts: Iterable[tuple[str, int]]) -> Iterator[tuple[list[bytes], list[int]]]:
    """Yields texts and their counts, for a call of the tokenizer each."""
    texts: list[bytes] = []
    counts: list[int] = []
    num_bytes = 0
    for part, count in parts:
        text = part.encode()
        is_full = len(texts) == _PARTS_AT_ONCE or num_bytes + len(text) > _BYTES_AT_ONCE
        if texts and is_full:
            yield texts, counts
            texts, counts, num_bytes = [], [], 0
        texts.append(text)
        counts.append(count)
        num_bytes += len(text)
    if texts:
        yield texts, counts
