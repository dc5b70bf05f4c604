"""The page of branch coverage, from what coverage.py measured.

    make coverage
    .venv/bin/coverage json -o coverage.json
    .venv/bin/python -m tests.coverage.report coverage.json

keeps the figures in `tests/coverage/figures.json`, and writes `tests/coverage/README.md` from
them and from the reasons in `tests/coverage/reasons.json`. Without an argument, it only writes
the page. With `--merge`, after a run of some tests only (`COVERED=`), what ran in the earlier
figures stays as long as its lines do (`tests/coverage/merging.py`). With `--only`, the figures
of all other files stay, and so do the commits that they are of.
"""

import argparse
import json
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from electra_tf.util.console import markdown_table
from tests.coverage.merging import ROOT, measured_commit, merge, source_at

FOLDER = pathlib.Path(__file__).parent
FIGURES, REASONS, README = (
    FOLDER / name for name in ("figures.json", "reasons.json", "README.md")
)
_COUNTS = ("statements", "missing", "branches", "missing_branches")
_INTRODUCTION = """\
# Branch coverage

`make coverage` runs the tests under coverage.py, with the processes that they start. Of the
product (`electra_tf`, `pretrain_data`, `finetune`, `flags`), this page has the share of lines
and branches that ran, each line that did not, and why. It is written by
`python -m tests.coverage.report` from `tests/coverage/figures.json`.

{scope}
"""


