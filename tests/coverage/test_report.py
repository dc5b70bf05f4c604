"""The page of branch coverage is that of its figures."""

import json

from tests.coverage.report import FIGURES, README, REASONS, page, ranges, read_figures, share

MEASURED = {
    "files": {
        "flags/b.py": {
            "summary": {
                "num_statements": 10,
                "missing_lines": 3,
                "num_branches": 6,
                "missing_branches": 3,
            },
            "missing_lines": [4, 5, 9],
            "missing_branches": [[3, 4], [7, 8], [8, -1]],
        },
        "electra_tf/model/a.py": {
            "summary": {
                "num_statements": 4,
                "missing_lines": 0,
                "num_branches": 0,
                "missing_branches": 0,
            },
            "missing_lines": [],
            "missing_branches": [],
        },
    }
}


def test_what_did_not_run_is_listed_with_its_reason():
    figures = {"scope": "All tests.", **read_figures(MEASURED)}
    lines = "4-5, 9, 7 → 8, 8 → end"
    reason = {"file": "flags/b.py", "lines": lines, "reason": "no such machine"}
    text = page(figures, [reason])
    assert f"| `flags/b.py` | {lines} | no such machine |" in text
    assert "| `electra_tf/model` | 4 | 0 | 0 | 0 | 100.0 % |" in text
    assert "| `flags` | 10 | 3 | 6 | 3 | 62.5 % |" in text
    assert "| **all** | 14 | 3 | 6 | 3 | 70.0 % |" in text
    assert "electra_tf/model/a.py" not in text


def test_shares_and_ranges():
    nothing = dict.fromkeys(("statements", "missing", "branches", "missing_branches"), 0)
    assert share(nothing) == 100
    assert ranges([1, 2, 3, 7]) == "1-3, 7"
    assert ranges([]) == ""


def test_the_page_is_that_of_the_figures():
    figures = json.loads(FIGURES.read_text(encoding="utf-8"))
    reasons = json.loads(REASONS.read_text(encoding="utf-8"))
    assert README.read_text(encoding="utf-8") == page(figures, reasons) + "\n"
