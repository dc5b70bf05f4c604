"""Custom gradients that are freed with the graphs that call them."""

import functools
import weakref
from collections.abc import Callable
from typing import Any

import tensorflow as tf
from tensorflow.python.framework import func_graph, ops

_NAME, _FUNCTION, _KEPT = "_gradient_op_type", "type", "_kept_gradients"
# Gradient functions by the name under which TensorFlow has registered them.
_functions: weakref.WeakValueDictionary = weakref.WeakValueDictionary()


def custom_gradient(function: Callable) -> Callable:
    """Like `tf.custom_gradient`, for functions of tensors, but without its memory leak.

    TensorFlow 2.21 keeps the gradient of each call in a graph registered until the process
    ends, and with it the graph and the variables that it reads: all weights of every traced
    model. Here, each graph keeps its own gradients. Those of `tf.recompute_grad` still leak.
    """
    decorated = tf.custom_gradient(function)

    @functools.wraps(function)
    def call(*tensors: Any) -> Any:
        results = decorated(*tensors)
        if not tf.executing_eagerly():
            _keep_in_graph(tf.nest.flatten(results)[0].op)
        return results

    return call


def _keep_in_graph(op: tf.Operation) -> None:
    """Moves the gradient of an operation from TensorFlow's registry into its graph."""
    name = op.get_attr(_NAME).decode()
    registered = ops.gradient_registry._registry
    function = registered[name][_FUNCTION]
    _functions[name] = function
    registered[name][_FUNCTION] = functools.partial(_call, name)
    weakref.finalize(op.graph, registered.pop, name, None).atexit = False
    graph = op.graph
    while graph is not None:
        if not hasattr(graph, _KEPT):
            setattr(graph, _KEPT, [])
        getattr(graph, _KEPT).append(function)
        # Outer graphs may copy the operation, as that of a branch of a condition.
        outer = getattr(graph, "outer_graph", None)
        graph = outer if isinstance(outer, func_graph.FuncGraph) else None


def _call(name: str, *arguments: Any) -> Any:
    return _functions[name](*arguments)
