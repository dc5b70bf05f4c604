"""The trials of `tests/faults` for as long as there is time, and their figures.

`python -m tests.faults.soak --minutes 20 --output soak` writes `soak/figures.json`, from which
`tests.faults.report` makes RELIABILITY.md. A first round tries a few faults everywhere, a
second one all of them, and those after it other random ones. `--part kills` tries one part, and
keeps the figures of the others.
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
from collections.abc import Sequence
from typing import Any

from tests.conftest import ROOT
from tests.faults.corruption import VIOLATIONS, read_trials
from tests.faults.report_kills import add_kills
from tests.faults.shim import compile_shim, compiler, environment

# Of the rounds: limit of trials of a writer, random images of a crash point, damages.
_FIRST, _ALL = (40, 2, 1040), (None, 4, 1600)
_SUMS = ("images", "different_images", "images_read", "errors_tried", "cpu_seconds")
FIGURES = "figures.json"
PARTS = ("corruption", "storage", "kills", "workers", "long_run")
# Of the time of a round, the part of kills; and kills a round.
_SHARE_OF_KILLS, _KILLS = 0.4, 120
_LONG_STEPS = 50_000


def soak(
    minutes: float, seed: int, output: pathlib.Path, only: Sequence[str] = PARTS
) -> dict[str, Any]:
    """Runs trials until the time is over, and writes the figures after each part.

    Args:
        minutes: how long.
        seed: of the first round; each round has the next one.
        output: folder of the figures.
        only: parts to try; the figures of the others are kept.
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
    if {*only} != {*PARTS} and (output / FIGURES).exists():
        figures |= json.loads((output / FIGURES).read_text())
    for part in only:
        figures.pop(part, None)
    figures |= {part: figures.get(part, {}) for part in ("storage", "corruption")}
    round_ = 0
    while time.monotonic() < end:
        limit, trials, damages = _FIRST if round_ == 0 else _ALL
        round_seed = seed + round_
        parts = []
        if "corruption" in only:
            parts.append(functools.partial(_corruption, figures, round_seed, damages, end))
        if compiler() is not None and "storage" in only:
            flags = [f"--trials={trials}", *([f"--limit={limit}"] if limit else [])]
            parts += [
                functools.partial(_storage, figures, name, round_seed, flags, end)
                for name in _writers()
            ]
        if compiler() is not None and "kills" in only:
            share = _SHARE_OF_KILLS if len(only) > 1 else 1.0
            parts.append(functools.partial(_kills, figures, round_seed, share * minutes, end))
        for name, flags in _once(round_seed).items():
            if round_ == 0 and name in only:
                parts.append(functools.partial(_module, figures, name, flags, end))
        for part in parts:
            part()
            minutes_since = round((time.monotonic() - start) / 60, 1)
            if {*only} == {*PARTS}:
                figures |= {"minutes": minutes_since, "rounds": round_ + 1}
            (output / FIGURES).write_text(json.dumps(figures, indent=2) + "\n")
            print(
                f"{minutes_since} minutes, {len(figures['violations'])} violations",
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


def _once(seed: int) -> dict[str, list[str]]:
    """Returns the parts that are modules of their own, with their flags; tried once."""
    return {"workers": [f"--seed={seed}"], "long_run": [f"--steps={_LONG_STEPS}"]}


def _module(figures: dict[str, Any], name: str, flags: list[str], end: float) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / FIGURES
        command = [sys.executable, "-m", f"tests.faults.{name}", str(path), *flags]
        _run(command, end, None)
        if path.exists():
            found = json.loads(path.read_text())
            figures["violations"] += found.pop("violations", [])
            found.pop("series", None)
            figures[name] = found


def _kills(figures: dict[str, Any], seed: int, minutes: float, end: float) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder)
        library = compile_shim(path)
        command = [sys.executable, "-m", "tests.faults.kills", str(path / FIGURES)]
        command += [f"--seed={seed}", f"--kills={_KILLS}", f"--minutes={minutes}"]
        _run(command, end, environment(library))
        if (path / FIGURES).exists():
            add_kills(figures, json.loads((path / FIGURES).read_text()))


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
    parser.add_argument("--part", action="append", choices=PARTS)
    options = parser.parse_args()
    parts = options.part or PARTS
    figures = soak(options.minutes, options.seed, options.output, parts)
    print("\n".join(figures["violations"]) or "No promise was broken.")
    sys.exit(bool(figures["violations"]))


if __name__ == "__main__":
    main()
