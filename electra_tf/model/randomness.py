"""Random bits as a pure function of (seed, step, purpose, counter).

Every random choice of pre-training is drawn here, so that a resumed run repeats
what the uninterrupted one would have done, and any number of replicas draws for
an example what one device would have drawn. The generator is a counter-based
hash: a few integer operations an element, which XLA fuses into the kernel that
needs the bits (see `electra_tf.fused`), so that no noise goes through memory.
"""

import dataclasses
import zlib

import tensorflow as tf

# Multipliers of the lowbias32 finalizer and 2**32 / golden ratio (Knuth's
# multiplicative hash).
_MULTIPLIER_1 = 0x7FEB352D
_MULTIPLIER_2 = 0x846CA68B
_GOLDEN = 0x9E3779B9


def _uint32(value: int) -> tf.Tensor:
    return tf.constant(value, tf.uint32)


def _mix(x: tf.Tensor) -> tf.Tensor:
    """Permutes uint32 so that every input bit flips half of the output bits."""
    shift, xor = tf.bitwise.right_shift, tf.bitwise.bitwise_xor
    x = xor(x, shift(x, _uint32(16))) * _uint32(_MULTIPLIER_1)
    x = xor(x, shift(x, _uint32(15))) * _uint32(_MULTIPLIER_2)
    return xor(x, shift(x, _uint32(16)))


def make_key(seed: tf.Tensor | int, step: tf.Tensor | int, purpose: str) -> tf.Tensor:
    """Returns the key of one random stream.

    Args:
        seed: integer, of the run.
        step: integer scalar, of any integer dtype.
        purpose: name of the stream, such as "dropout".

    Returns:
        uint32 [2].
    """
    key = tf.stack([_uint32(zlib.crc32(purpose.encode())), _mix(_to_uint32(seed))])
    return fold_in(key, step)


def fold_in(key: tf.Tensor, number: tf.Tensor | int) -> tf.Tensor:
    """Returns a key (uint32 [2]) that differs for every integer scalar `number`."""
    number = _to_uint32(number) * _uint32(_GOLDEN) + _uint32(1)
    first = _mix(tf.bitwise.bitwise_xor(key[0], number))
    return tf.stack([first, _mix(key[1] + first)])


def split(key: tf.Tensor, count: int) -> tf.Tensor:
    """Returns `count` keys, uint32 [count, 2], made from one."""
    numbers = counters([count]) * _uint32(_GOLDEN) + _uint32(1)
    first = _mix(tf.bitwise.bitwise_xor(key[0], numbers))
    return tf.stack([first, _mix(key[1] + first)], axis=1)


def random_bits(key: tf.Tensor, counter: tf.Tensor) -> tf.Tensor:
    """Returns uint32 random bits, one word for each uint32 of `counter`, of its shape."""
    return _mix(_mix(tf.bitwise.bitwise_xor(counter, key[0])) + key[1])


def counters(shape: tf.Tensor | list[int], first_row: tf.Tensor | int = 0) -> tf.Tensor:
    """Returns consecutive uint32 numbers, row-major in `shape`.

    Args:
        shape: int32 vector.
        first_row: number of rows (along axis 0) that come before, so that replicas
            can count on from each other. Counting wraps at 2**32.
    """
    shape = tf.convert_to_tensor(shape, tf.int32)
    numbers = tf.bitcast(tf.reshape(tf.range(tf.reduce_prod(shape)), shape), tf.uint32)
    row_size = tf.cast(tf.reduce_prod(shape[1:]), tf.uint32)
    return numbers + _to_uint32(first_row) * row_size


def uniform(key: tf.Tensor, counter: tf.Tensor) -> tf.Tensor:
    """Returns float32 in (0, 1), of the shape of `counter`.

    The values are the midpoints of 2**23 equal intervals, so neither logarithm of
    the Gumbel transform is infinite.
    """
    bits = tf.bitwise.right_shift(random_bits(key, counter), _uint32(9))
    bits = tf.cast(tf.bitcast(bits, tf.int32), tf.float32)
    return (bits + 0.5) * 2.0**-23


def gumbel(key: tf.Tensor, counter: tf.Tensor) -> tf.Tensor:
    """Returns standard Gumbel noise, float32, of the shape of `counter`."""
    return -tf.math.log(-tf.math.log(uniform(key, counter)))


def dropout(x: tf.Tensor, rate: float, key: tf.Tensor) -> tf.Tensor:
    """Zeroes each element of `x` with probability `rate` and scales the rest.

    Call it inside a fused function: its backward pass draws the same bits again.
    """
    if not rate:
        return x
    keep = random_bits(key, counters(tf.shape(x))) >= _uint32(round(rate * 2**32))
    return tf.where(keep, x * tf.cast(1 / (1 - rate), x.dtype), tf.zeros((), x.dtype))


def _to_uint32(number: tf.Tensor | int) -> tf.Tensor:
    return tf.cast(tf.convert_to_tensor(number), tf.uint32)


@dataclasses.dataclass(frozen=True)
class Randomness:
    """Where the random choices of one batch come from.

    Attributes:
        seed, step: integers; every choice is a function of them.
        first_example: index of row 0 in the batch over all replicas.
        dropout: whether the encoders drop; False at evaluation.
        replica: index of this replica, or of its part of an accumulated batch; it enters
            the dropout masks alone.
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
        """Returns a key for dropout, or None where there is none."""
        return fold_in(self.key(purpose), self.replica) if self.dropout else None
