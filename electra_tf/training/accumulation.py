"""Gradient accumulation: sums over micro-batches, computed one after another."""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from electra_tf.util.errors import UserError


def sum_over_parts(
    function: Callable[[Any, tf.Tensor], Any],
    batch: Any,
    num_parts: int,
) -> Any:
    """Returns the sum of `function(part, index)` over equal parts of a batch.

    The parts run in a loop that carries only the sums, so memory holds the activations of one
    part at a time. Call it inside a `tf.function`.

    Args:
        function: takes a part, a nested structure of tensors [batch / num_parts, ...], and
            its int32 index; returns a nested structure of tensors, of the same shapes for
            every part.
        batch: nested structure of tensors [batch, ...].
        num_parts: number of parts; 1 calls the function without a loop.

    Raises:
        UserError: the static batch size is not divisible by `num_parts`.
    """
    if num_parts == 1:
        return function(batch, tf.constant(0))
    parts = tf.nest.map_structure(lambda x: _split(x, num_parts), batch)

    def compute(index: tf.Tensor) -> Any:
        return function(tf.nest.map_structure(lambda x: x[index], parts), index)

    # Traced before the loop, which needs the structure of the sums.
    traced = tf.function(compute, autograph=False).get_concrete_function(
        tf.TensorSpec([], tf.int32)
    )
    zeros = tf.nest.map_structure(
        lambda spec: tf.zeros(spec.shape, spec.dtype), traced.structured_outputs
    )

    def body(index: tf.Tensor, sums: Any) -> tuple[tf.Tensor, Any]:
        return index + 1, tf.nest.map_structure(tf.add, sums, traced(index))

    _, sums = tf.while_loop(
        lambda index, _: index < num_parts,
        body,
        (tf.constant(0), zeros),
        parallel_iterations=1,
    )
    return sums


def _split(x: tf.Tensor, num_parts: int) -> tf.Tensor:
    """Returns [batch, ...] as [num_parts, batch / num_parts, ...]."""
    batch = x.shape[0]
    if batch is not None and batch % num_parts:
        raise UserError(
            f"--gradient_accumulation_steps={num_parts} does not divide the {batch} examples "
            "per device (--train_batch_size divided by the number of devices)"
        )
    shape = tf.concat([[num_parts, tf.shape(x)[0] // num_parts], tf.shape(x)[1:]], axis=0)
    parts = tf.reshape(x, shape)
    rows = None if batch is None else batch // num_parts
    parts.set_shape(tf.TensorShape([num_parts, rows]).concatenate(x.shape[1:]))
    return parts
