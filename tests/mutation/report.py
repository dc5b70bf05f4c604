"""The page of the mutation tests, from their figures.

python -m tests.mutation.report
"""

import json
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from tests.mutation.targets import TARGETS

FOLDER = pathlib.Path(__file__).parent
FIGURES = FOLDER / "figures.json"
EQUIVALENTS = FOLDER / "equivalents.json"
README = FOLDER / "README.md"

_INTRODUCTION = """\
# Mutation tests

`make mutants` changes a copy of the product in one place, such as `<` to `<=`, and runs the
tests of that module; a change that no test notices is a survivor.
[Cosmic Ray](https://cosmic-ray.readthedocs.io) makes the changes. One is tried for each place
and kind of change, chosen and ordered by a seed, up to a number for each module and as far as
there is time; the next run goes on from there. Annotations are left out. The tests run in forks
of a process that has imported TensorFlow (`tests/mutation/server.py`), and only those that
`tests/mutation/targets.py` names for the module: others may notice a survivor.

| command | |
| --- | --- |
| `make mutants MUTANTS='--minutes 60'` | all modules, in equal shares of the time |
| `make mutants MUTANTS='--only masking --most 200'` | one group, or one file; more mutants |
| `make mutants MUTANTS=--survivors` | the survivors again, after tests were strengthened |
| `.venv/bin/python -m tests.mutation.report` | writes this page from the figures |

*Places* counts what could be changed, *equivalent* the survivors that no test can notice, with
the reason in `tests/mutation/equivalents.json`; the last column is the share of the others that
the tests noticed.
"""


def read_equivalents() -> list[dict[str, str]]:
    """Returns the explained survivors: `module`, `was`, `is` and `reason`."""
    return json.loads(EQUIVALENTS.read_text(encoding="utf-8"))


def page(figures: Mapping[str, Any], equivalents: Sequence[Mapping[str, str]]) -> str:
    """Returns the page in Markdown.

    Args:
        figures: what `tests.mutation.run` records.
        equivalents: see `read_equivalents`.
    """
    lines = [
        _INTRODUCTION,
        "| module | places | tried | killed | equivalent | survivors | killed |",
    ]
    lines.append("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    totals = dict.fromkeys(("places", "tried", "killed", "equivalent", "survivors"), 0)
    for group, modules in TARGETS.items():
        in_group = dict.fromkeys(totals, 0)
        for module in modules:
            if module in figures["modules"]:
                counts = count(module, figures["modules"][module], equivalents)
                lines.append(_row(f"`{module}`", counts))
                for name, value in counts.items():
                    in_group[name] += value
                    totals[name] += value
        if in_group["tried"]:
            lines.append(_row(f"**{group}**", in_group))
    lines.append(_row("**all**", totals))
    every = [module for modules in TARGETS.values() for module in modules]
    left_out = [f"`{module}`" for module in every if module not in figures["modules"]]
    if left_out:
        lines += ["", f"Not tried yet: {', '.join(left_out)}."]
    lines += ["", *_tables(figures, equivalents)]
    return "\n".join(lines) + "\n"


def count(
    module: str, figures: Mapping[str, Any], equivalents: Sequence[Mapping[str, str]]
) -> dict[str, int]:
    """Returns a module's counts; equivalents are not among its survivors."""
    explained = sum(
        is_equivalent(module, survivor, equivalents) for survivor in figures["survivors"]
    )
    return {
        "places": figures["places"],
        "tried": figures["tried"],
        "killed": figures["killed"],
        "equivalent": explained,
        "survivors": len(figures["survivors"]) - explained,
    }


def is_equivalent(
    module: str, survivor: Mapping[str, Any], equivalents: Sequence[Mapping[str, str]]
) -> bool:
    """Whether a survivor is among the explained ones."""
    key = (module, survivor["was"], survivor["is"])
    return any((e["module"], e["was"], e["is"]) == key for e in equivalents)


def _row(name: str, counts: Mapping[str, int]) -> str:
    cells = [f"{value:,}" for value in counts.values()]
    noticeable = counts["tried"] - counts["equivalent"]
    share = ""
    if noticeable:
        share = f"{100 * counts['killed'] / noticeable:.1f}".removesuffix(".0") + " %"
    return f"| {name} | {' | '.join(cells)} | {share} |"


def _tables(figures: Mapping[str, Any], equivalents: Sequence[Mapping[str, str]]) -> list[str]:
    survivors, explained = [], []
    for module, of_module in figures["modules"].items():
        for survivor in of_module["survivors"]:
            cells = [
                f"`{module}:{survivor['line']}`",
                _code(survivor["was"]),
                _code(survivor["is"]),
            ]
            if is_equivalent(module, survivor, equivalents):
                (reason,) = {
                    e["reason"] for e in equivalents if is_equivalent(module, survivor, [e])
                }
                explained.append(f"| {' | '.join([*cells, reason])} |")
            else:
                survivors.append(f"| {' | '.join(cells)} |")
    table = (
        ["| place | was | is |", "| --- | --- | --- |", *survivors] if survivors else ["None."]
    )
    return [
        *("## Survivors", "", *table, ""),
        *("## Equivalent", "", "| place | was | is | why no test can notice |"),
        *("| --- | --- | --- | --- |", *explained),
    ]


def _code(text: str) -> str:
    """Returns source code as a cell of a table."""
    return " ".join(f"``{line}``" for line in text.replace("|", "\\|").splitlines())


if __name__ == "__main__":
    recorded = json.loads(FIGURES.read_text(encoding="utf-8"))
    README.write_text(page(recorded, read_equivalents()), encoding="utf-8")
