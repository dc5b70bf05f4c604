"""The trials of `tests/faults` for as long as there is time, and their figures.

`python -m tests.faults.soak --minutes 20 --output soak` writes `soak/figures.json`, from which
`tests.faults.report` makes RELIABILITY.md. A first round tries a few faults everywhere, a
second one all of them, and those after it other random ones. `--part kills` tries one part, and
keeps the figures of the others; with `--add --seed 2`, its earlier figures are kept, too.
"""

import argparse
import collections
import functools
import importlib.metadata
import json
import os
import pathlib
import platform
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from typing import Any

from tests.conftest import ROOT
from tests.faults.corruption import CRASH, VIOLATIONS, Trial, read_trials
from tests.faults.report_builder import add_builder
from tests.faults.report_kills import add_kills
from tests.faults.shim import compile_shim, compiler, environment

# Of the rounds: limit of trials of a writer, random images of a crash point, damages.
_FIRST, _ALL = (40, 2, 1040), (None, 4, 1600)
_SUMS = ("images", "different_images", "images_read", "errors_tried", "cpu_seconds")
FIGURES = "figures.json"
PARTS = (
    "corruption",
    "storage",
    "kills",
    "builder",
    "fuzzing",
    "serving",
    "workers",
    "partition",
    "long_run",
)
# Of all time, the shares of some parts, and the longest load of servers.
_SHARE_OF_KILLS, _SHARE_OF_BUILDER, _SHARE_OF_SERVING = 0.2, 0.1, 0.15
_SHARE_OF_FUZZING = 0.08
# Of the first round, until when damages and errors of the disk are tried, so that all parts
# have a turn on a slow machine.
_UNTIL = {"corruption": 0.1, "storage": 0.25}
_SERVING_MINUTES = 10.0
_KILLS = 120
_LONG_STEPS = 50_000
# Steps that a minute of a soak has for the long run.
_STEPS_A_MINUTE = 1_000
# A gigabyte takes minutes: only of soaks that have them.
_LINE_MB_A_MINUTE, _MAX_LINE_MB = 10, 1_000


