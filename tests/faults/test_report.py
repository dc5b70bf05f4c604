"""RELIABILITY.md shows the figures of the last soak."""

import json

from tests.conftest import ROOT
from tests.faults.report import report
from tests.faults.report_builder import add_builder

FIGURES = json.loads((ROOT / "tests/faults/figures.json").read_text())


def test_the_page_is_that_of_the_figures():
    assert (ROOT / "RELIABILITY.md").read_text(encoding="utf-8") == report(FIGURES)


def test_a_broken_promise_is_shown():
    page = report({**FIGURES, "violations": ["checkpoint, seed 7, ENOSPC: found: none"]})
    assert "1 of the trials broke a promise:" in page
    assert "- checkpoint, seed 7, ENOSPC: found: none" in page


def test_figures_of_two_builder_runs_are_added():
    found = {
        "faults": {"the disk is full": {"old": 2, "none": 1}},
        "memory": [],
        "violations": [],
        "minutes": 1.5,
    }
    figures: dict = {"violations": []}
    for _ in range(2):
        add_builder(figures, found)
    assert figures["builder"]["faults"] == {"the disk is full": {"old": 4, "none": 2}}
    assert figures["builder"]["minutes"] == 3.0
    page = report({**FIGURES, "builder": figures["builder"]})
    assert "| the disk is full | 6 | 4 | 2 | 0 | 0 |" in page
    assert "6 faults of builds" in page


def test_serving_and_networks_are_shown_or_why_not():
    part = {
        "clients": 32,
        "seconds": 60.0,
        "requests": {"valid": 1000, "slow": 20},
        "busy": 3,
        "p50_ms": 12.5,
        "p99_ms": 80.0,
        "memory_mb": {
            "first": 900.0,
            "last": 901.0,
            "per_million_requests": 10.0,
            "half_interval": 20.0,
        },
    }
    trial = {"fault": "cut", "workers": 3, "worker": 1, "seconds": 12.34}
    figures = {
        **FIGURES,
        "serving": {"page": part, "saved_model": part},
        "partition": {"trials": [trial]},
    }
    page = report(figures)
    assert (
        "| `serve_demo.py` | 20 | 1,000 | 3 | 60 | 12.5 | 80.0 | 901 | 10 \u00b1 20 |" in page
    )
    assert "2,040 requests" in page
    assert "| cut | 3 | 1 | 12.3 |" in page
    left_out = {**figures, "partition": {"trials": [], "left_out": "needs root"}}
    assert "Not tried: needs root." in report(left_out)


def test_fuzzed_inputs_are_shown_or_why_not():
    target = {"inputs": 12_345, "branches": 99, "kept": 7, "seconds": 30}
    page = report({**FIGURES, "fuzzing": {"targets": {"tokenizer": target}}})
    assert "| tokenizer | 12,345 | 99 | 7 | 30 |" in page
    assert "| 12,345 inputs |" in page
    page = report({**FIGURES, "fuzzing": {"targets": {}, "left_out": "no atheris"}})
    assert "Not tried: no atheris." in page
    assert "not tried |" in page


def test_parts_that_the_time_did_not_reach_are_named():
    figures = {k: v for k, v in FIGURES.items() if k not in ("kills", "long_run")}
    page = report({**figures, "not_reached": ["storage of records", "long_run"]})
    assert "- Time ran out before or during these parts: storage of records, long_run." in page
    assert "## Long runs" not in page
