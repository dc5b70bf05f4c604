"""The random bits of `electra_tf.model.randomness`, for Triton kernels."""

import triton
import triton.language as tl


@triton.jit
def _mix(x):
    x = (x ^ (x >> 16)) * 0x7FEB352D
    x = (x ^ (x >> 15)) * 0x846CA68B
    return x ^ (x >> 16)


@triton.jit
def keeps(first, second, rows, columns, width, THRESHOLD: tl.constexpr):
    """Returns which elements [rows, columns] of an array of this width dropout keeps."""
    counters = rows[:, None] * width + columns[None, :]
    return _mix(_mix(counters ^ first) + second) >= THRESHOLD
