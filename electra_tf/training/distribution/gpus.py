"""The GPUs of a run."""

import tensorflow as tf

from electra_tf.model.gpu.xla_flags import prefer_cublas
from electra_tf.util.errors import UserError
from electra_tf.util.extras import import_extra

# Ampere, the first architecture with bfloat16.
_OLDEST_CAPABILITY = 80


def prepare_kernels() -> int:
    """Sets XLA's flags for steps with Triton's kernels, before XLA compiles anything.

    Returns:
        The compute capability that Triton compiles for, times 10: 90 is an H100's.

    Raises:
        UserError: there is no GPU, they differ or are too old, or Triton is not installed.
    """
    import_extra("triton", "gpu", "--triton_kernels")
    gpus = tf.config.list_physical_devices("GPU")
    if not gpus:
        raise UserError("--triton_kernels needs an NVIDIA GPU, and TensorFlow finds none")
    details = [tf.config.experimental.get_device_details(gpu) for gpu in gpus]
    capabilities = {
        each.get("device_name", "GPU"): each.get("compute_capability", (0, 0))
        for each in details
    }
    names = ", ".join(f"{name} ({a}.{b})" for name, (a, b) in capabilities.items())
    if len(set(capabilities.values())) > 1:
        raise UserError(
            f"--triton_kernels needs GPUs of one compute capability, not {names}: choose some "
            "by CUDA_VISIBLE_DEVICES"
        )
    ((major, minor),) = set(capabilities.values())
    capability = 10 * major + minor
    if capability < _OLDEST_CAPABILITY:
        raise UserError(f"--triton_kernels needs compute capability 8.0 or newer, not {names}")
    prefer_cublas()
    return capability
