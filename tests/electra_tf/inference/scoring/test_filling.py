"""Filled rows: their lengths against all possible choices, and what is where."""

import itertools
import math

import numpy as np
import pytest

from electra_tf.inference.scoring.filling import fill_rows, lay_out, row_lengths

BATCH_SIZE, WIDTH = 2, 512
# Tokens that take as long as compiling for another length, at that width.
COMPILATION = 90_000 / 64


def time_of(lengths: list[int], chosen: list[int], compiled: set[int]) -> float:
    total = COMPILATION * len(set(chosen) - compiled)
    for row_length in set(chosen):
        pairs = zip(lengths, chosen, strict=True)
        texts = [length for length, row in pairs if row == row_length]
        passes = math.ceil(len(fill_rows(sorted(texts), row_length, row_length)) / BATCH_SIZE)
        total += passes * BATCH_SIZE * row_length * (1 + row_length / (6 * WIDTH))
    return total


@pytest.mark.parametrize("count", [1, 20, 400])
@pytest.mark.parametrize("compiled", [set(), {64}, {16, 256}])
def test_the_total_time_is_the_shortest(count, compiled):
    random = np.random.default_rng(count)
    for _ in range(5):
        kinds = random.integers(3, 200, 3).tolist()
        lengths = random.choice(kinds, count).tolist()
        chosen = row_lengths(lengths, BATCH_SIZE, WIDTH, compiled=compiled)
        assert all(row >= length for row, length in zip(chosen, lengths, strict=True))
        candidates = sorted({8, 16, 32, *range(64, max(lengths) + 192, 64)} | compiled)
        choices = [
            [min(c for c in some if c >= length) for length in lengths]
            for number in range(1, 4)
            for some in itertools.combinations(candidates, number)
            if some[-1] >= max(lengths)
        ]
        shortest = min(time_of(lengths, choice, compiled) for choice in choices)
        assert time_of(lengths, chosen, compiled) == pytest.approx(shortest)


def test_few_texts_share_a_length_and_one_long_text_does_not_make_all_rows_long():
    assert set(row_lengths([10, 20, 60], 64, 64)) == {64}
    assert row_lengths([20] * 100_000 + [500], 64, 64)[::100_000] == [64, 512]
    assert row_lengths([], 64, 64) == []


@pytest.mark.parametrize("max_texts", [2, 64])
def test_each_text_is_in_one_row_with_room_for_it(max_texts):
    lengths = np.random.default_rng(0).integers(2, 60, 3000).tolist()
    rows = fill_rows(lengths, 64, max_texts)
    assert sorted(itertools.chain(*rows)) == list(range(len(lengths)))
    assert all(sum(lengths[i] for i in row) <= 64 for row in rows)
    assert all(len(row) <= max_texts for row in rows)
    if max_texts == 64:
        assert len(rows) < 1.03 * sum(lengths) / 64
    assert fill_rows([], 64, max_texts) == []


def test_texts_are_side_by_side_each_with_positions_of_its_own():
    rows = lay_out([[[2, 7, 3], [2, 8, 9, 3]], [[2, 3]]], num_rows=3, row_length=8)
    np.testing.assert_array_equal(
        rows.input_ids, [[2, 7, 3, 2, 8, 9, 3, 0], [2, 3] + [0] * 6, [0] * 8]
    )
    np.testing.assert_array_equal(
        rows.text_numbers, [[1, 1, 1, 2, 2, 2, 2, 0], [1, 1] + [0] * 6, [0] * 8]
    )
    np.testing.assert_array_equal(
        rows.position_ids, [[0, 1, 2, 0, 1, 2, 3, 0], [0, 1] + [0] * 6, [0] * 8]
    )
