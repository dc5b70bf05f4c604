"""The trials of `tests/faults` for as long as there is time, and their figures.

`python -m tests.faults.soak --minutes 20 --output soak` writes `soak/figures.json`, from which
`tests.faults.report` makes RELIABILITY.md. A first round tries a few faults everywhere, a
second one all of them, and those after it other random ones.
"""

import argparse
import collections
import functools
import importlib.metadata
import json
import pathlib
import platform
import subprocess
import sys
import tempfile
import time
from typing import Any

from tests.conftest import ROOT
from tests.faults.corruption import VIOLATIONS, read_trials
from tests.faults.shim import compile_shim, compiler, environment

# Of the rounds: limit of trials of a writer, random images of a crash point, damages.
_FIRST, _ALL = (40, 2, 1040), (None, 4, 1600)
_SUMS = ("images", "different_images", "images_read", "errors_tried", "cpu_seconds")
FIGURES = "figures.json"


def soak(minutes: float, seed: int, output: pathlib.Path) -> dict[str, Any]:
    """Runs trials until the time is over, and writes the figures after each part.

    Args:
        minutes: how long.
        seed: of the first round; each round has the next one.
        output: folder of the figures.
    """
    start = time.monotonic()
    end = start + 60 * minutes
    output.mkdir(parents=True, exist_ok=True)
    figures: dict[str, Any] = {
        "python": platform.python_version(),
        "tensorflow": importlib.metadata.version("tensorflow"),
        "system": platform.system(),
        "first_seed": seed,
        "storage": {},
        "corruption": {},
        "violations": [],
    }
    round_ = 0
    while time.monotonic() < end:
        limit, trials, damages = _FIRST if round_ == 0 else _ALL
        round_seed = seed + round_
        parts = [functools.partial(_corruption, figures, round_seed, damages, end)]
        if compiler() is not None:
            flags = [f"--trials={trials}", *([f"--limit={limit}"] if limit else [])]
            parts += [
                functools.partial(_storage, figures, name, round_seed, flags, end)
                for name in _writers()
            ]
        for part in parts:
            part()
            figures["minutes"] = round((time.monotonic() - start) / 60, 1)
            figures["rounds"] = round_ + 1
            (output / FIGURES).write_text(json.dumps(figures, indent=2) + "\n")
            print(
                f"{figures['minutes']} minutes, {len(figures['violations'])} violations",
                flush=True,
            )
        round_ += 1
    return figures


def _writers() -> list[str]:
    from tests.faults.writers import WRITERS

    return [writer.name for writer in WRITERS]


def _storage(
    figures: dict[str, Any], name: str, seed: int, flags: list[str], end: float
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder)
        library = compile_shim(path)
        command = [sys.executable, "-m", "tests.faults.storage", str(path / FIGURES)]
        command += [f"--seed={seed}", f"--writer={name}", *flags]
        if not _run(command, end, environment(library)):
            return
        (found,) = json.loads((path / FIGURES).read_text()).values()
    kept = figures["storage"].setdefault(name, {"outcomes": {}})
    for key in _SUMS:
        kept[key] = kept.get(key, 0) + found[key]
    kept |= {key: found[key] for key in ("crash_points", "changes")}
    kept["outcomes"] = collections.Counter(kept["outcomes"]) + collections.Counter(
        found["outcomes"]
    )
    figures["violations"] += found["violations"]


def _corruption(figures: dict[str, Any], seed: int, count: int, end: float) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "trials.jsonl"
        command = [sys.executable, "-m", "tests.faults.corruption", str(path)]
        command += [f"--seed={seed}", f"--trials={count}"]
        while True:
            before = len(read_trials(path))
            if _run(command, end, None) or time.monotonic() > end:
                break
            if len(read_trials(path)) == before:
                raise RuntimeError("The trials of damages do not start")
        trials = read_trials(path)
    for trial in trials:
        kept = figures["corruption"].setdefault(trial.target, {})
        kept[trial.outcome] = kept.get(trial.outcome, 0) + 1
        if trial.outcome in VIOLATIONS:
            figures["violations"].append(" | ".join(map(str, trial)))


def _run(command: list[str], end: float, variables: dict[str, str] | None) -> bool:
    """Runs a command until the time is over; returns whether it ended before."""
    try:
        left = max(1.0, end - time.monotonic())
        done = subprocess.run(
            command, cwd=ROOT, env=variables, timeout=left, capture_output=True, text=True
        )
    except subprocess.TimeoutExpired:
        return False
    if done.returncode > 1:
        raise RuntimeError(done.stderr[-3000:])
    return done.returncode >= 0


def main() -> None:
    """Reads the flags; exits with 1 if anything was found."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--minutes", type=float, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--output", type=pathlib.Path, default=pathlib.Path("soak"))
    options = parser.parse_args()
    figures = soak(options.minutes, options.seed, options.output)
    print("\n".join(figures["violations"]) or "No promise was broken.")
    sys.exit(bool(figures["violations"]))


if __name__ == "__main__":
    main()
