"""Hyperparameters that change linearly over the training steps."""

import tensorflow as tf

from electra_tf.config.pretraining import PretrainingConfig
from electra_tf.model.randomness import Randomness


def mask_prob_of(config: PretrainingConfig, randomness: Randomness) -> tf.Tensor | float:
    """Returns the masking rate of a step; without dropout (evaluation), `mask_prob`."""
    return _linear(config.mask_prob, config.mask_prob_end, config, randomness)


def temperature_of(config: PretrainingConfig, randomness: Randomness) -> tf.Tensor | float:
    """Returns the sampling temperature; without dropout (evaluation), `temperature`."""
    return _linear(config.temperature, config.temperature_end, config, randomness)


def _linear(
    start: float, end: float | None, config: PretrainingConfig, randomness: Randomness
) -> tf.Tensor | float:
    """Returns the value of a step, a number if it is the same at all steps."""
    if end is None or not randomness.dropout:
        return start
    done = tf.cast(randomness.step, tf.float32) / config.num_train_steps
    return start + (end - start) * tf.minimum(done, 1.0)
