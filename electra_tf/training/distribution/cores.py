"""Uses CPU cores: runs parts of a batch, and operations, in parallel."""

import os
from collections.abc import Sequence

import tensorflow as tf

from electra_tf.config.distribution import ONE_DEVICE, DistributionConfig
from electra_tf.util.cpu_cores import (
    INTEROP_THREADS,
    INTRAOP_THREADS,
    limited_cores,
    num_cores,
)

# Maximum number of parts of a batch that inference computes in parallel; each is an execution
# of the graph. Measured with two cores only.
_MAX_PARTS = 8
# Tokens per part of a batch. The results of operations on more than the first number do not fit
# into the CPU caches, and parts of the second number are faster (benchmarks/RESULTS.md,
# "Inference against Hugging Face").
_MAX_PART_TOKENS, _LONG_PART_TOKENS = 2048, 1024
# Parts of a training batch that are computed in parallel; larger numbers were not measured.
_TRAINING_PARTS = 2
# Largest hidden size of models that are trained in parts. ELECTRA-base is not faster with small
# batches, and the gradients of each part take memory.
_MAX_HIDDEN_SIZE = 512
# Numbers of threads per operation that this module has set in this process.
_own_limits: set[int] = set()


def has_only_cpus() -> bool:
    """Whether this process has no device other than CPUs."""
    return {device.device_type for device in tf.config.list_logical_devices()} == {"CPU"}


def runs_on_one_cpu(strategy: tf.distribute.Strategy) -> bool:
    """Whether there is one replica, and no device other than CPUs."""
    return strategy.num_replicas_in_sync == 1 and has_only_cpus()


def cores_of(strategy: tf.distribute.Strategy) -> int:
    """Returns the number of parts of a batch to compute in parallel; 1 unless on one CPU.

    It is the number of cores of this process, or TF_NUM_INTEROP_THREADS if set; at most
    `_MAX_PARTS`.
    """
    return min(_num_cores(), _MAX_PARTS) if runs_on_one_cpu(strategy) else 1


def parts_of(num_cores: int, num_tokens: int) -> int:
    """Returns the maximum number of parts that inference divides a batch into.

    Args:
        num_cores: result of `cores_of`; with 1, the batch stays whole.
        num_tokens: number of tokens of the batch, including padding.
    """
    if num_cores == 1 or num_tokens <= num_cores * _MAX_PART_TOKENS:
        return num_cores
    return num_tokens // _LONG_PART_TOKENS


def share_cores(config: DistributionConfig, hidden_size: int, rows: Sequence[int] = ()) -> int:
    """Divides the cores among parts of a batch, if that is faster.

    The operations of a small model are short and, one after another, leave cores idle. Call
    this before TensorFlow is initialized, because it sets the threads of the process.

    Args:
        config: configuration of the run.
        hidden_size: hidden size of the largest encoder.
        rows: batch sizes per device, which must be divisible by the number of parts.

    Returns:
        The number of parts of a batch to compute in parallel; 1 if nothing has changed.
    """
    is_plain = config.strategy == ONE_DEVICE and not config.jit_compile
    is_small = hidden_size <= _MAX_HIDDEN_SIZE
    is_even = all(number % _TRAINING_PARTS == 0 for number in rows)
    if not (is_plain and is_small and is_even) or _num_cores() < _TRAINING_PARTS:
        return 1
    return _TRAINING_PARTS if limit_operation_threads(_TRAINING_PARTS) else 1


def limit_operation_threads(operations: int = 4) -> bool:
    """Limits each operation to a share of the cores, so that several run in parallel.

    For processes that compute parts of a batch, or answer requests, in parallel. Call this
    before TensorFlow is initialized.

    Args:
        operations: number of operations that share the cores.

    Returns:
        Whether threads are limited; False if there is a GPU, or if the environment or the
        caller has set the number of threads.
    """
    threading = tf.config.threading
    has_gpu = bool(tf.config.list_physical_devices("GPU"))
    if has_gpu or any(name in os.environ for name in (INTRAOP_THREADS, INTEROP_THREADS)):
        return False
    defaults = {0, limited_cores()}  # import_tensorflow sets the threads of a CPU limit
    if threading.get_intra_op_parallelism_threads() not in defaults | _own_limits:
        return False
    if threading.get_inter_op_parallelism_threads() not in defaults:
        return False
    limit = max(1, _num_cores() // operations)
    try:
        threading.set_intra_op_parallelism_threads(limit)
    except RuntimeError:  # TensorFlow is already initialized
        return False
    _own_limits.add(limit)
    return True


def _num_cores() -> int:
    given = os.environ.get(INTEROP_THREADS, "")
    return int(given) if given.isdecimal() and int(given) else num_cores()
