"""Interface of the data that pre-training reads, from record files or elsewhere."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Protocol

import numpy as np
import tensorflow as tf

from electra_tf.text.framing import ENCODER_INPUTS
from electra_tf.text.tokenizer_description import TokenizerDescription
from electra_tf.text.vocabulary import Vocabulary
from electra_tf.training.distribution.shards import DataShard
from electra_tf.util.errors import UserError


class PretrainingRecords(Protocol):
    """Source of examples for training or evaluation; see `pretrain_data.records.source`."""

    def check(
        self,
        vocabulary: Vocabulary,
        tokenizer: TokenizerDescription,
        seq_lengths: Sequence[int],
    ) -> None:
        """Checks that there are examples of these lengths, built with this tokenizer.

        Raises:
            UserError: they are missing or differ; nothing has been built or written.
        """

    def describe(self, seq_length: int) -> str:
        """Describes the examples of a length, such as "8 files in DIR"."""

    def num_examples(self, seq_length: int) -> int | None:
        """Returns the number of examples of a length; None if they must be read to know it."""

    def fingerprint(self, seq_length: int) -> str:
        """Returns a digest of the examples of a length, the same wherever they are."""

    def batches(
        self, *, first_example: int, batch_size: int, seq_length: int, shard: DataShard
    ) -> tf.data.Dataset:
        """Returns batches of `input_ids`, `input_mask`, `segment_ids`, int32 [rows, length].

        Training batches are endless, and those after `first_example` examples are the same as
        in an uninterrupted run. Held-out examples are read once, and the last batch is
        padded.

        Args:
            first_example: number of examples of this length already read by all workers.
            batch_size: global batch size.
            seq_length: sequence length, in tokens.
            shard: share of the worker, with one batch for each of its replicas in turn.
        """

    def token_counts(self, vocab_size: int, max_examples: int = ...) -> np.ndarray:
        """Returns the number of occurrences of each token, int64 [vocab_size].

        At most the first `max_examples` examples are read.
        """

    def locating_damage(self, seq_length: int) -> AbstractContextManager[None]:
        """Turns read errors of examples of a length into ones that locate the damage."""


def batches_of(
    records: PretrainingRecords,
    *,
    first_example: int,
    batch_size: int,
    seq_length: int,
    shard: DataShard,
) -> tf.data.Dataset:
    """Returns `records.batches(...)`, after checking the length of its rows.

    Raises:
        UserError: the length is wrong or unknown, so that training would silently use another
            one, or an input of the encoder is missing.
    """
    batches = records.batches(
        first_example=first_example, batch_size=batch_size, seq_length=seq_length, shard=shard
    )
    for name in ENCODER_INPUTS:
        shape = batches.element_spec[name].shape if name in batches.element_spec else None
        if shape is None or shape.rank != 2 or shape[1] != seq_length:
            given = "missing" if shape is None else f"{shape}"
            raise UserError(
                f"{records.describe(seq_length)}: {name} of a batch is {given} instead of "
                f"[rows, {seq_length}]"
            )
    return batches
