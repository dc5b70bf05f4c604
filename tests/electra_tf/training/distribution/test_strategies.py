"""Distributed iterators: memory after the first one of a process, and the end of each."""

import ctypes
import os
import subprocess
import sys

import pytest
import tensorflow as tf

from electra_tf.training.distribution import strategies
from electra_tf.training.distribution.strategies import distribute_batches, iterate
from electra_tf.util import allocator
from tests.processes import ROOT

# Prints how many allocations of 1 MiB get pages of their own, which free returns at once.
_MAPPED = """
import ctypes
from electra_tf.util.tensorflow_import import import_tensorflow
import_tensorflow()
import tensorflow as tf
from electra_tf.training.distribution.strategies import distribute_batches, iterate

class Info(ctypes.Structure):
    _fields_ = [(str(i), ctypes.c_size_t) for i in range(3)] + [("mapped", ctypes.c_size_t)]
    _fields_ += [(str(i), ctypes.c_size_t) for i in range(6)]

libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.mallinfo2.restype = Info
strategy = tf.distribute.OneDeviceStrategy("/cpu:0")
print(next(iterate(distribute_batches(strategy, lambda _: tf.data.Dataset.range(1)))).numpy())
before = libc.mallinfo2().mapped
for _ in range(200):
    libc.malloc(1 << 20)
print(libc.mallinfo2().mapped - before)
"""


@pytest.mark.parametrize("num_devices", [1, 2])
def test_no_iterator_has_a_thread_that_its_end_waits_for(num_devices, monkeypatch):
    tuned = []
    original = tf.data.Dataset._apply_debug_options  # called for each iterator's dataset

    def note(dataset):
        tuned.append(dataset.options().autotune.enabled)
        return original(dataset)

    monkeypatch.setattr(tf.data.Dataset, "_apply_debug_options", note)
    strategy = tf.distribute.OneDeviceStrategy("/cpu:0")
    if num_devices == 2:
        strategy = strategies._mirrored(("/cpu:0", "/cpu:1"))
    next(iterate(distribute_batches(strategy, lambda _: tf.data.Dataset.range(9))))
    # One for the records, and one for each device.
    assert tuned == [False] * (1 + num_devices)


@pytest.mark.skipif(
    not hasattr(ctypes.CDLL(None), "mallinfo2"), reason="needs glibc of 2021 or later"
)
def test_freed_memory_is_kept_after_the_first_iterator():
    without_settings = {k: v for k, v in os.environ.items() if k not in allocator.SETTINGS}
    run = subprocess.run(
        [sys.executable, "-c", _MAPPED],
        env=without_settings,
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=True,
    )
    assert run.stdout.split() == ["0", "0"]
