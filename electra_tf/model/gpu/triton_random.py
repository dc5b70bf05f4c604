"""The random numbers of `electra_tf.model.randomness`, for Triton kernels."""

import triton
import triton.language as tl

GOLDEN = tl.constexpr(0x9E3779B9)


@triton.jit
def keeps(first, second, rows, columns, width, THRESHOLD: tl.constexpr):
    """Returns which elements of an array of this width dropout keeps.

    Args:
        first, second: uint32, the key.
        rows, columns: uint32 indices of the elements; their shapes are broadcast.
        width: elements of a row.
        THRESHOLD: dropout rate times 2**32.
    """
    # Terms of rows and of columns are computed once for all elements that share them.
    bits = (rows * width * GOLDEN + first) + columns * GOLDEN
    bits = (bits ^ (bits >> 16)) * 0x7FEB352D
    bits = (bits ^ (bits >> 15) ^ second) * 0x846CA68B
    return bits >= THRESHOLD


@triton.jit
def _mix(x):
    x = (x ^ (x >> 16)) * 0x7FEB352D
    x = (x ^ (x >> 15)) * 0x846CA68B
    return x ^ (x >> 16)


@triton.jit
def uniform(first, second, counter):
    """Returns `randomness.uniform` of the key and uint32 counters."""
    bits = _mix(_mix(counter ^ first) + second) >> 9
    return (bits.to(tl.float32) + 0.5) * 1.1920928955078125e-07
