"""Compares what two runs have left: names of files, weights, moments, logs, records."""

import json
import pathlib
import re
from collections.abc import Iterator
from typing import Any

import numpy as np

from electra_tf.util.seals import SEAL

# Differ between any two runs: times, places and names of the machine.
_MEASURED = re.compile(r".*per_second|seconds.*|mfu")
_IGNORED = re.compile(
    r".*/tensorboard/.*|.*\.lock|.*_curves\.png|.*_reliability\.png|.*\.pb|.*checksums\.json|.*fingerprint.*"
)
# Of what has times or places in it.
_CHECKSUMS = ("sha256", SEAL)
_TIME = re.compile(r"\d+(\.\d+)? ?s\b|\d+:\d\d(:\d\d)?")
_PORT = re.compile(r"(?<=\.\d:)\d+")
_INDEX = ".index"


def newest_step(folder: pathlib.Path) -> int:
    """Returns the sum of the newest steps of all models, which must never become less."""
    from electra_tf.training.checkpoints.checkpoint_files import (
        UNFINISHED,
        checkpoint_steps,
        newest_whole,
        step_of,
    )

    total = 0
    for each in sorted({path.parent for path in folder.rglob(f"ckpt-*{_INDEX}")}):
        if not each.name.endswith(UNFINISHED) and checkpoint_steps(str(each)):
            total += step_of(newest_whole(str(each)) or "") + 1
    return total


def compare(expected: pathlib.Path, actual: pathlib.Path, tolerance: float) -> list[str]:
    """Returns what differs, a line each; called in a process of its own.

    Args:
        expected, actual: folders of the runs.
        tolerance: of numbers.
    """
    theirs, ours = (_outcome(folder) for folder in (expected, actual))
    problems = [f"{name} is missing" for name in sorted(theirs.keys() - ours.keys())]
    problems += [f"{name} is left over" for name in sorted(ours.keys() - theirs.keys())]
    for name in sorted(theirs.keys() & ours.keys()):
        problem = _difference(theirs[name], ours[name], tolerance)
        if problem:
            problems.append(f"{name}: {problem}")
    return problems


def _outcome(folder: pathlib.Path) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for path in sorted(folder.rglob("*")):
        name = f"/{path.relative_to(folder)}"
        if not _IGNORED.fullmatch(name) and path.is_file():
            found |= {f"{name}{key}": value for key, value in _content(path, folder)}
    return found


def _content(path: pathlib.Path, folder: pathlib.Path) -> Iterator[tuple[str, Any]]:
    """Yields parts of a file that are compared, by name; arrays and bytes."""
    if path.name.endswith(_INDEX) or "variables.data" in path.name or ".data-" in path.name:
        if path.name.endswith(_INDEX):
            yield from _tensors(str(path).removesuffix(_INDEX))
    elif path.name.endswith(".manifest.json"):
        yield "", b""  # the checksums of a checkpoint
    elif path.suffix == ".jsonl":
        for number, line in enumerate(path.read_text().splitlines()):
            yield f" line {number}", _plain(json.loads(line))
    elif path.suffix == ".json":
        yield "", _plain(json.loads(path.read_text()), str(folder))
    elif path.suffix in (".txt", ".md"):
        yield "", _TIME.sub("TIME", path.read_text().replace(str(folder), "")).encode()
    else:
        yield "", path.read_bytes()


def _tensors(prefix: str) -> Iterator[tuple[str, Any]]:
    import tensorflow as tf

    reader = tf.train.load_checkpoint(prefix)
    for name in reader.get_variable_to_shape_map():
        value = reader.get_tensor(name)
        yield f" {name}", value if isinstance(value, np.ndarray) else b""


def _plain(value: Any, folder: str = "") -> Any:
    """Returns JSON without what is measured, and with places from the folder."""
    if isinstance(value, dict):
        return {
            name: _plain(each, folder)
            for name, each in value.items()
            if not _MEASURED.fullmatch(name) and name not in _CHECKSUMS
        }
    if isinstance(value, list):
        return [_plain(each, folder) for each in value]
    return _PORT.sub("PORT", value.replace(folder, "")) if isinstance(value, str) else value


def _difference(expected: Any, actual: Any, tolerance: float) -> str | None:
    if isinstance(expected, np.ndarray):
        if expected.dtype != actual.dtype or expected.shape != actual.shape:
            return f"{actual.dtype}{actual.shape} instead of {expected.dtype}{expected.shape}"
        if expected.tobytes() == actual.tobytes():
            return None
        worst = float(np.abs(expected.astype(np.float64) - actual.astype(np.float64)).max())
        return None if worst <= tolerance else f"differs by {worst:.3g}"
    if isinstance(expected, bytes) or not tolerance:
        return None if expected == actual else f"{actual!r:.300} instead of {expected!r:.300}"
    return number_difference(expected, actual, tolerance)


def number_difference(expected: Any, actual: Any, tolerance: float) -> str | None:
    """Compares JSON values, numbers up to the tolerance times the largest of 1 and theirs."""
    if isinstance(expected, dict) and isinstance(actual, dict):
        if expected.keys() != actual.keys():
            return f"{sorted(actual)} instead of {sorted(expected)}"
        pairs = [(expected[name], actual[name]) for name in expected]
    elif isinstance(expected, list) and isinstance(actual, list):
        if len(expected) != len(actual):
            return f"{len(actual)} instead of {len(expected)} values"
        pairs = [*zip(expected, actual, strict=True)]
    elif isinstance(expected, float) and isinstance(actual, float):
        allowed = tolerance * max(1.0, abs(expected))
        return None if abs(expected - actual) <= allowed else f"{actual} instead of {expected}"
    else:
        return None if expected == actual else f"{actual!r:.200} instead of {expected!r:.200}"
    found = [number_difference(*pair, tolerance) for pair in pairs]
    return next((each for each in found if each), None)
