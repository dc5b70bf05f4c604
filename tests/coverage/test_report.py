"""The page of branch coverage is that of its figures."""

import json

from tests.coverage.merging import merge
from tests.coverage.report import (
    FIGURES,
    README,
    REASONS,
    page,
    ranges,
    read_figures,
    share,
    with_files,
    with_names,
)

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


BEFORE = """\
def choose(count):
    if count > 3:
        return "many"
    if count < 0:
        raise ValueError("negative")
    return "few"
"""
NOW = '''\
def choose(count):
    """Returns a word."""
    if count > 3:
        return "many"
    if count < 0:
        raise ValueError(f"{count} is negative")
    if not count:
        return "none"
    return "few"
'''


def measured(missing_lines: list[int], missing_branches: list[list[int]]) -> dict:
    summary = {"num_statements": 9, "num_branches": 6}
    summary |= {
        "missing_lines": len(missing_lines),
        "missing_branches": len(missing_branches),
    }
    found = {"missing_lines": missing_lines, "missing_branches": missing_branches}
    return {"files": {"flags/c.py": {"summary": summary, **found}}}


def test_earlier_figures_stay_for_lines_that_have_not_changed():
    # Before, "many" never ran, and the rest did.
    before = read_figures(measured([3], [[2, 3]]))
    # Now, nothing of the function ran.
    every = measured([3, 4, 5, 6, 7, 8, 9], [[3, 4], [3, 5], [5, 6], [5, 7], [7, 8], [7, 9]])
    merged = merge(before, every, lambda _: BEFORE, lambda _: NOW)
    figures = read_figures(merged)["files"]["flags/c.py"]
    assert figures["lines"] == [4, 6, 7, 8]
    # 3 → 5 was taken. 5 → 6 and 5 → 7 lead to changed lines.
    assert figures["missing_branches"] == 5
    assert figures["missing"] == 4
    # What ran now has run, whatever was before.
    merged = merge(before, measured([6], [[5, 6]]), lambda _: BEFORE, lambda _: NOW)
    assert read_figures(merged)["files"]["flags/c.py"]["lines"] == [6]


def test_figures_of_some_files_are_replaced():
    before = {"scope": "All.", "commit": "old", **read_figures(MEASURED)}
    newer = read_figures(
        {"files": {"flags/c.py": measured([4], [[2, 4]])["files"]["flags/c.py"]}}
    )
    after = with_files(before, newer["files"], "new")
    assert list(after["files"]) == ["electra_tf/model/a.py", "flags/b.py", "flags/c.py"]
    assert after["files"]["flags/b.py"] == before["files"]["flags/b.py"]
    assert after["files"]["flags/c.py"]["commit"] == "new"
    assert (after["scope"], after["commit"]) == ("All.", "old")
    assert "| `flags/c.py` | 4 |  |" in page(after, [])


def test_a_branch_that_leaps_over_a_new_statement_is_not_that_of_before():
    before = read_figures(measured([], []))
    now = BEFORE.replace("    if count < 0:\n", "    count -= 1\n    if count < 0:\n")
    merged = merge(before, measured([4], [[2, 4], [5, 7]]), lambda _: BEFORE, lambda _: now)
    figures = read_figures(merged)["files"]["flags/c.py"]
    assert (figures["lines"], figures["missing_branches"]) == ([4], 1)


def test_files_that_have_moved_have_their_new_names():
    figures = {"commit": "c", **read_figures(MEASURED)}
    before = figures["files"]["flags/b.py"]
    moved = with_names(figures, {"flags/b.py": "flags/c.py", "electra_tf/model/a.py": ""})
    assert moved["files"] == {"flags/c.py": {**before, "was": "flags/b.py"}}
    again = with_names(moved, {"flags/c.py": "flags/d/c.py"})
    assert again["files"] == {"flags/d/c.py": {**before, "was": "flags/b.py"}}
    # The new name was measured since.
    newer = with_files(figures, {"flags/c.py": before}, "d")
    assert with_names(newer, {"flags/b.py": "flags/c.py"})["files"]["flags/c.py"] == {
        **before,
        "commit": "d",
    }
