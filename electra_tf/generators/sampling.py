"""Samples from the generator's softmax (Gumbel-max trick), or takes the most likely tokens."""

import tensorflow as tf

from electra_tf.model import randomness
from electra_tf.model.gpu import vocabulary as gpu_vocabulary
from electra_tf.model.gpu.calls import has_kernels
from electra_tf.model.kernels import fused

# Subtracted from the logit of a token that must not be sampled.
DISALLOWED_LOGIT = 1e9
# Bounds in the authors' Gumbel transform.
GUMBEL_EPSILON = 1e-9


def sample_from_softmax(
    logits: tf.Tensor,
    key: tf.Tensor | None = None,
    *,
    temperature: tf.Tensor | float = 1.0,
    disallow: tf.Tensor | None = None,
    uniform_noise: tf.Tensor | None = None,
    first_example: tf.Tensor | int = 0,
) -> tf.Tensor:
    """Samples one token per position from softmax(logits / temperature).

    Args:
        logits: [batch, n, vocab].
        key: uint32 [2], key of the random stream.
        temperature: softmax temperature, a number or a float32 scalar; above 1 flattens the
            distribution.
        disallow: int32 [batch, n], one token per position that must not be sampled.
        uniform_noise: float32 of the shape of `logits`, used instead of `key` with the
            authors' Gumbel transform, to compare with their code.
        first_example: index of row 0 within the global batch.

    Returns:
        int32 [batch, n].
    """
    if disallow is None:
        disallow = tf.fill(tf.shape(logits)[:2], -1)
    if uniform_noise is not None:
        scores = sampling_logits(logits, temperature, disallow)
        exponential = -tf.math.log(uniform_noise + GUMBEL_EPSILON)
        scores -= tf.math.log(exponential + GUMBEL_EPSILON)
    else:
        first = tf.cast(tf.convert_to_tensor(first_example), tf.int32)
        logits = tf.stop_gradient(logits)
        if has_kernels(logits):
            return gpu_vocabulary.sample(
                logits,
                disallow,
                key,
                first * logits.shape[1],
                temperature,
                disallowed_logit=DISALLOWED_LOGIT,
            )
        if tf.is_tensor(temperature):  # the kernel takes only a constant
            logits, temperature = sampling_logits(logits, temperature), 1.0
        scores = _gumbel_scores(logits, disallow, key, first, temperature=temperature)
    return tf.argmax(scores, axis=-1, output_type=tf.int32)


def most_likely_tokens(logits: tf.Tensor, disallow: tf.Tensor | None = None) -> tf.Tensor:
    """Returns the most likely token of each position, int32 [batch, n].

    Args:
        logits: [batch, n, vocab].
        disallow: int32 [batch, n], one excluded token per position.
    """
    scores = sampling_logits(tf.stop_gradient(logits), 1.0, disallow)
    return tf.argmax(scores, axis=-1, output_type=tf.int32)


def sampling_logits(
    logits: tf.Tensor, temperature: tf.Tensor | float, disallow: tf.Tensor | None = None
) -> tf.Tensor:
    """Returns the logits of the distribution that `sample_from_softmax` samples from.

    Args:
        logits: [batch, n, vocab].
        temperature: softmax temperature; above 1 flattens the distribution.
        disallow: int32 [batch, n], one token per position that is never sampled; an id
            outside the vocabulary allows all.

    Returns:
        float32 [batch, n, vocab].
    """
    scores = tf.cast(logits, tf.float32) / temperature
    if disallow is None:
        return scores
    forbidden = tf.one_hot(disallow, logits.shape[-1], dtype=tf.float32)
    return scores - DISALLOWED_LOGIT * forbidden


@fused("temperature")
def _gumbel_scores(
    logits: tf.Tensor,
    disallow: tf.Tensor,
    key: tf.Tensor,
    first_example: tf.Tensor,
    *,
    temperature: float,
) -> tf.Tensor:
    counter = randomness.counters(tf.shape(logits), first_example)
    return sampling_logits(logits, temperature, disallow) + randomness.gumbel(key, counter)
