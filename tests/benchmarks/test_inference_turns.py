"""Rates and ratios of the turns of inference."""

import pytest

from benchmarks.inference_turns import RATIOS, REFERENCE, XLA, Cell, Turn, ours, theirs


def turn(seconds: float) -> Turn:
    return Turn(forwards=10, seconds=seconds, cpu_seconds=seconds, max_rss=0)


def test_the_first_ratio_is_that_of_the_fastest_of_each_side():
    eager, compiled = theirs("float32")
    assert ours("float32") == (REFERENCE, REFERENCE + XLA)
    first = {REFERENCE: 4.0, REFERENCE + XLA: 2.0, eager: 3.0, compiled: 1.0}
    second = {REFERENCE: 4.0, REFERENCE + XLA: 1.0, eager: 3.0, compiled: 2.0}
    rounds = [
        {name: turn(seconds) for name, seconds in times.items()} for times in (first, second)
    ]
    cell = Cell((8, 32), rounds)
    assert cell.rates(REFERENCE) == [20.0, 20.0]
    assert next(iter(RATIOS)) == "our best / their best"
    assert cell.ratios(*RATIOS["our best / their best"]) == pytest.approx([0.5, 2.0])
    assert cell.ratios([REFERENCE], [eager]) == pytest.approx([0.75, 0.75])


def test_what_was_not_measured_has_no_ratio():
    cell = Cell((1, 32), [{REFERENCE: turn(1.0), theirs("float32")[0]: turn(1.0)}])
    assert cell.ratios(*RATIOS["bfloat16 / bfloat16"]) == []
    assert cell.ratios(*RATIOS["our best / their best"]) == [1.0]
