"""The dropout of `electra_tf.model.randomness`, for Triton kernels."""

import triton
import triton.language as tl

GOLDEN = tl.constexpr(0x9E3779B9)


@triton.jit
def keeps(first, second, rows, columns, width, THRESHOLD: tl.constexpr):
    """Returns which elements of an array of this width dropout keeps.

    Args:
        first, second: uint32, the key.
        rows, columns: uint32 of the elements, of shapes that broadcast to theirs.
        width: elements of a row.
        THRESHOLD: dropout rate times 2**32.
    """
    # Terms of rows and of columns are computed once for all elements that share them.
    bits = (rows * width * GOLDEN + first) + columns * GOLDEN
    bits = (bits ^ (bits >> 16)) * 0x7FEB352D
    bits = (bits ^ (bits >> 15) ^ second) * 0x846CA68B
    return bits >= THRESHOLD
