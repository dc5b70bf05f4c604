"""Pre-training as the program does it, on the records that the configuration names."""

from collections.abc import Callable
from functools import partial

from electra_tf.config.pretraining import PretrainingConfig
from electra_tf.pretraining import run
from flags.records import (
    count_trained_tokens,
    evaluated_records,
    held_out_records,
    training_records,
)


def train(
    config: PretrainingConfig, print_fn: Callable[[str], None] = print
) -> dict[str, float]:
    """Trains, and returns the last metrics."""
    records = training_records(config, print_fn)
    return run.train(config, records, held_out_records(config), print_fn)


def evaluate(
    config: PretrainingConfig, print_fn: Callable[[str], None] = print
) -> dict[str, float]:
    """Evaluates the newest checkpoint, and returns its metrics."""
    counts = partial(count_trained_tokens, config)
    return run.evaluate(config, evaluated_records(config), print_fn, token_counts=counts)
