"""Counts the tokens of records."""

import numpy as np

from electra_tf.text.framing import INPUT_IDS, INPUT_MASK
from electra_tf.util.console import discard
from electra_tf.util.untuned_datasets import untuned
from pretrain_data.records.reader import read_pretraining_records

_BATCH_SIZE = 1024


def count_tokens(
    patterns: str,
    *,
    vocab_size: int,
    max_seq_length: int,
    skip_bad_records: bool,
    max_examples: int,
    flag: str,
) -> np.ndarray:
    """Returns the token counts of the first examples, without padding, int64 [vocab_size].

    Args:
        patterns: files or glob patterns, also comma-separated.
        vocab_size: vocabulary size.
        max_seq_length: sequence length of the records.
        skip_bad_records: skip damaged records.
        max_examples: maximum number of examples to read.
        flag: flag to name in errors.

    Raises:
        UserError: see `pretrain_data.records.reader.read_pretraining_records`.
    """
    batches = read_pretraining_records(
        patterns,
        max_seq_length=max_seq_length,
        batch_size=_BATCH_SIZE,
        skip_bad_records=skip_bad_records,
        vocab_size=vocab_size,
        repeat=False,
        flag=flag,
        print_fn=discard,
    )
    counts = np.zeros(vocab_size, np.int64)
    batches = untuned(batches.take(-(-max_examples // _BATCH_SIZE)))
    for batch in batches.as_numpy_iterator():
        tokens = batch[INPUT_IDS][batch[INPUT_MASK] > 0]
        counts += np.bincount(tokens, minlength=vocab_size)
    return counts
