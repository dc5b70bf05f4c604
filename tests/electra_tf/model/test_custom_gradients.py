"""Custom gradients of graphs, and that they do not keep the graphs."""

import gc
import weakref

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.framework import ops

from electra_tf.model.custom_gradients import custom_gradient


@custom_gradient
def cubed(x: tf.Tensor):
    """Returns x^3, and five times its gradient."""
    return x**3, lambda dy: 15 * x**2 * dy


def in_branch(x: tf.Tensor) -> tf.Tensor:
    return tf.cond(tf.reduce_sum(x) > 0, lambda: cubed(x), lambda: x)


def in_loop(x: tf.Tensor) -> tf.Tensor:
    return tf.while_loop(lambda i, _: i < 1, lambda i, y: (i + 1, cubed(y)), (0, x))[1]


@pytest.mark.parametrize("function", [cubed, in_loop, tf.function(cubed)])
@pytest.mark.parametrize("trace", [lambda f: f, tf.function])
def test_gradients_are_those_of_the_function(function, trace):
    x = tf.constant([1.0, 2.0])
    function = trace(function)
    for _ in range(2):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = function(x)
        np.testing.assert_allclose(tape.gradient(y, x), [15, 60])
        gc.collect()


@pytest.mark.parametrize("trace", [lambda f: f, tf.function])
def test_gradients_of_gradients(trace):
    x, function = tf.constant([1.0, 2.0]), trace(cubed)
    with tf.GradientTape() as second, tf.GradientTape() as first:
        second.watch(x)
        first.watch(x)
        y = function(x)
        gradient = first.gradient(y, x)
    np.testing.assert_allclose(second.gradient(gradient, x), [30, 60])


def test_graphs_and_what_they_read_are_freed():
    variable = tf.Variable([1.0, 2.0])

    @tf.function(autograph=False)
    def step() -> tf.Tensor:
        with tf.GradientTape() as tape:
            y = in_branch(cubed(variable.value()))
        return tape.gradient(y, variable)

    before = set(ops.gradient_registry.list())
    step()
    graph = weakref.ref(step.get_concrete_function().graph)
    assert graph() is not None
    del step
    gc.collect()
    assert graph() is None
    assert set(ops.gradient_registry.list()) <= before
