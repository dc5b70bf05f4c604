"""The counter-based random bits: even, independent, and a function of their key alone."""

import re

import numpy as np
import pytest
import tensorflow as tf

from electra_tf.model import randomness

COUNT = 1 << 20
# 99.9 % points of chi-square: of 255 and of 15 degrees of freedom.
CHI_SQUARE_255, CHI_SQUARE_15 = 330.5, 37.7


def bits(*, seed=1, step=2, purpose="test", shape=(COUNT,)) -> np.ndarray:
    key = randomness.make_key(seed, step, purpose)
    return randomness.random_bits(key, randomness.counters(list(shape))).numpy()


def chi_square(values: np.ndarray, cells: int) -> float:
    counts = np.bincount(values, minlength=cells)
    expected = values.size / cells
    return float(np.sum((counts - expected) ** 2 / expected))


@pytest.mark.parametrize("shift", [0, 8, 16, 24])
def test_every_byte_is_uniform(shift):
    assert chi_square((bits() >> shift & 0xFF).astype(int), 256) < CHI_SQUARE_255


@pytest.mark.parametrize("other", [{"seed": 2}, {"step": 3}, {"purpose": "other"}])
def test_streams_are_independent(other):
    # Two high bits of each stream, taken together, fill 16 cells evenly.
    pairs = (bits() >> 30) * 4 + (bits(**other) >> 30)
    assert chi_square(pairs.astype(int), 16) < CHI_SQUARE_15


@pytest.mark.parametrize("distance", [1, 2, 64, 128])
def test_neighbours_are_independent(distance):
    high = bits() >> 30
    pairs = high[:-distance] * 4 + high[distance:]
    assert chi_square(pairs.astype(int), 16) < CHI_SQUARE_15


def test_split_keys_differ_from_each_other_and_from_folded_ones():
    key = randomness.make_key(0, 0, "test")
    keys = [tuple(k) for k in randomness.split(key, 40).numpy()]
    keys += [tuple(randomness.fold_in(randomness.fold_in(key, 7), i).numpy()) for i in range(9)]
    assert len(set(keys)) == 49


def test_replicas_count_on_from_each_other():
    whole = randomness.counters([6, 5, 4]).numpy()
    halves = [randomness.counters([3, 5, 4], first).numpy() for first in (0, 3)]
    np.testing.assert_array_equal(np.concatenate(halves), whole)
    assert len(np.unique(whole)) == whole.size


def test_dropout_has_no_counters_stored():
    """TensorFlow would fold them into a constant, which kernels read."""

    @tf.function(jit_compile=True, autograph=False)
    def drop(x: tf.Tensor, key: tf.Tensor) -> tf.Tensor:
        return randomness.dropout(x, 0.1, key)

    x, key = tf.ones([300, 400]), randomness.make_key(0, 0, "test")
    program = drop.experimental_get_compiler_ir(x, key)(stage="hlo", platform_name="CPU")
    assert "[300,400]" in program
    assert not re.search(r"\[300,400\]\S* constant\(", program)
    dropped = drop(x, key).numpy() == 0
    # The same elements as without XLA, which has the counters of another program.
    np.testing.assert_array_equal(dropped, ~randomness.keeps(x, 0.1, key).numpy())


def test_uniform_never_reaches_its_ends():
    key = randomness.make_key(0, 0, "test")
    values = randomness.uniform(key, randomness.counters([COUNT])).numpy()
    assert values.min() > 0
    assert values.max() < 1
    assert np.mean(values) == pytest.approx(0.5, abs=2e-3)
    assert np.all(np.isfinite(randomness.gumbel(key, randomness.counters([COUNT]))))


def test_gumbel_has_the_distributions_moments():
    key = randomness.make_key(0, 0, "test")
    values = randomness.gumbel(key, randomness.counters([COUNT])).numpy()
    # Mean: Euler's constant; variance: pi^2 / 6.
    assert np.mean(values) == pytest.approx(0.57722, abs=5e-3)
    assert np.var(values) == pytest.approx(np.pi**2 / 6, rel=1e-2)


def drops(shape=(COUNT,), **names) -> np.ndarray:
    key = randomness.make_key(*({"seed": 1, "step": 2, "purpose": "dropout"} | names).values())
    return ~randomness.keeps(tf.zeros(shape), 0.25, key).numpy()


@pytest.mark.parametrize("distance", [1, 2, 3, 64, 128, 256, 512, 768, 1024, 4096, 1 << 18])
def test_neighbours_are_dropped_independently(distance):
    dropped = drops().astype(int)
    pairs = dropped[:-distance] * 2 + dropped[distance:]
    expected = np.outer([0.75, 0.25], [0.75, 0.25]).ravel() * pairs.size
    # 99.9 % point for three degrees of freedom.
    assert np.sum((np.bincount(pairs) - expected) ** 2 / expected) < 16.3


@pytest.mark.parametrize("other", [{"seed": 2}, {"step": 3}, {"purpose": "other"}])
def test_streams_of_dropout_are_independent(other):
    pairs = drops().astype(int) * 2 + drops(**other)
    expected = np.outer([0.75, 0.25], [0.75, 0.25]).ravel() * pairs.size
    assert np.sum((np.bincount(pairs) - expected) ** 2 / expected) < 16.3


@pytest.mark.parametrize("width", [64, 128, 256, 512, 768])
@pytest.mark.parametrize("axis", [0, 1])
def test_rows_and_columns_lose_their_share(width, axis):
    dropped = drops((COUNT // width, width))
    size, count = dropped.shape[axis], dropped.shape[1 - axis]
    deviations = (dropped.sum(axis) - 0.25 * size) ** 2 / (0.1875 * size)
    # Chi-square of `count` degrees of freedom, as a normal variable: within 3.3 deviations.
    assert abs(deviations.sum() - count) < 3.3 * np.sqrt(2 * count)


def test_dropout_keeps_its_share_and_the_mean():
    key = randomness.make_key(3, 4, "dropout")
    y = randomness.dropout(tf.ones([1000, 1000]), 0.1, key).numpy()
    assert np.mean(y == 0) == pytest.approx(0.1, abs=2e-3)
    assert set(np.unique(y)) == {np.float32(0), np.float32(1 / 0.9)}
    assert randomness.dropout(y, 0.0, key) is y
