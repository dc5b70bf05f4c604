"""Clipping of gradients to a global norm."""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from electra_tf.model.kernels import is_compiled_as_a_whole


def clip_by_global_norm(
    gradients: Sequence[tf.Tensor],
    clip_norm: float | tf.Tensor,
    squares: tf.Tensor | None = None,
) -> tuple[list[tf.Tensor], tf.Tensor]:
    """Clips dense gradients to a global norm of `clip_norm`.

    Args:
        gradients: the gradients.
        clip_norm: largest global norm.
        squares: result of `squared_norms`, if already computed.

    Returns:
        The gradients, and the float32 norm before clipping. If it is not finite, the
        gradients are useless; the training loop detects that.
    """
    norm = tf.sqrt(tf.reduce_sum(squared_norms(gradients) if squares is None else squares))
    scale = clip_norm / tf.maximum(norm, clip_norm)
    return [gradient * scale for gradient in gradients], norm


def squared_norms(gradients: Sequence[tf.Tensor]) -> tf.Tensor:
    """Returns [n], the squared norms of n dense gradients."""
    if is_compiled_as_a_whole():
        return _squared_norms_by_shape(gradients)
    return 2.0 * tf.stack([tf.nn.l2_loss(gradient) for gradient in gradients])


def _squared_norms_by_shape(gradients: Sequence[tf.Tensor]) -> tf.Tensor:
    """Same as `squared_norms`, with one reduction for all vectors of the same size."""
    groups = _stackable(gradients)
    norms = [
        tf.reduce_sum(tf.square(tf.stack([gradients[i] for i in group])), axis=1)
        if len(group) > 1
        else tf.reshape(tf.reduce_sum(tf.square(gradients[group[0]])), [1])
        for group in groups
    ]
    order = np.argsort([i for group in groups for i in group])
    return tf.gather(tf.concat(norms, axis=0), order)


def _stackable(tensors: Sequence[tf.Tensor]) -> list[list[int]]:
    """Returns groups of tensor indices: vectors of the same size, and single other tensors.

    A model has hundreds of vectors. On a GPU, a kernel takes longer to start than to compute
    one of them.
    """
    groups: dict[int, list[int]] = {}
    for index, tensor in enumerate(tensors):
        # A tensor that is not a vector gets a key of its own.
        key = tensor.shape[0] if tensor.shape.rank == 1 else -1 - index
        groups.setdefault(key, []).append(index)
    return list(groups.values())
