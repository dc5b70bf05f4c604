"""The `tf.distribute` strategy that a flag names."""

import tensorflow as tf


def create_strategy(name: str) -> tf.distribute.Strategy:
    """Returns the strategy: `one_device` is the first GPU, or else the CPU."""
    if name != "one_device":
        raise ValueError(f"Unknown strategy {name!r}")
    gpus = tf.config.list_logical_devices("GPU")
    return tf.distribute.OneDeviceStrategy(gpus[0].name if gpus else "/CPU:0")
