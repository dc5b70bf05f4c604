"""Masking of units, such as words, as a whole or not at all."""

import tensorflow as tf

from electra_tf.masking.base import MaskingOrder


def choose_whole_units(
    order: MaskingOrder, candidates: tf.Tensor, wanted: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Chooses units to mask, in order, skipping those that no longer fit.

    This is the rule of BERT's data generation. If no unit fits, the first is masked in part.

    Args:
        order: masking order, with units.
        candidates: bool [batch, seq].
        wanted: int32 [batch], maximum number of positions to mask.

    Returns:
        bool [batch, seq], the positions that may be masked, and int32 [batch], how many are.
    """
    batch, length = tf.shape(candidates)[0], candidates.shape[1] or tf.shape(candidates)[1]
    priority = tf.where(candidates, order.priority, order.priority.dtype.min)
    # The positions of a unit remain adjacent, left to right.
    in_order = tf.math.top_k(priority, length).indices
    unit = tf.range(batch)[:, None] * length + order.units  # unique in the batch
    sizes = tf.math.unsorted_segment_sum(tf.cast(candidates, tf.int32), unit, batch * length)
    last = tf.math.unsorted_segment_max(
        tf.where(candidates, tf.range(length)[None, :], -1), unit, batch * length
    )
    unit = tf.gather(unit, in_order, batch_dims=1)
    sizes, following = tf.gather(sizes, unit), tf.gather(last, unit) - in_order

    def fits(left: tf.Tensor) -> tf.Tensor:
        """Returns which positions of the remaining units belong to one that fits."""
        end = tf.cumsum(tf.cast(left, tf.int32), axis=-1) + following
        return left & (end <= wanted[:, None])

    def without_larger(left: tf.Tensor) -> tf.Tensor:
        """Removes the units that do not fit after the fitting ones."""
        fitting = fits(left)
        room = wanted - tf.reduce_sum(tf.cast(fitting, tf.int32), axis=-1)
        return fitting | (left & (sizes <= room[:, None]))

    # Each pass removes at least the first unit that does not fit, and all later ones of its
    # size or more.
    (left,) = tf.while_loop(
        lambda left: tf.reduce_any(left & ~fits(left)),
        lambda left: (without_larger(left),),
        (tf.gather(candidates, in_order, batch_dims=1),),
    )
    count = tf.reduce_sum(tf.cast(left, tf.int32), axis=-1)
    left |= (count == 0)[:, None] & (unit == unit[:, :1])
    chosen = tf.math.unsorted_segment_max(
        tf.cast(left, tf.int32),
        tf.range(batch)[:, None] * length + in_order,
        batch * length,
    )
    chosen = tf.reshape(chosen > 0, tf.shape(candidates)) & candidates
    return chosen, tf.where(count > 0, count, wanted)
