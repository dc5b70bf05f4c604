"""Gradient norms and update-to-weight ratios by group of layers."""

from collections.abc import Sequence

import keras
import numpy as np
import tensorflow as tf

from electra_tf.training.learning_rate import last_learning_rate
from electra_tf.training.optimizer import inner_optimizer
from electra_tf.training.variable_groups import group_of


def group_norms(squares: tf.Tensor, groups: Sequence[str]) -> tf.Tensor:
    """Returns float32 [n], the norm of each of the n distinct groups, in order of appearance.

    Args:
        squares: [variables], squared norm of each variable.
        groups: group of each variable.
    """
    names = list(dict.fromkeys(groups))
    numbers = tf.constant([names.index(group) for group in groups])
    return tf.sqrt(tf.math.unsorted_segment_sum(squares, numbers, len(names)))


class UpdateRatios:
    """Norms of the last update over norms of the weights, by group.

    They are computed from the moments of the optimizer, so that training steps do not need
    another pass over the weights.
    """

    def __init__(self, optimizer: keras.optimizers.Optimizer) -> None:
        self._optimizer = optimizer

    def read(self, groups: Sequence[str]) -> dict[str, float]:
        """Returns the ratio of each of the groups."""
        # Eagerly: a graph of about 12 operations a variable takes longer to trace than to run.
        rate = tf.constant(last_learning_rate(self._optimizer), tf.float32)
        optimizer = inner_optimizer(self._optimizer)
        groups_of_all = [group_of(variable.path) for variable in optimizer._trainable_variables]
        squares = [optimizer.last_update(i, rate) for i in range(len(groups_of_all))]
        updates, weights = (
            group_norms(tf.stack(each), groups_of_all).numpy()
            for each in zip(*squares, strict=True)
        )
        with np.errstate(divide="ignore", invalid="ignore"):
            ratios = dict(zip(dict.fromkeys(groups_of_all), updates / weights, strict=True))
        return {group: float(ratios[group]) for group in groups}
