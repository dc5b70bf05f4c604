"""The counter-based random bits: even, independent, and a function of their key alone."""

import numpy as np
import pytest
import tensorflow as tf

from electra_tf import random_bits

COUNT = 1 << 20
# 99.9 % points of chi-square: of 255 and of 15 degrees of freedom.
CHI_SQUARE_255, CHI_SQUARE_15 = 330.5, 37.7


def bits(*, seed=1, step=2, purpose="test", shape=(COUNT,)) -> np.ndarray:
    key = random_bits.make_key(seed, step, purpose)
    return random_bits.random_bits(key, random_bits.counters(list(shape))).numpy()


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
    key = random_bits.make_key(0, 0, "test")
    keys = [tuple(k) for k in random_bits.split(key, 40).numpy()]
    keys += [
        tuple(random_bits.fold_in(random_bits.fold_in(key, 7), i).numpy()) for i in range(9)
    ]
    assert len(set(keys)) == 49


def test_replicas_count_on_from_each_other():
    whole = random_bits.counters([6, 5, 4]).numpy()
    halves = [random_bits.counters([3, 5, 4], first).numpy() for first in (0, 3)]
    np.testing.assert_array_equal(np.concatenate(halves), whole)
    assert len(np.unique(whole)) == whole.size


def test_uniform_never_reaches_its_ends():
    key = random_bits.make_key(0, 0, "test")
    values = random_bits.uniform(key, random_bits.counters([COUNT])).numpy()
    assert values.min() > 0
    assert values.max() < 1
    assert np.mean(values) == pytest.approx(0.5, abs=2e-3)
    assert np.all(np.isfinite(random_bits.gumbel(key, random_bits.counters([COUNT]))))


def test_gumbel_has_the_distributions_moments():
    key = random_bits.make_key(0, 0, "test")
    values = random_bits.gumbel(key, random_bits.counters([COUNT])).numpy()
    # Mean: Euler's constant; variance: pi^2 / 6.
    assert np.mean(values) == pytest.approx(0.57722, abs=5e-3)
    assert np.var(values) == pytest.approx(np.pi**2 / 6, rel=1e-2)


def test_dropout_keeps_its_share_and_the_mean():
    key = random_bits.make_key(3, 4, "dropout")
    y = random_bits.dropout(tf.ones([1000, 1000]), 0.1, key).numpy()
    assert np.mean(y == 0) == pytest.approx(0.1, abs=2e-3)
    assert set(np.unique(y)) == {np.float32(0), np.float32(1 / 0.9)}
    assert random_bits.dropout(y, 0.0, key) is y
