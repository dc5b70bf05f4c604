"""Memory that is short is told from a full disk, and what helps is named."""

import tensorflow as tf

from flags.out_of_memory import describe_out_of_memory

TRAINING = {"train_batch_size", "max_seq_length", "gradient_accumulation_steps", "seed"}


def exhausted(message: str) -> tf.errors.OpError:
    return tf.errors.ResourceExhaustedError(None, None, message)


def test_an_allocation_that_fails_names_flags_of_the_program():
    error = exhausted("{{node m/x}} OOM when allocating tensor with shape[9,9]\nHint: …")
    assert describe_out_of_memory(error, TRAINING) == (
        "out of memory: OOM when allocating tensor with shape[9,9]. Reduce --train_batch_size "
        "or --max_seq_length, or raise --gradient_accumulation_steps, which keeps the batch"
    )
    assert describe_out_of_memory(MemoryError(), {"num_processes"}) == (
        "out of memory. Reduce --num_processes"
    )
    assert describe_out_of_memory(MemoryError("8 EiB"), {}) == "out of memory: 8 EiB"


def test_a_full_disk_and_other_errors_are_something_else():
    for message in ("/x/a.index; No space left on device", "a; Disk quota exceeded"):
        assert describe_out_of_memory(exhausted(message), TRAINING) is None
    for error in (ValueError("x"), tf.errors.InternalError(None, None, "x")):
        assert describe_out_of_memory(error, TRAINING) is None