def soak(
    minutes: float,
    seed: int,
    output: pathlib.Path,
    only: Sequence[str] = PARTS,
    *,
    adds: bool = False,
) -> dict[str, Any]:
    """Runs trials until the time is over, and writes the figures after each part.

    Args:
        minutes: how long.
        seed: of the first round; each round has the next one.
        output: folder of the figures.
        only: parts to try; the figures of the others are kept.
        adds: keep their own figures, too, and add to those that are counts.
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
    if (adds or {*only} != {*PARTS}) and (output / FIGURES).exists():
        figures |= json.loads((output / FIGURES).read_text())
    for part in () if adds else only:
        figures.pop(part, None)
    figures["not_reached"] = [
        name for name in figures.get("not_reached", ()) if name.split()[0] not in only
    ]
    figures |= {part: figures.get(part, {}) for part in ("storage", "corruption")}
    round_ = 0
    while time.monotonic() < end:
        limit, trials, damages = _FIRST if round_ == 0 else _ALL
        round_seed = seed + round_
        parts = []
        shared = round_ == 0 and len(only) > 1
        ends = {
            name: start + (until if shared else 1.0) * 60 * minutes
            for name, until in _UNTIL.items()
        }
        if "corruption" in only:
            until = ends["corruption"]
            parts.append(functools.partial(_corruption, figures, round_seed, damages, until))
        if compiler() is not None and "storage" in only:
            flags = [f"--trials={trials}", *([f"--limit={limit}"] if limit else [])]
            parts += [
                functools.partial(_storage, figures, name, round_seed, flags, ends["storage"])
                for name in _writers()
            ]
        if compiler() is not None and "kills" in only:
            share = _SHARE_OF_KILLS if len(only) > 1 else 1.0
            parts.append(functools.partial(_kills, figures, round_seed, share * minutes, end))
        if "builder" in only:
            share = _SHARE_OF_BUILDER if len(only) > 1 else 1.0
            line_mb = min(_MAX_LINE_MB, _LINE_MB_A_MINUTE * minutes) if round_ == 0 else 0
            parts.append(
                functools.partial(_builder, figures, round_seed, share * minutes, line_mb, end)
            )
        for name, flags in _once(round_seed, minutes, len(only) > 1).items():
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
        if time.monotonic() > end or not _run(command, end, environment(library)):
            _not_reached(figures, f"storage of {name}")
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


def _not_reached(figures: dict[str, Any], part: str) -> None:
    """Notes what the time was over before, or ended."""
    left = figures.setdefault("not_reached", [])
    if part not in left:
        left.append(part)


def _once(seed: int, minutes: float, is_part: bool) -> dict[str, list[str]]:
    """Returns the parts that are modules of their own, with their flags; tried once."""
    serving = min(_SERVING_MINUTES, (_SHARE_OF_SERVING if is_part else 1.0) * minutes)
    steps = min(_LONG_STEPS, int(_STEPS_A_MINUTE * minutes) if is_part else _LONG_STEPS)
    fuzzing = (_SHARE_OF_FUZZING if is_part else 1.0) * minutes
    return {
        "fuzzing": [f"--seed={seed}", f"--minutes={fuzzing}"],
        "serving": [f"--seed={seed}", f"--minutes={serving}"],
        "workers": [f"--seed={seed}"],
        "partition": [f"--seed={seed}"],
        "long_run": [f"--steps={steps}"],
    }


def _module(figures: dict[str, Any], name: str, flags: list[str], end: float) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / FIGURES
        command = [sys.executable, "-m", f"tests.faults.{name}", str(path), *flags]
        if not _run(command, end, None):
            _not_reached(figures, name)
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
        if not _run(command, end, environment(library)):
            _not_reached(figures, "kills")
        if (path / FIGURES).exists():
            add_kills(figures, json.loads((path / FIGURES).read_text()))


def _builder(
    figures: dict[str, Any], seed: int, minutes: float, line_mb: float, end: float
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / FIGURES
        command = [sys.executable, "-m", "tests.faults.builder", str(path), f"--seed={seed}"]
        command += ["--rounds=100", f"--minutes={minutes}"]
        command += [f"--line_mb={line_mb}", "--line=words"] if line_mb else []
        if not _run(command, end, None):
            _not_reached(figures, "builder")
        if path.exists():
            add_builder(figures, json.loads(path.read_text()))


def _corruption(figures: dict[str, Any], seed: int, count: int, end: float) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "trials.jsonl"
        command = [sys.executable, "-m", "tests.faults.corruption", str(path)]
        command += [f"--seed={seed}", f"--trials={count}"]
        while True:
            before = len(read_trials(path))
            if _run(command, end, None):
                trials = read_trials(path)
                break
            if time.monotonic() > end:
                trials = without_killed(read_trials(path))
                break
            if len(read_trials(path)) == before:
                raise RuntimeError("The trials of damages do not start")
    if not trials:
        _not_reached(figures, "corruption")
    for trial in trials:
        kept = figures["corruption"].setdefault(trial.target, {})
        kept[trial.outcome] = kept.get(trial.outcome, 0) + 1
        if trial.outcome in VIOLATIONS:
            figures["violations"].append(" | ".join(map(str, trial)))


def without_killed(trials: Sequence[Trial]) -> list[Trial]:
    """Returns trials of a process that was killed when its time was over.

    The last one may have been under way, which is recorded as one that ends the process.
    """
    return [*trials[:-1], *(trial for trial in trials[-1:] if trial.outcome != CRASH)]


def _run(command: list[str], end: float, variables: dict[str, str] | None) -> bool:
    """Runs a command until the time is over; returns whether it ended before."""
    with subprocess.Popen(
        command,
        cwd=ROOT,
        env=variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            _, errors = process.communicate(timeout=max(1.0, end - time.monotonic()))
        except subprocess.TimeoutExpired:
            # With the programs that it has started.
            os.killpg(process.pid, signal.SIGKILL)
            return False
    if process.returncode > 1:
        raise RuntimeError(errors[-3000:])
    return process.returncode >= 0


def main() -> None:
    """Reads the flags; exits with 1 if anything was found."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--minutes", type=float, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--output", type=pathlib.Path, default=pathlib.Path("soak"))
    parser.add_argument("--part", action="append", choices=PARTS)
    parser.add_argument("--add", action="store_true", help="add to the figures that there are")
    options = parser.parse_args()
    parts = options.part or PARTS
    figures = soak(options.minutes, options.seed, options.output, parts, adds=options.add)
    print("\n".join(figures["violations"]) or "No promise was broken.")
    sys.exit(bool(figures["violations"]))


if __name__ == "__main__":
    main()
