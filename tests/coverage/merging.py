"""Adds what some tests ran to the figures of an earlier measurement.

Nothing of the earlier figures is lost but of lines that have changed since: these count as run
only if the new measurement ran them.
"""

import dataclasses
import difflib
import pathlib
import subprocess
from collections.abc import Callable, Mapping
from typing import Any

import coverage
from coverage.parser import PythonParser

ROOT = pathlib.Path(__file__).parents[2]
PRODUCT = ("electra_tf", "pretrain_data", "finetune", "flags")
Arc = tuple[int, int]


@dataclasses.dataclass(frozen=True)
class Source:
    """A file as coverage.py sees it.

    Attributes:
        text: lines of the file.
        statements: numbers of the lines that can run.
        arcs: pairs of lines that can follow each other; the end of the function that begins at
            line 7 is -7.
    """

    text: list[str]
    statements: frozenset[int]
    arcs: frozenset[Arc]

    @classmethod
    def parse(cls, text: str) -> "Source":
        """Returns the source of a file, less what the configuration excludes."""
        excluded = coverage.Coverage(
            config_file=str(ROOT / "pyproject.toml")
        ).get_exclude_list()
        parser = PythonParser(text=text, exclude="|".join(f"(?:{each})" for each in excluded))
        parser.parse_source()
        return cls(text.splitlines(), frozenset(parser.statements), frozenset(parser.arcs()))

    def between(self, arc: Arc) -> int:
        """Returns how many statements an arc leaps over."""
        low, high = sorted(abs(line) for line in arc)
        return sum(low < line < high for line in self.statements)


def merge(
    before: Mapping[str, Any],
    measured: Mapping[str, Any],
    read_before: Callable[[str], str],
    read_now: Callable[[str], str],
) -> dict[str, Any]:
    """Returns what was measured, less what ran in an earlier measurement.

    Args:
        before: the earlier figures (`tests.coverage.report.read_figures`).
        measured: of `coverage json`, of other tests.
        read_before: returns a file's text at the time of `before`.
        read_now: returns a file's text as it was measured.
    """
    files = {}
    for path, found in measured["files"].items():
        earlier = before["files"].get(path)
        if earlier and found["missing_lines"] + found["missing_branches"]:
            old, new = Source.parse(read_before(path)), Source.parse(read_now(path))
            found = _merge_file(earlier, found, old, new)
        files[path] = found
    return {"files": files}


def source_at(commit: str) -> Callable[[str], str]:
    """Returns a function that reads files of a commit."""

    def read(path: str) -> str:
        command = ["git", "show", f"{commit}:{path}"]
        return subprocess.run(
            command, cwd=ROOT, check=True, capture_output=True, text=True
        ).stdout

    return read


def measured_commit() -> str:
    """Returns the commit whose product was measured; refuses one with other changes."""

    def git(*command: str) -> str:
        done = subprocess.run(
            ["git", *command], cwd=ROOT, check=True, capture_output=True, text=True
        )
        return done.stdout.strip()

    if changed := git("status", "--porcelain", "--", *PRODUCT):
        raise SystemExit(f"Commit these before their figures are recorded:\n{changed}")
    return git("rev-parse", "HEAD")


def _merge_file(
    earlier: Mapping[str, Any], found: Mapping[str, Any], old: Source, new: Source
) -> dict[str, Any]:
    same = _same_lines(old, new)
    ran_before = old.statements - {*earlier["lines"]}
    taken_before = {
        arc
        for arc in old.arcs - {(first, then) for first, then in earlier["arcs"]}
        if arc[0] in ran_before and (arc[1] < 0 or arc[1] in ran_before)
    }

    def was_taken(arc: Arc) -> bool:
        first, then = same.get(arc[0], 0), same.get(abs(arc[1]), 0)
        was = first, then if arc[1] > 0 else -then
        return was in taken_before and old.between(was) == new.between(arc)

    lines = [line for line in found["missing_lines"] if same.get(line) not in ran_before]
    arcs = [arc for arc in found["missing_branches"] if not was_taken(tuple(arc))]
    summary = {"missing_lines": len(lines), "missing_branches": len(arcs)}
    return {
        **found,
        "summary": {**found["summary"], **summary},
        "missing_lines": lines,
        "missing_branches": arcs,
    }


def _same_lines(old: Source, new: Source) -> dict[int, int]:
    """Returns the numbers of lines of the new text that the old one has, too, and theirs."""
    blocks = difflib.SequenceMatcher(None, old.text, new.text, autojunk=False)
    return {
        block.b + offset + 1: block.a + offset + 1
        for block in blocks.get_matching_blocks()
        for offset in range(block.size)
    }
