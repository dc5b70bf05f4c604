"""Memory that is short is told from a full disk, and what helps is named."""

import pytest
import tensorflow as tf

from electra_tf.training.distribution.workers import Workers
from flags.command_line.out_of_memory import describe_out_of_memory

NAMES = ("train_batch_size", "max_seq_length", "gradient_accumulation_steps", "seed")
TRAINING = dict.fromkeys((*NAMES, "rematerialize", "precision"))


def exhausted(message: str) -> tf.errors.OpError:
    return tf.errors.ResourceExhaustedError(None, None, message)


def test_an_allocation_that_fails_names_flags_of_the_program():
    error = exhausted("{{node m/x}} OOM when allocating tensor with shape[9,9]\nHint: …")
    assert describe_out_of_memory(error, TRAINING) == (
        "out of memory: OOM when allocating tensor with shape[9,9]. Reduce --train_batch_size "
        "or --max_seq_length, or raise --gradient_accumulation_steps, which keeps the batch. "
        "To save memory, also use --rematerialize, --precision=mixed_bfloat16"
    )
    used = {**TRAINING, "rematerialize": True, "precision": "mixed_float16"}
    assert describe_out_of_memory(error, used).endswith("which keeps the batch")
    compiled = {**used, "jit_compile": True, "triton_kernels": False}
    assert describe_out_of_memory(error, compiled).endswith(
        "To save memory, also use --triton_kernels"
    )
    compiled |= {"precision": "float32"}
    assert describe_out_of_memory(error, compiled).endswith(
        "--precision=mixed_bfloat16, --triton_kernels (in half precision)"
    )
    compiled |= {"precision": "mixed_float16", "triton_kernels": True}
    assert describe_out_of_memory(error, compiled).endswith("which keeps the batch")
    assert describe_out_of_memory(MemoryError(), {"num_processes": 2}) == (
        "out of memory. Reduce --num_processes"
    )
    assert describe_out_of_memory(MemoryError("8 EiB"), {}) == "out of memory: 8 EiB"


def test_what_does_not_train_names_its_own_batches():
    evaluating = {**TRAINING, "do_train": False, "eval_batch_size": None}
    assert describe_out_of_memory(MemoryError(), evaluating) == (
        "out of memory. Reduce --eval_batch_size or --max_seq_length. To save memory, also use "
        "--precision=mixed_bfloat16"
    )
    scoring = {**TRAINING, "do_train": None, "eval_batch_size": None, "score_batch_size": 64}
    assert "Reduce --score_batch_size or --max" in describe_out_of_memory(
        MemoryError(), scoring
    )


def test_a_training_names_the_batches_of_its_evaluations_too():
    values = {**TRAINING, "do_train": True, "eval_batch_size": 128}
    assert "Reduce --train_batch_size or --eval_batch_size or --max_seq_length, or" in (
        describe_out_of_memory(MemoryError(), values)
    )


def test_a_full_disk_and_other_errors_are_something_else():
    for message in ("/x/a.index; No space left on device", "a; Disk quota exceeded"):
        assert describe_out_of_memory(exhausted(message), TRAINING) is None
    for error in (ValueError("x"), tf.errors.InternalError(None, None, "x")):
        assert describe_out_of_memory(error, TRAINING) is None


@pytest.mark.parametrize(
    "message",
    [
        "Failed copying input tensor from CPU:0 to GPU:0 in order to run _EagerConst: "
        "Dst tensor is not initialized.",
        "RESOURCE_EXHAUSTED: Out of memory while trying to allocate 21474836480 bytes.",
        "failed to allocate 2.00GiB from device: CUDA_ERROR_OUT_OF_MEMORY: out of memory",
        "CUBLAS_STATUS_ALLOC_FAILED",
    ],
)
def test_other_errors_of_gpus_without_memory_are_told(message):
    error = tf.errors.InternalError(None, None, message)
    described = describe_out_of_memory(error, TRAINING)
    assert described.startswith(("out of memory: ", "out of GPU memory: a tensor"))
    assert "Reduce --train_batch_size or --max_seq_length" in described
    # Not a worker that is lost, after which a cluster starts the run again.
    workers = Workers(tf.distribute.OneDeviceStrategy("/CPU:0"))
    workers.count = 2
    with pytest.raises(tf.errors.InternalError), workers.explain_losses("again"):
        raise error
