"""Sums over parts of a batch: micro-batches, and parts that share the cores of a CPU."""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from electra_tf.util.errors import UserError


def sum_over_parts(
    function: Callable[[Any, tf.Tensor], Any],
    batch: Any,
    num_micro_batches: int,
    side_by_side: int = 1,
) -> Any:
    """Returns the sum of `function(part, index)` over equal parts of a batch.

    Micro-batches run in a loop that carries only the sums, so memory holds the activations of
    one of them at a time. Call it inside a `tf.function`.

    Args:
        function: takes a part, a nested structure of tensors [rows, ...], and its int32 index;
            returns a nested structure of tensors, of the same shapes for every part.
        batch: nested structure of tensors [batch, ...].
        num_micro_batches: number of micro-batches, computed one after another.
        side_by_side: number of parts of each micro-batch that may be computed in parallel; must
            divide its rows. With 1 and a single micro-batch, the function gets the whole batch.

    Raises:
        UserError: the static batch size is not divisible by `num_micro_batches`.
    """
    if num_micro_batches * side_by_side == 1:
        return function(batch, tf.constant(0))
    parts = tf.nest.map_structure(lambda x: _split(x, num_micro_batches, side_by_side), batch)

    # Traced once, and before the loop, which needs the structure of the sums.
    traced = tf.function(
        lambda index: function(tf.nest.map_structure(lambda x: x[index], parts), index),
        autograph=False,
    ).get_concrete_function(tf.TensorSpec([], tf.int32))

    def micro_batch(number: tf.Tensor) -> Any:
        first = number * side_by_side
        sums = traced(first)
        for i in range(1, side_by_side):
            sums = tf.nest.map_structure(tf.add, sums, traced(first + i))
        return sums

    if num_micro_batches == 1:
        return micro_batch(tf.constant(0))
    zeros = tf.nest.map_structure(
        lambda spec: tf.zeros(spec.shape, spec.dtype), traced.structured_outputs
    )

    def body(number: tf.Tensor, sums: Any) -> tuple[tf.Tensor, Any]:
        return number + 1, tf.nest.map_structure(tf.add, sums, micro_batch(number))

    _, sums = tf.while_loop(
        lambda number, _: number < num_micro_batches,
        body,
        (tf.constant(0), zeros),
        parallel_iterations=1,
    )
    return sums


def _split(x: tf.Tensor, num_micro_batches: int, side_by_side: int) -> tf.Tensor:
    """Returns [batch, ...] as [all parts, rows, ...]."""
    batch = x.shape[0]
    if batch is not None and batch % num_micro_batches:
        raise UserError(
            f"--gradient_accumulation_steps={num_micro_batches} does not divide the {batch} "
            "examples per device (--train_batch_size divided by the number of devices)"
        )
    num_parts = num_micro_batches * side_by_side
    shape = tf.concat([[num_parts, tf.shape(x)[0] // num_parts], tf.shape(x)[1:]], axis=0)
    parts = tf.reshape(x, shape)
    rows = None if batch is None else batch // num_parts
    parts.set_shape(tf.TensorShape([num_parts, rows]).concatenate(x.shape[1:]))
    return parts