def read_figures(measured: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the counts of each file, and what did not run, of coverage.py's JSON.

    Args:
        measured: of `coverage json`.
    """
    files = {}
    for path, found in sorted(measured["files"].items()):
        summary = found["summary"]
        files[path] = {
            "statements": summary["num_statements"],
            "missing": summary["missing_lines"],
            "branches": summary["num_branches"],
            "missing_branches": summary["missing_branches"],
            "lines": found["missing_lines"],
            "arcs": [
                arc
                for arc in found["missing_branches"]
                if arc[0] not in found["missing_lines"] and arc[1] not in found["missing_lines"]
            ],
        }
    return {"files": files}


def page(figures: Mapping[str, Any], reasons: Sequence[Mapping[str, str]]) -> str:
    """Returns the page in Markdown.

    Args:
        figures: of `read_figures`, with "scope", a sentence about the tests that ran.
        reasons: `file`, `lines` as `ranges` writes them, and `reason`.
    """
    totals: dict[str, dict[str, int]] = {}
    for path, counts in figures["files"].items():
        for name in (package_of(path), "**all**"):
            total = totals.setdefault(name, dict.fromkeys(_COUNTS, 0))
            for key in _COUNTS:
                total[key] += counts[key]
    totals["**all**"] = totals.pop("**all**")
    rows = [
        [
            name,
            f"{total['statements']:,}",
            f"{total['missing']:,}",
            f"{total['branches']:,}",
            f"{total['missing_branches']:,}",
            f"{share(total):.1f} %",
        ]
        for name, total in totals.items()
    ]
    columns = ["package", "lines", "not run", "branches", "not taken", "covered"]
    return "\n".join(
        [
            _INTRODUCTION.format(scope=figures["scope"]),
            markdown_table(columns, rows, text_columns=1),
            "\n## Not run\n\nLines, and branches that were not taken as from → to.\n",
            markdown_table(
                ["file", "lines", "why"], _missing(figures, reasons), text_columns=3
            ),
        ]
    )


def share(counts: Mapping[str, int]) -> float:
    """Returns the percentage of lines and branches that ran, as coverage.py computes it."""
    every = counts["statements"] + counts["branches"]
    missing = counts["missing"] + counts["missing_branches"]
    return 100 * (every - missing) / every if every else 100.0


def package_of(path: str) -> str:
    """Returns the folder of a file, at most two deep: `electra_tf/model`."""
    parts = pathlib.PurePath(path).parts[:-1]
    return f"`{'/'.join(parts[:2])}`"


def ranges(lines: Sequence[int]) -> str:
    """Returns ascending line numbers as "3, 7-9"."""
    runs: list[list[int]] = []
    for line in lines:
        if runs and line == runs[-1][1] + 1:
            runs[-1][1] = line
        else:
            runs.append([line, line])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)


def _missing(
    figures: Mapping[str, Any], reasons: Sequence[Mapping[str, str]]
) -> list[list[str]]:
    known = {(each["file"], each["lines"]): each["reason"] for each in reasons}
    rows = []
    for path, counts in figures["files"].items():
        arcs = [f"{a} → {'end' if b < 0 else b}" for a, b in counts["arcs"]]
        text = ", ".join(filter(None, [ranges(counts["lines"]), *arcs]))
        if text:
            rows.append([f"`{path}`", text, known.get((path, text), "")])
    return rows


def with_files(
    figures: Mapping[str, Any], found: Mapping[str, Mapping[str, Any]], commit: str
) -> dict[str, Any]:
    """Returns figures in which those of some files are newer; each of these has its commit.

    Args:
        figures: the earlier ones.
        found: newer figures by file.
        commit: what they are of.
    """
    newer = {path: {**counts, "commit": commit} for path, counts in found.items()}
    return {**figures, "files": dict(sorted({**figures["files"], **newer}.items()))}


def with_names(figures: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """Returns figures in which files that have moved since have their new names.

    Figures that the new name already has are newer, and stay.

    Args:
        figures: the earlier ones.
        names: new names by earlier ones; "" leaves a file out that is gone.
    """
    moved = {
        names[path]: {**counts, "was": counts.get("was", path)}
        for path, counts in figures["files"].items()
        if names.get(path)
    }
    kept = {path: counts for path, counts in figures["files"].items() if path not in names}
    return {**figures, "files": dict(sorted({**moved, **kept}.items()))}


def _source_before(path: str, figures: Mapping[str, Any]) -> str:
    """Returns the text of a file when its figures were measured."""
    counts = figures["files"].get(path, {})
    return source_at(counts.get("commit", figures["commit"]))(counts.get("was", path))


def main(arguments: Sequence[str] | None = None) -> None:
    """Reads what was measured, if it is given, and writes the page."""
    options = parser().parse_args(arguments)
    figures = json.loads(FIGURES.read_text(encoding="utf-8")) if FIGURES.exists() else {}
    if options.measured:
        measured = json.loads(options.measured.read_text(encoding="utf-8"))
        commit = measured_commit()
        if options.only:
            chosen = {path: measured["files"][path] for path in options.only}
            measured = {"files": chosen}
        if options.merge:
            measured = merge(
                figures,
                measured,
                lambda path: _source_before(path, figures),
                lambda path: (ROOT / path).read_text("utf-8"),
            )
        scope = options.scope or figures.get("scope", "")
        found = read_figures(measured)
        if options.only:
            figures = with_files(figures, found["files"], commit)
        else:
            figures = {"commit": commit, **found}
        figures["scope"] = scope
        FIGURES.write_text(json.dumps(figures, separators=(",", ":")) + "\n", encoding="utf-8")
    reasons = json.loads(REASONS.read_text(encoding="utf-8")) if REASONS.exists() else []
    if options.renamed:
        names = dict(each.split("=") for each in options.renamed)
        figures = with_names(figures, names)
        FIGURES.write_text(json.dumps(figures, separators=(",", ":")) + "\n", encoding="utf-8")
        reasons = [{**each, "file": names.get(each["file"], each["file"])} for each in reasons]
        reasons = sorted(filter(lambda each: each["file"], reasons), key=lambda x: x["file"])
        text = json.dumps(reasons, indent=1, ensure_ascii=False) + "\n"
        REASONS.write_text(text, encoding="utf-8")
    README.write_text(page(figures, reasons) + "\n", encoding="utf-8")


def parser() -> argparse.ArgumentParser:
    """Returns the parser of the program's arguments."""
    made = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    made.add_argument("measured", nargs="?", type=pathlib.Path, help="of `coverage json`")
    made.add_argument("--merge", action="store_true", help="keep what ran in earlier figures")
    made.add_argument("--only", nargs="*", default=(), help="files; others keep their figures")
    made.add_argument(
        "--renamed",
        nargs="*",
        default=(),
        help="OLD=NEW of files that have moved since they were measured; OLD= of those gone",
    )
    made.add_argument("--scope", help="a sentence for the page about the tests that ran")
    return made


if __name__ == "__main__":
    main()
