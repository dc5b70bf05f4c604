"""Datasets without tf.data's autotuning, whose thread blocks the release of an iterator.

The destructor of an iterator waits for that thread. TensorFlow 2.21 wakes the thread before it
marks it as cancelled, so the thread may go on sleeping: for about as long as the iterator has
lived, up to a minute (`Model::OptimizeLoop`, `CancellationManager::StartCancel`). There is
nothing to tune in the datasets here: they set their parallelism, or take one call per core.
"""

import contextlib
from collections.abc import Iterator
from typing import Any

import tensorflow as tf
from tensorflow.python.data.ops import multi_device_iterator_ops


def untuned(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """Returns the dataset without autotuning."""
    options = tf.data.Options()
    options.autotune.enabled = False
    return dataset.with_options(options)


@contextlib.contextmanager
def untuned_devices() -> Iterator[None]:
    """Creates distributed iterators whose own dataset for each device is untuned, too."""
    create = multi_device_iterator_ops._create_device_dataset

    def create_untuned(*arguments: Any) -> tf.data.Dataset:
        return untuned(create(*arguments))

    multi_device_iterator_ops._create_device_dataset = create_untuned
    try:
        yield
    finally:
        multi_device_iterator_ops._create_device_dataset = create
