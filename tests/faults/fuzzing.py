"""Coverage-guided fuzzing of the readers of strangers' files, by Atheris.

`python -m tests.faults.fuzzing FIGURES --seed 1 --minutes 8` gives every target of
`tests/fuzz/guided_targets.py` an equal share of the time, in a process of its own, and counts
its inputs. What breaks a promise is kept in the folder of `--found`. Needs
`requirements/fuzz.txt`, which `make soak FUZZ_LOCK=requirements/fuzz.txt` installs.
"""

import argparse
import importlib.util
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
from typing import Any

from tests.conftest import ROOT

# Of a process: imports before its time begins, and the end of its last input.
_MORE_SECONDS = 180
_MIN_SECONDS = 5
_PACKAGE = "atheris"
_STATISTICS = re.compile(r"^stat::(\w+): +(\d+)$", re.MULTILINE)
_PROGRESS = re.compile(r"^#\d+\s+\w+\s+cov: (\d+) ft: (\d+) corp: (\d+)/", re.MULTILINE)


def names() -> list[str]:
    """Returns the names of the targets."""
    from tests.fuzz.guided_targets import TARGETS

    return [*TARGETS]


def fuzz(name: str, seed: int, seconds: int, found: pathlib.Path) -> dict[str, Any]:
    """Gives a target inputs for some seconds.

    Returns:
        "inputs" tried, "branches" of the product reached, "kept" inputs that reached something
        new, and "violations".
    """
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "tests.fuzz.guided", name, folder]
        command += [str(seed), str(seconds)]
        try:
            end = subprocess.run(
                command,
                cwd=ROOT,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=seconds + _MORE_SECONDS,
            )
            status, output = end.returncode, end.stdout + end.stderr
        except subprocess.TimeoutExpired as error:
            status, output = -1, (error.stderr or b"").decode(errors="replace")
            output += f"\nIt did not end {_MORE_SECONDS} s after its time."
        kept = [
            path for path in pathlib.Path(folder).iterdir() if path.name.startswith("found")
        ]
        for path in kept:
            found.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, found)
    figures = read_output(output) | {"seconds": seconds, "violations": []}
    if status:
        inputs = ", ".join(str(found / path.name) for path in kept) or "no input"
        lines = [line for line in output.splitlines() if "ERROR" in line or "Error" in line]
        what = " / ".join(lines[-2:]) or output[-300:]
        figures["violations"] = [f"fuzzing, {name}, seed {seed}: {what} ({inputs})"]
    return figures


def read_output(output: str) -> dict[str, int]:
    """Returns the counts in what Atheris printed; zeros of a process that printed none."""
    statistics = dict(_STATISTICS.findall(output))
    progress = _PROGRESS.findall(output) or [("0", "0", "0")]
    branches, _, corpus = progress[-1]
    return {
        "inputs": int(statistics.get("number_of_executed_units", 0)),
        "branches": int(branches),
        "kept": int(corpus),
    }


def main() -> None:
    """Reads the flags, fuzzes and writes the figures; exits with 1 if anything was found."""
    parser = argparse.ArgumentParser()
    parser.add_argument("figures", type=pathlib.Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=8)
    parser.add_argument("--target", action="append", choices=names())
    parser.add_argument("--found", type=pathlib.Path, default=pathlib.Path("soak/found"))
    options = parser.parse_args()
    figures: dict[str, Any] = {"seed": options.seed, "targets": {}, "violations": []}
    chosen = options.target or names()
    if importlib.util.find_spec(_PACKAGE) is None:
        figures["left_out"] = f"the package {_PACKAGE} is not installed"
        chosen = []
    for name in chosen:
        seconds = max(_MIN_SECONDS, int(60 * options.minutes / len(chosen)))
        result = fuzz(name, options.seed, seconds, options.found)
        figures["violations"] += result.pop("violations")
        figures["targets"][name] = result
        print(name, result, flush=True)
        options.figures.write_text(json.dumps(figures, indent=2) + "\n")
    options.figures.write_text(json.dumps(figures, indent=2) + "\n")
    sys.exit(bool(figures["violations"]))


if __name__ == "__main__":
    main()
