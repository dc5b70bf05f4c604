"""Settings of glibc's memory allocator for programs that allocate the same tensors every step.

TensorFlow takes the tensors of a step from malloc, and frees them at its end. By default, glibc
returns most of that memory to the system, which has to clear every page of it for the next
step: more than a third of the processor's time of a small model. With these settings, a process
keeps the memory that it has once needed. All threads share one arena: by default, they have
arenas of their own, and memory that one thread has freed is lost to the others, a sixth of the
peak of ELECTRA-base. For both, see benchmarks/RESULTS.md.
"""

import ctypes
import os

# mallopt(3): parameters, and values in bytes. Allocations above `_MAX_IN_ARENA` that do not fit
# into free memory get pages of their own; others come from the one arena of all threads. It
# grows by at least `_GROWTH`, and never shrinks.
_MMAP_THRESHOLD, _MAX_IN_ARENA = -3, 32 << 20
_TOP_PAD, _GROWTH = -2, 64 << 20
_TRIM_THRESHOLD, _NEVER = -1, (1 << 31) - 1
_ARENA_MAX, _ARENAS = -8, 1
# Settings in the environment take precedence.
SETTINGS = (
    "GLIBC_TUNABLES",
    "MALLOC_ARENA_MAX",
    "MALLOC_MMAP_THRESHOLD_",
    "MALLOC_TOP_PAD_",
    "MALLOC_TRIM_THRESHOLD_",
)


def keep_freed_memory() -> bool:
    """Makes malloc keep freed memory for the next step; call it before threads allocate.

    It may be called again, after something else has changed malloc's settings.

    Returns:
        Whether it was done: not if the environment has settings of malloc, nor without glibc.
    """
    if any(name in os.environ for name in SETTINGS):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    settings = {
        _MMAP_THRESHOLD: _MAX_IN_ARENA,
        _TOP_PAD: _GROWTH,
        _TRIM_THRESHOLD: _NEVER,
        _ARENA_MAX: _ARENAS,
    }
    done = [mallopt(parameter, value) for parameter, value in settings.items()]
    return all(done)
