"""Counter-based random numbers: a pure function of (seed, step, purpose, counter).

Masking, sampling and dropout draw from these streams, so a resumed run equals an
uninterrupted one, and the draws for an example do not depend on the number of replicas. The
generator is a hash of a few integer operations per element, which XLA fuses into the kernel
that consumes the bits (see `electra_tf.model.kernels`), so noise is never stored in memory.
"""

import dataclasses
import zlib

import tensorflow as tf

# Multipliers of the lowbias32 finalizer, and 2**32 / golden ratio (Knuth's multiplicative
# hash).
_MULTIPLIER_1 = 0x7FEB352D
_MULTIPLIER_2 = 0x846CA68B
_GOLDEN = 0x9E3779B9


def _uint32(value: int) -> tf.Tensor:
    return tf.constant(value, tf.uint32)


def _mix(x: tf.Tensor) -> tf.Tensor:
    """Permutes uint32 such that every input bit flips half of the output bits."""
    shift, xor = tf.bitwise.right_shift, tf.bitwise.bitwise_xor
    x = xor(x, shift(x, _uint32(16))) * _uint32(_MULTIPLIER_1)
    x = xor(x, shift(x, _uint32(15))) * _uint32(_MULTIPLIER_2)
    return xor(x, shift(x, _uint32(16)))


def make_key(seed: tf.Tensor | int, step: tf.Tensor | int, purpose: str) -> tf.Tensor:
    """Returns the key of one random stream.

    Args:
        seed: random seed of the run.
        step: global step, of any integer dtype.
        purpose: name of the stream, such as "dropout".

    Returns:
        uint32 [2].
    """
    key = tf.stack([_uint32(zlib.crc32(purpose.encode())), _mix(_to_uint32(seed))])
    return fold_in(key, step)


def fold_in(key: tf.Tensor, number: tf.Tensor | int) -> tf.Tensor:
    """Derives a key, uint32 [2], for an integer scalar `number`."""
    number = _to_uint32(number) * _uint32(_GOLDEN) + _uint32(1)
    first = _mix(tf.bitwise.bitwise_xor(key[0], number))
    return tf.stack([first, _mix(key[1] + first)])


def split(key: tf.Tensor, count: int) -> tf.Tensor:
    """Derives `count` keys, uint32 [count, 2], from one."""
    numbers = counters([count]) * _uint32(_GOLDEN) + _uint32(1)
    first = _mix(tf.bitwise.bitwise_xor(key[0], numbers))
    return tf.stack([first, _mix(key[1] + first)], axis=1)


def random_bits(key: tf.Tensor, counter: tf.Tensor) -> tf.Tensor:
    """Returns 32 random bits for each element of `counter`, uint32 of the same shape."""
    return _mix(_mix(tf.bitwise.bitwise_xor(counter, key[0])) + key[1])


def counters(shape: tf.Tensor | list[int], first_row: tf.Tensor | int = 0) -> tf.Tensor:
    """Returns consecutive uint32 numbers of a shape, in row-major order, modulo 2**32.

    Args:
        shape: int32 vector.
        first_row: number of preceding rows (axis 0), on other replicas.
    """
    sizes = tf.unstack(tf.convert_to_tensor(shape, tf.int32))
    rank = len(sizes)
    numbers = _to_uint32(first_row)
    # One axis after the other: TensorFlow would fold a range over all of them into a constant
    # of up to 10 MiB, and kernels would read it from memory.
    for axis, size in enumerate(sizes):
        along = tf.reshape(tf.range(size), [-1 if i == axis else 1 for i in range(rank)])
        numbers = numbers * _to_uint32(size if axis else 1) + tf.bitcast(along, tf.uint32)
    return numbers


def uniform(key: tf.Tensor, counter: tf.Tensor) -> tf.Tensor:
    """Returns uniform noise in (0, 1), float32 of the shape of `counter`.

    The values are midpoints of 2**23 equal intervals, so the Gumbel transform is finite.
    """
    bits = tf.bitwise.right_shift(random_bits(key, counter), _uint32(9))
    bits = tf.cast(tf.bitcast(bits, tf.int32), tf.float32)
    return (bits + 0.5) * 2.0**-23


def gumbel(key: tf.Tensor, counter: tf.Tensor) -> tf.Tensor:
    """Returns standard Gumbel noise, float32 of the shape of `counter`."""
    return -tf.math.log(-tf.math.log(uniform(key, counter)))


def dropout(x: tf.Tensor, rate: float, key: tf.Tensor) -> tf.Tensor:
    """Zeroes each element of `x` with probability `rate` and scales the rest.

    Call it inside a fused function; the backward pass recomputes the same bits.
    """
    if not rate:
        return x
    return tf.where(
        keeps(x, rate, key), x * tf.cast(1 / (1 - rate), x.dtype), tf.zeros((), x.dtype)
    )


def keeps(x: tf.Tensor, rate: float, key: tf.Tensor) -> tf.Tensor:
    """Returns which elements of `x` the dropout of `key` keeps.

    Dropout draws most of the random numbers, and only compares them, which depends on their
    high bits. So they take half of the operations of `random_bits`: a Weyl sequence, then
    `_mix` with the second half of the key in its middle, and without its last shift, which
    changes low bits.
    """
    # A zero that TensorFlow cannot fold, so that counters are not a constant (see `counters`).
    zero = tf.bitwise.bitwise_xor(key[0], key[0])
    shift, xor = tf.bitwise.right_shift, tf.bitwise.bitwise_xor
    bits = counters(tf.shape(x), zero) * _uint32(_GOLDEN) + key[0]
    bits = xor(bits, shift(bits, _uint32(16))) * _uint32(_MULTIPLIER_1)
    bits = xor(xor(bits, shift(bits, _uint32(15))), key[1]) * _uint32(_MULTIPLIER_2)
    return bits >= _uint32(round(rate * 2**32))


def _to_uint32(number: tf.Tensor | int) -> tf.Tensor:
    return tf.cast(tf.convert_to_tensor(number), tf.uint32)


@dataclasses.dataclass(frozen=True)
class Randomness:
    """Random streams of one batch.

    Attributes:
        seed, step: random seed of the run, and global step.
        first_example: index of row 0 within the global batch.
        dropout: whether dropout is active; False in evaluation.
        replica: index of the replica, micro-batch or part of one; it affects dropout only.
    """

    seed: tf.Tensor | int
    step: tf.Tensor | int
    first_example: tf.Tensor | int = 0
    dropout: bool = True
    replica: tf.Tensor | int = 0

    def key(self, purpose: str) -> tf.Tensor:
        """Returns the uint32 [2] key of the stream named `purpose`."""
        return make_key(self.seed, self.step, purpose)

    def dropout_key(self, purpose: str) -> tf.Tensor | None:
        """Returns the key of a dropout stream, or None if dropout is inactive."""
        return fold_in(self.key(purpose), self.replica) if self.dropout else None
