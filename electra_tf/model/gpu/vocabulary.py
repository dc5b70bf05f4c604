"""Functions of vocabulary logits, as one kernel each, for tensors of `calls.has_kernels`.

XLA makes several passes over the logits: for the maximum, the sum, the most likely token and
the noise, and again for gradients.
"""

import math

import tensorflow as tf

from electra_tf.model.custom_gradients import custom_gradient
from electra_tf.model.gpu import tiles
from electra_tf.model.gpu.calls import Launch, call_kernel

MODULE = "triton_vocabulary"


def cross_entropy(logits: tf.Tensor, targets: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns -log softmax(logits)[target], float32, and the most likely tokens, int32.

    Args:
        logits: [..., vocab].
        targets: int32, of the other axes.
    """
    rows, width = _rows_and_width(logits)
    vectors = tf.TensorSpec([rows], tf.float32)
    forward, backward = tiles.CROSS_ENTROPY_FORWARD, tiles.CROSS_ENTROPY_BACKWARD

    @custom_gradient
    def call(logits: tf.Tensor, targets: tf.Tensor):
        losses, predictions, lse = call_kernel(
            MODULE,
            "cross_entropy_forward",
            {"logits": logits, "targets": targets},
            {
                "losses": vectors,
                "predictions": tf.TensorSpec([rows], tf.int32),
                "lse": vectors,
            },
            {"WIDTH": width, "COLUMNS": forward.columns},
            Launch((rows, 1, 1), forward.num_warps),
        )

        def gradient(d_losses: tf.Tensor, _: tf.Tensor):
            (d_logits,) = call_kernel(
                MODULE,
                "cross_entropy_backward",
                {"logits": logits, "targets": targets, "lse": lse, "d_losses": d_losses},
                {"d_logits": tf.TensorSpec(logits.shape, logits.dtype)},
                {"WIDTH": width, "COLUMNS": backward.columns},
                Launch(
                    (rows * tiles.divide(width, backward.columns), 1, 1), backward.num_warps
                ),
            )
            return d_logits, None

        return (losses, predictions), gradient

    flat = tf.reshape(logits, [rows, width]), tf.reshape(targets, [rows])
    return tuple(tf.reshape(x, logits.shape[:-1]) for x in call(*flat))


def sample(
    logits: tf.Tensor,
    disallow: tf.Tensor,
    key: tf.Tensor,
    first_row: tf.Tensor,
    temperature: tf.Tensor | float,
    *,
    disallowed_logit: float,
) -> tf.Tensor:
    """Samples from softmax(logits / temperature), int32 of all axes but the last.

    Args:
        logits: [..., vocab].
        disallow: int32 of the other axes, tokens that are never sampled.
        key: uint32 [2], key of the noise.
        first_row: integer scalar, rows of logits on other replicas before the first.
        temperature: a number or a float32 scalar.
        disallowed_logit: subtracted from the logits of `disallow`.
    """
    rows, width = _rows_and_width(logits)
    (tokens,) = call_kernel(
        MODULE,
        "sample_tokens",
        {
            "logits": logits,
            "disallow": disallow,
            "key": key,
            "first_row": tf.reshape(tf.cast(first_row, tf.uint32), [1]),
            "temperature": tf.reshape(tf.cast(temperature, tf.float32), [1]),
        },
        {"tokens": tf.TensorSpec([rows], tf.int32)},
        {
            "WIDTH": width,
            "DISALLOWED": disallowed_logit,
            "COLUMNS": tiles.SAMPLE.columns,
        },
        Launch((rows, 1, 1), tiles.SAMPLE.num_warps),
    )
    return tf.reshape(tokens, logits.shape[:-1])


def _rows_and_width(logits: tf.Tensor) -> tuple[int, int]:
    return math.prod(logits.shape[:-1]), logits.shape[-1]
