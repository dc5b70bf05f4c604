"""Messages for errors of exhausted host or device memory."""

from collections.abc import Mapping
from typing import Any

from electra_tf.util.errors import is_out_of_memory, reason_of

# Flags whose smaller values take less memory.
_TRAINING_BATCH_SIZES = ("train_batch_size",)
_EVALUATION_BATCH_SIZES = ("eval_batch_size", "predict_batch_size")
_SMALLER = ("batch_size", "score_batch_size", "max_seq_length", "num_processes")
_ACCUMULATION = "gradient_accumulation_steps"
_REMATERIALIZE, _PRECISION = "rematerialize", "precision"
_JIT_COMPILE, _KERNELS = "jit_compile", "triton_kernels"
# TensorFlow's message if it could not copy to a GPU.
_COPY_FAILED = "Dst tensor is not initialized"


def describe_out_of_memory(error: Exception, values: Mapping[str, Any]) -> str | None:
    """Returns a message if an error means that memory ran out; None for other errors.

    Args:
        error: an error of Python or TensorFlow.
        values: flags of the program; the message suggests those that save memory.
    """
    if not is_out_of_memory(error):
        return None
    cause = str(error) if isinstance(error, MemoryError) else reason_of(error)
    message = "out of memory" + (f": {cause}" if cause else "")
    if _COPY_FAILED in str(error):
        message = (
            "out of GPU memory: a tensor could not be copied there. nvidia-smi lists other "
            "programs that use the GPU"
        )
    # Programs that load models have the flags of their training, too.
    trains = values.get("do_train") is not False and "score_batch_size" not in values
    evaluates = values.get("do_train") is False
    batches = (
        *(_TRAINING_BATCH_SIZES if trains else ()),
        *(_EVALUATION_BATCH_SIZES if evaluates or trains else ()),  # training evaluates, too
    )
    smaller = [f"--{name}" for name in (*batches, *_SMALLER) if name in values]
    if smaller:
        message += f". Reduce {' or '.join(smaller)}"
    if _ACCUMULATION in values and trains:
        message += f", or raise --{_ACCUMULATION}, which keeps the batch"
    others = []
    if _REMATERIALIZE in values and not values[_REMATERIALIZE] and trains:
        others.append(f"--{_REMATERIALIZE}")
    if _PRECISION in values and values[_PRECISION] in (None, "float32"):
        others.append(f"--{_PRECISION}=mixed_bfloat16")
    # A run with --jit_compile is assumed to use a GPU, which these kernels need.
    if values.get(_JIT_COMPILE) and values.get(_KERNELS) is False:
        needed = (
            "" if values.get(_PRECISION) not in (None, "float32") else " (in half precision)"
        )
        others.append(f"--{_KERNELS}{needed}")
    if others:
        message += f". To save memory, also use {', '.join(others)}"
    return message
