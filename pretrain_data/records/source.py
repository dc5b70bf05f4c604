"""TFRecord files as the source of pre-training batches."""

import dataclasses
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager

import numpy as np
import tensorflow as tf

from electra_tf.text.tokenizer_description import TokenizerDescription
from electra_tf.text.vocabulary import Vocabulary
from electra_tf.training.distribution.shards import DataShard
from pretrain_data.records.bad_records import scan_good_records
from pretrain_data.records.checks import check_records
from pretrain_data.records.files import (
    DEFAULT_FLAG,
    built_counts,
    find_record_files,
    fingerprint,
    locate_bad_records,
)
from pretrain_data.records.reader import read_pretraining_records
from pretrain_data.records.token_counts import count_tokens

# Enough for frequencies: a million sequences are tens of millions of tokens.
_MAX_COUNTED_EXAMPLES = 1_000_000


@dataclasses.dataclass(frozen=True, kw_only=True)
class RecordFiles:
    """Record files, to train or evaluate on (`electra_tf.pretraining.records`).

    Attributes:
        patterns: comma-separated files or glob patterns, by sequence length.
        vocab_size: upper bound of the ids; None accepts any.
        flag: flag to name in errors.
        seed, shuffle_buffer_size, deterministic, skip_bad_records, repeat, print_fn: see
            `pretrain_data.records.reader.read_pretraining_records`.
    """

    patterns: Mapping[int, str]
    vocab_size: int | None = None
    flag: str = DEFAULT_FLAG
    seed: int = 0
    shuffle_buffer_size: int = 0
    deterministic: bool = True
    skip_bad_records: bool = False
    repeat: bool = True
    print_fn: Callable[[str], None] = print

    def check(
        self,
        vocabulary: Vocabulary,
        tokenizer: TokenizerDescription,
        seq_lengths: Sequence[int],
    ) -> None:
        """Compares the files of each length with their manifests.

        With `skip_bad_records`, all of them are read, once.

        Raises:
            UserError: see `checks.check_records` and `bad_records.scan_good_records`.
        """
        for length in seq_lengths:
            check_records(
                self.patterns[length],
                length,
                self.flag,
                vocabulary=vocabulary,
                tokenizer=tokenizer,
                skip_bad_records=self.skip_bad_records,
            )
            if self.skip_bad_records:
                files = find_record_files(self.patterns[length], self.flag)
                self.print_fn(f"Reading {len(files):,} files of {self.flag} for bad records …")
                scan_good_records(files, length, self.vocab_size, self.flag)

    def files(self) -> list[str]:
        """Returns the files of all lengths; raises UserError if there are none of a length."""
        return [
            path
            for patterns in self.patterns.values()
            for path in find_record_files(patterns, self.flag)
        ]

    def describe(self, seq_length: int) -> str:
        """Describes the files of a length, such as "8 files in data/pretrain_tfrecords"."""
        files = find_record_files(self.patterns[seq_length], self.flag)
        noun = "file" if len(files) == 1 else "files"
        folders = list(dict.fromkeys(os.path.dirname(path) for path in files))
        return f"{len(files):,} {noun} in {', '.join(folders)}"

    def num_examples(self, seq_length: int) -> int | None:
        """Returns the number of examples of a length by the manifests; None if unknown."""
        files = find_record_files(self.patterns[seq_length], self.flag)
        counts = built_counts(files)
        return sum(counts.values()) if len(counts) == len(files) else None

    def fingerprint(self, seq_length: int) -> str:
        """Returns a digest of the files of a length; see `files.fingerprint`."""
        return fingerprint(find_record_files(self.patterns[seq_length], self.flag))

    def batches(
        self, *, first_example: int, batch_size: int, seq_length: int, shard: DataShard
    ) -> tf.data.Dataset:
        """Returns the batches from `first_example` on; see `read_pretraining_records`."""
        return read_pretraining_records(
            self.patterns[seq_length],
            max_seq_length=seq_length,
            batch_size=batch_size,
            seed=self.seed,
            shuffle_buffer_size=self.shuffle_buffer_size,
            deterministic=self.deterministic,
            skip_bad_records=self.skip_bad_records,
            vocab_size=self.vocab_size,
            start_example=first_example,
            repeat=self.repeat,
            shard=shard,
            flag=self.flag,
            print_fn=self.print_fn,
        )

    def token_counts(
        self, vocab_size: int, max_examples: int = _MAX_COUNTED_EXAMPLES
    ) -> np.ndarray:
        """Returns token counts of the longest examples, int64 [vocab_size]."""
        length = max(self.patterns)
        num_ids = min(vocab_size, self.vocab_size or vocab_size)
        with self.locating_damage(length):
            counts = count_tokens(
                self.patterns[length],
                vocab_size=num_ids,
                max_seq_length=length,
                skip_bad_records=self.skip_bad_records,
                max_examples=max_examples,
                flag=self.flag,
            )
        return np.pad(counts, (0, vocab_size - num_ids))

    def locating_damage(self, seq_length: int) -> AbstractContextManager[None]:
        """Turns a read error into a UserError that locates the bad record."""
        return locate_bad_records(
            self.patterns[seq_length], self.flag, seq_length, self.vocab_size
        )
