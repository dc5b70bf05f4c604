"""The page of the mutation tests says what was found, and of the sources as they are."""

import json
import pathlib

import pytest

from tests.mutation import report
from tests.mutation.sources import annotations, changed_lines
from tests.mutation.targets import TARGETS

ROOT = pathlib.Path(__file__).parents[2]
MODULES = {module: tests for modules in TARGETS.values() for module, tests in modules.items()}
SURVIVOR = {"line": 3, "operator": "core/X", "occurrence": 0, "was": "a | b", "is": "a & b"}


def figures_of(module: str, survivors: list[dict]) -> dict:
    counts = {"places": 9, "tried": 4, "killed": 4 - len(survivors), "timeouts": 0}
    return {"modules": {module: {**counts, "survivors": survivors}}}


@pytest.mark.parametrize("module", MODULES)
def test_modules_and_their_tests_exist(module):
    assert (ROOT / module).is_file()
    files = [test for test in MODULES[module] if test.startswith("tests/")]
    assert files
    assert [file for file in files if not (ROOT / file).exists()] == []


def test_the_page_has_the_recorded_figures():
    figures = json.loads(report.FIGURES.read_text(encoding="utf-8"))
    page = report.page(figures, report.read_equivalents())
    assert report.README.read_text(encoding="utf-8") == page
    assert figures["modules"].keys() <= MODULES.keys()


def test_equivalents_are_recorded_survivors():
    modules = json.loads(report.FIGURES.read_text(encoding="utf-8"))["modules"]
    for equivalent in report.read_equivalents():
        survivors = modules[equivalent["module"]]["survivors"]
        assert any(
            report.is_equivalent(equivalent["module"], survivor, [equivalent])
            for survivor in survivors
        ), equivalent
        assert equivalent["reason"]


def test_equivalents_are_not_survivors():
    module = next(iter(MODULES))
    figures = figures_of(module, [SURVIVOR, {**SURVIVOR, "is": "a ^ b"}])
    equivalent = {"module": module, "was": "a | b", "is": "a ^ b", "reason": "disjoint"}
    counts = report.count(module, figures["modules"][module], [equivalent])
    assert counts == {"places": 9, "tried": 4, "killed": 2, "equivalent": 1, "survivors": 1}
    page = report.page(figures, [equivalent])
    assert f"| `{module}` | 9 | 4 | 2 | 1 | 1 | 66.7 % |" in page
    assert "| ``a \\| b`` | ``a ^ b`` | disjoint |" in page


def test_annotations_are_found_by_characters():
    source = 'def f(x: int | None = "ä", y: str = "") -> bool | None:\n    z: int = 3\n'
    lines = source.splitlines()
    found = [lines[start[0] - 1][start[1] : end[1]] for start, end in annotations(source)]
    assert sorted(found) == ["bool | None", "int", "int | None", "str"]


def test_a_diff_is_its_lines():
    diff = "--- a/x.py\n+++ b/x.py\n@@ -1 +1 @@\n same\n-    a < b\n+    a <= b\n"
    assert changed_lines(diff) == ("a < b", "a <= b")
