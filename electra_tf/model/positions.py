"""Reads and writes a sequence at given positions, such as the masked ones.

Position embeddings are in `electra_tf.model.embeddings`.
"""

import tensorflow as tf


def require_positions(values: tf.Tensor, like: tf.Tensor, what: str) -> None:
    """Raises ValueError for values that would be broadcast over rows or positions.

    Args:
        values: tensor that should have a value for every position.
        like: [batch, seq], a tensor of the expected shape.
        what: what computes the values, for the error.
    """
    given, wanted = (tf.TensorShape(each.shape) for each in (values, like))
    if not given.is_compatible_with(wanted):
        raise ValueError(
            f"{what} must be [batch, seq], here {wanted.as_list()}, not {given.as_list()}"
        )


def gather_positions(sequence: tf.Tensor, positions: tf.Tensor) -> tf.Tensor:
    """Returns `sequence` [batch, seq, ...] at `positions` [batch, n]: [batch, n, ...]."""
    return tf.gather(sequence, positions, batch_dims=1)


def scatter_update(
    sequence: tf.Tensor, updates: tf.Tensor, positions: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Writes `updates` into a sequence; position 0 is never written.

    As in the authors' code, a position that occurs several times gets the mean of its
    updates, rounded down for integers.

    Args:
        sequence: [batch, seq] or [batch, seq, depth].
        updates: [batch, n] or [batch, n, depth], of the same dtype.
        positions: int32 [batch, n].

    Returns:
        The updated sequence, and int32 [batch, seq], 1 at updated positions.
    """
    length = tf.shape(sequence)[1]
    one_hot = tf.one_hot(positions, length, dtype=sequence.dtype)  # (batch, n, seq)
    one_hot *= tf.cast(positions > 0, sequence.dtype)[..., None]
    counts = tf.reduce_sum(one_hot, axis=1)  # (batch, seq)
    if sequence.shape.rank == 2:
        sums = tf.reduce_sum(one_hot * updates[..., None], axis=1)
        divisors, written = tf.maximum(counts, 1), counts > 0
    else:
        sums = tf.einsum("bns,bnd->bsd", one_hot, updates)
        divisors, written = tf.maximum(counts, 1)[..., None], (counts > 0)[..., None]
    means = sums // divisors if sequence.dtype.is_integer else sums / divisors
    return tf.where(written, means, sequence), tf.cast(counts > 0, tf.int32)
