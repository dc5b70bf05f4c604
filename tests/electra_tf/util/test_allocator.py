"""Settings of the memory allocator."""

import ctypes
import subprocess
import sys

import pytest

from electra_tf.util import allocator
from electra_tf.util.allocator import keep_freed_memory

HAS_GLIBC = hasattr(ctypes.CDLL(None), "mallopt")


@pytest.fixture(autouse=True)
def no_settings(monkeypatch):
    for name in allocator.SETTINGS:
        monkeypatch.delenv(name, raising=False)


def test_glibc_takes_the_settings():
    assert keep_freed_memory() == HAS_GLIBC


@pytest.mark.parametrize("name", allocator.SETTINGS)
def test_the_users_settings_win(name, monkeypatch):
    monkeypatch.setenv(name, "")
    assert not keep_freed_memory()


def test_other_allocators_are_left_alone(monkeypatch):
    monkeypatch.setattr(ctypes, "CDLL", lambda name: object())
    assert not keep_freed_memory()


# Prints glibc's description of its arenas after several threads have allocated at once.
_THREADS = """
import ctypes, sys, threading
from electra_tf.util.allocator import keep_freed_memory

keep_freed_memory()
libc = ctypes.CDLL(None)
libc.malloc.restype = libc.fopen.restype = ctypes.c_void_p
libc.malloc.argtypes = [ctypes.c_size_t]
started = threading.Barrier(4)


def allocate():
    started.wait()
    libc.malloc(100_000)


threads = [threading.Thread(target=allocate) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
stream = ctypes.c_void_p(libc.fopen(b"/dev/stdout", b"w"))
libc.malloc_info(0, stream)
libc.fclose(stream)
"""


@pytest.mark.skipif(not HAS_GLIBC, reason="needs glibc")
def test_threads_share_what_is_freed():
    run = subprocess.run([sys.executable, "-c", _THREADS], capture_output=True, check=True)
    assert run.stdout.count(b"<heap nr=") == 1


# Prints how many pages the system cleared for the second of two equal steps: each takes much
# memory in blocks of many sizes, and frees all of it.
_STEPS = """
import ctypes, resource
from electra_tf.util.allocator import keep_freed_memory

keep_freed_memory()
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.malloc.argtypes = [ctypes.c_size_t]
libc.free.argtypes = [ctypes.c_void_p]
libc.memset.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t]


def step():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    blocks = []
    for size in range(100_000, 2_000_000, 10_000):
        blocks.append(libc.malloc(size))
        libc.memset(blocks[-1], 1, size)
    for block in blocks:
        libc.free(block)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


print(step(), step())
"""


@pytest.mark.skipif(not HAS_GLIBC, reason="needs glibc")
def test_memory_of_a_step_is_used_by_the_next():
    run = subprocess.run(
        [sys.executable, "-c", _STEPS], capture_output=True, check=True, text=True
    )
    first, second = map(int, run.stdout.split())
    assert second < first / 10
