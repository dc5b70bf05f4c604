"""Targets of coverage-guided fuzzing take seeds, and damaged ones, without Atheris."""

import random

import pytest

from tests.faults.fuzzing import fuzz, read_output
from tests.fuzz.guided_targets import TARGETS

OUTPUT = """\
#2  INITED cov: 57 ft: 100 corp: 3/40b exec/s: 0 rss: 810Mb
#2463	REDUCE cov: 71 ft: 255 corp: 44/652b lim: 27 exec/s: 164 rss: 847Mb L: 21/27
#2563	DONE   cov: 72 ft: 255 corp: 45/652b lim: 27 exec/s: 160 rss: 847Mb
stat::number_of_executed_units: 2563
stat::new_units_added:          84
"""


@pytest.mark.parametrize("name", TARGETS)
def test_targets_take_seeds_and_damaged_ones(name, tmp_path):
    target = TARGETS[name]
    read, generator = target.make(tmp_path), random.Random(1)
    for seed in target.seeds():
        read(seed)
        for _ in range(20):
            content = bytearray(seed)
            content[generator.randrange(len(content))] = generator.randrange(256)
            read(bytes(content))
            read(seed[: generator.randrange(len(seed))])
    read(b"")


def test_the_tokenizer_is_compared(tmp_path, monkeypatch):
    read = TARGETS["tokenizer"].make(tmp_path)
    monkeypatch.setattr("tests.fuzz.guided_targets.plain_tokenize", lambda *_: [7])
    with pytest.raises(AssertionError):
        read(b"abc")


def test_counts_are_read():
    assert read_output(OUTPUT) == {"inputs": 2563, "branches": 72, "kept": 45}
    assert read_output("Traceback") == {"inputs": 0, "branches": 0, "kept": 0}


def test_a_process_that_fails_is_a_violation(tmp_path):
    figures = fuzz("no such target", 1, 1, tmp_path)
    (violation,) = figures["violations"]
    assert violation.startswith("fuzzing, no such target, seed 1: ")
    assert "Error" in violation
