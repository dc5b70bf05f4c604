"""Errors of a machine or device whose memory is too small."""

from collections.abc import Container

from electra_tf.util.errors import reason_of

# Of TensorFlow, which may not be loaded. Full disks have it, too.
_EXHAUSTED = "ResourceExhaustedError"
_OF_DISKS = ("No space left", "quota")
# Flags of which a smaller value takes less memory.
_SMALLER = ("train_batch_size", "batch_size", "max_seq_length", "num_processes")
_ACCUMULATION = "gradient_accumulation_steps"


def describe_out_of_memory(error: Exception, flag_names: Container[str]) -> str | None:
    """Returns a message if an error is that memory is short, and None for any other.

    Args:
        error: an error of Python or TensorFlow.
        flag_names: flags of the program, of which the message names those that help.
    """
    if isinstance(error, MemoryError):
        cause = str(error)
    elif type(error).__name__ == _EXHAUSTED:
        cause = reason_of(error)
        if any(words in cause for words in _OF_DISKS):
            return None
    else:
        return None
    message = "out of memory" + (f": {cause}" if cause else "")
    smaller = [f"--{name}" for name in _SMALLER if name in flag_names]
    if smaller:
        message += f". Reduce {' or '.join(smaller)}"
    if _ACCUMULATION in flag_names:
        message += f", or raise --{_ACCUMULATION}, which keeps the batch"
    return message
