"""The study's statistics, against values worked out by hand or by other formulas of SciPy."""

import math

import numpy as np
import pytest
import scipy.stats

from benchmarks.study.statistics import compare, crossing, hedges_g, holm

FIRST = [74.1, 75.3, 73.8, 76.0]
SECOND = [72.0, 73.1, 70.9]


def test_welch_has_its_degrees_of_freedom_and_interval():
    found = compare(FIRST, SECOND, 1.0)
    errors = np.var(FIRST, ddof=1) / 4, np.var(SECOND, ddof=1) / 3
    degrees = sum(errors) ** 2 / (errors[0] ** 2 / 3 + errors[1] ** 2 / 2)
    error = math.sqrt(sum(errors))
    difference = 74.8 - 72.0
    reach = scipy.stats.t.ppf(0.975, degrees) * error
    assert found.counts == (4, 3)
    assert found.difference == pytest.approx(difference)
    assert found.degrees == pytest.approx(degrees)
    assert (found.low, found.high) == pytest.approx((difference - reach, difference + reach))
    assert found.p == pytest.approx(2 * scipy.stats.t.sf(difference / error, degrees))
    # The larger of the two one-sided tests: here, that the difference is below 1.
    nearer = scipy.stats.t.sf((1.0 - difference) / error, degrees)
    assert found.p_equivalent == pytest.approx(nearer)
    assert found.p_equivalent > 0.9


def test_equal_samples_are_equivalent_within_a_wide_margin_only():
    same = [70.0, 70.2, 70.4, 70.6]
    assert compare(same, same, 1.0).p_equivalent < 0.01
    assert compare(same, same, 1.0).p == pytest.approx(1.0)
    assert compare(same, same, 0.1).p_equivalent > 0.05


def test_what_cannot_be_tested_is_not():
    assert compare([70.0], [71.0, 72.0], 1.0) is None
    assert compare([], [], 1.0) is None
    assert compare([70.0, 70.0], [71.0, 71.0], 1.0) is None


def test_hedges_g_and_its_interval():
    first, second = np.array([2.0, 4.0, 6.0]), np.array([1.0, 3.0, 5.0])
    g, low, high = hedges_g(first, second)
    assert g == pytest.approx((1 - 3 / 15) * 0.5)  # a standard deviation of 2, 4 degrees
    error = math.sqrt(6 / 9 + 0.4**2 / 12)
    assert (low, high) == pytest.approx((0.4 - 1.96 * error, 0.4 + 1.96 * error), abs=1e-4)
    assert low < 0 < g < high
    assert hedges_g(first, first + 1.0)[0] == pytest.approx(-g)


def test_holm():
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.5, 0.9]) == [1.0, 1.0]
    assert holm([]) == []


def test_the_crossing_is_where_the_difference_turns_positive():
    second = {1.0: [70.0, 70.2], 2.0: [71.0, 71.2], 4.0: [72.0, 72.2]}
    behind_by = {1.0: -1.0, 2.0: 0.0, 4.0: 1.0}
    first = {b: [score + d for score in second[b]] for b, d in behind_by.items()}
    found = crossing(first, second)
    assert found.budget == pytest.approx(2.0)
    assert 1.5 < found.low < 2.0 < found.high < 2.7
    assert found.never == 0.0
    assert not found.extrapolated
    # Half a point a doubling is missing at the last budget: one more doubling.
    first = {b: [score + d / 2 - 1.0 for score in second[b]] for b, d in behind_by.items()}
    found = crossing(first, second)
    assert found.budget == pytest.approx(8.0)
    assert found.extrapolated


def test_curves_that_do_not_approach_never_cross():
    second = {1.0: [70.0, 70.1], 2.0: [71.0, 71.1]}
    first = {1.0: [69.0, 69.1], 2.0: [69.0, 69.1]}
    found = crossing(first, second)
    assert (found.budget, found.high, found.never) == (math.inf, math.inf, 1.0)
    assert crossing({1.0: [1.0, 2.0]}, second) is None
    assert crossing({1.0: [1.0, 2.0], 2.0: [1.0]}, second) is None
