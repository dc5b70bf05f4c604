"""Runs the FLOPs half of the reference check on tests/data, and on numbers made wrong."""

import json
import pathlib

import pytest

from tests.reference.flops_checks import FLOPS_FILE, check_flops

REFERENCE_DIR = pathlib.Path(__file__).parents[1] / "data/reference/pretraining"


def test_all_numbers_agree():
    results = {result.name: result for result in check_flops(REFERENCE_DIR)}
    assert list(results) == [
        "flops training",
        "flops inference",
        *(f"flops parts {i}" for i in range(5)),
    ]
    assert all(result.passed and not result.skipped for result in results.values())
    # Each name, and its FLOPs.
    assert results["flops training"].detail.startswith("26 compared")


@pytest.mark.parametrize("change", ["value", "name"])
def test_another_number_or_model_fails(tmp_path, change):
    recorded = json.loads((REFERENCE_DIR / FLOPS_FILE).read_text())
    train = recorded["train_flops_printed_by_the_script"]
    if change == "value":
        train["gpt"] *= 1 + 1e-9
    else:
        train["another"] = 1.0
    (tmp_path / FLOPS_FILE).write_text(json.dumps(recorded))
    failed = [result for result in check_flops(tmp_path) if not result.passed]
    assert [result.name for result in failed] == ["flops training"]
    assert ("gpt" if change == "value" else "another") in failed[0].detail


def test_a_set_without_them_is_skipped(tmp_path):
    (result,) = check_flops(tmp_path)
    assert result.skipped


def test_other_numbers_are_named(tmp_path):
    recorded = json.loads((REFERENCE_DIR / FLOPS_FILE).read_text())
    part = {**recorded["parts"][0], "another": 1}
    (tmp_path / FLOPS_FILE).write_text(json.dumps({"parts": [part], "more": {}}))
    results = {r.name: (r.passed, r.skipped, r.detail) for r in check_flops(tmp_path)}
    assert results["flops parts 0"][:2] == (True, False)
    assert results["flops parts 0 not compared"] == (True, True, "another")
    assert results["flops not compared"] == (True, True, "more")
