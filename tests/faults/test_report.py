"""RELIABILITY.md shows the figures of the last soak."""

import json

from tests.conftest import ROOT
from tests.faults.report import report

FIGURES = json.loads((ROOT / "tests/faults/figures.json").read_text())


def test_the_page_is_that_of_the_figures():
    assert (ROOT / "RELIABILITY.md").read_text(encoding="utf-8") == report(FIGURES)


def test_a_broken_promise_is_shown():
    page = report({**FIGURES, "violations": ["checkpoint, seed 7, ENOSPC: found: none"]})
    assert "1 of the trials broke a promise:" in page
    assert "- checkpoint, seed 7, ENOSPC: found: none" in page
