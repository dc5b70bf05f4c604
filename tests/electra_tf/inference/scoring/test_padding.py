"""Lengths to pad to, against all possible choices."""

import itertools

import numpy as np
import pytest

from electra_tf.inference.scoring.padding import compilation_cost, padded_lengths

BATCH_SIZE = 2


def time_of(padded: list[int], cost: float, compiled: set[int]) -> float:
    return BATCH_SIZE * sum(padded) + cost * len(set(padded) - compiled)


@pytest.mark.parametrize("cost", [0, 1, 5, 20, 100])
@pytest.mark.parametrize("compiled", [set(), {9}, {4, 17}])
def test_the_total_time_is_the_shortest(cost, compiled):
    random = np.random.default_rng(cost)
    for _ in range(5):
        lengths = random.integers(3, 15, random.integers(1, 8)).tolist()
        padded = padded_lengths(lengths, BATCH_SIZE, cost=cost, compiled=compiled)
        assert all(p >= length for p, length in zip(padded, lengths, strict=True))
        choices = [
            [min(c for c in chosen if c >= length) for length in lengths]
            for count in range(1, 9)
            for chosen in itertools.combinations(sorted({*lengths, *compiled}), count)
            if chosen[-1] >= max(lengths)
        ]
        shortest = min(time_of(choice, cost, compiled) for choice in choices)
        assert time_of(padded, cost, compiled) == shortest


def test_few_texts_share_a_length_and_many_do_not():
    cost = compilation_cost(64)
    assert set(padded_lengths([10, 20, 30], 64, cost=cost)) == {30}
    many = [10] * 1000 + [20] * 1000 + [30] * 1000
    assert padded_lengths(many, 64, cost=cost) == many
    assert padded_lengths([], 64, cost=cost) == []
