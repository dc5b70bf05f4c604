"""Settings of glibc's memory allocator for programs that allocate the same tensors every step.

TensorFlow takes the tensors of a step from malloc, and frees them at its end. By default, glibc
returns most of that memory to the system, which has to clear every page of it for the next
step: more than a third of the processor's time of a small model (benchmarks/RESULTS.md).
"""

import ctypes
import os

# mallopt(3): parameters, and values in bytes. Larger allocations have pages of their own; of
# others, this much stays with each arena. An arena's heaps have 64 MiB.
_MMAP_THRESHOLD, _LARGEST = -3, 32 << 20
_TOP_PAD, _KEPT = -2, 64 << 20
# Settings in the environment take precedence.
_SETTINGS = ("GLIBC_TUNABLES", "MALLOC_TOP_PAD_", "MALLOC_MMAP_THRESHOLD_")


def keep_freed_memory() -> bool:
    """Lets malloc keep what is freed for the next step; call it before threads allocate.

    Returns:
        Whether it is done: not where the environment has settings of malloc, nor without glibc.
    """
    if any(name in os.environ for name in _SETTINGS):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    done = [mallopt(_MMAP_THRESHOLD, _LARGEST), mallopt(_TOP_PAD, _KEPT)]
    return all(done)
