"""How inference uses the cores of a CPU: parts of a batch, and operations, side by side."""

import os

import tensorflow as tf

# Each part is an execution of the graph. More than two cores have not been measured.
_MAX_PARTS = 8
# Variables of TensorFlow: threads of an operation, and operations at once.
_INTRAOP_THREADS, _INTEROP_THREADS = "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS"


def runs_on_one_cpu(strategy: tf.distribute.Strategy) -> bool:
    """Whether there is one replica and no other device than CPUs."""
    devices = {device.device_type for device in tf.config.list_logical_devices()}
    return strategy.num_replicas_in_sync == 1 and devices == {"CPU"}


def cores_of(strategy: tf.distribute.Strategy) -> int:
    """Returns how many parts of a batch to compute side by side; 1 unless on one CPU.

    These are the cores of this process, unless TF_NUM_INTEROP_THREADS says otherwise; at most
    `_MAX_PARTS`.
    """
    return min(_num_cores(), _MAX_PARTS) if runs_on_one_cpu(strategy) else 1


def limit_operation_threads() -> bool:
    """Limits operations to a quarter of the cores, at least one, so that several run at once.

    For processes that compute parts of rows, or answer requests, side by side. Call it before
    TensorFlow is initialized.

    Returns:
        Whether it is done: not where there is a GPU, or the environment sets threads.
    """
    has_gpu = bool(tf.config.list_physical_devices("GPU"))
    if has_gpu or any(name in os.environ for name in (_INTRAOP_THREADS, _INTEROP_THREADS)):
        return False
    try:
        tf.config.threading.set_intra_op_parallelism_threads(max(1, _num_cores() // 4))
    except RuntimeError:  # it is initialized
        return False
    return True


def _num_cores() -> int:
    given = os.environ.get(_INTEROP_THREADS, "")
    if given.isdecimal() and int(given):
        return int(given)
    if hasattr(os, "sched_getaffinity"):  # not on macOS
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
