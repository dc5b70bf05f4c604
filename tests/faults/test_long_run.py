"""The slopes of a long run, and how its log is read."""

import numpy as np
import pytest

from tests.faults.long_run import Sample, Tail, figures_of, slope


def test_a_leak_is_told_from_noise():
    steps = range(0, 50_000, 100)
    noise = np.random.default_rng(1).normal(0, 1, 500)
    leak, half = slope(steps, 100 + 2e-3 * np.array(steps) + noise)
    assert leak == pytest.approx(2000, abs=3 * half)
    assert half < 20
    flat, half = slope(steps, 100 + noise)
    assert abs(flat) < 3 * half < 60
    assert slope(steps, [7.0] * 500) == (0.0, 0.0)


def test_figures_leave_out_the_warm_up():
    samples = [Sample(100 * i, 50.0 + max(0, 20 - i), 9, 4, 1.0) for i in range(1, 101)]
    figures = figures_of(samples)
    assert figures["steps"] == 10_000
    assert figures["measures"]["memory_mb"] == {
        "first": 50.0,
        "last": 50.0,
        "per_million_steps": 0.0,
        "half_interval": 0.0,
    }


def test_lines_are_read_when_they_are_complete(tmp_path):
    path = tmp_path / "log"
    tail = Tail(path)
    assert tail.lines() == []
    with path.open("wb", buffering=0) as file:
        for written, expected in (
            (b'{"step": 1', []),
            (b'0}\n{"step": 20}\n\xe2', ['{"step": 10}', '{"step": 20}']),
            (b"\x80\xa6\n", ["…"]),
            (b"", []),
        ):
            file.write(written)
            assert tail.lines() == expected
