"""The files of checkpoints: which of them are whole, and which is the newest.

A checkpoint PREFIX has `PREFIX.index`, `PREFIX.data-…` and a manifest with their sizes and
SHA-256 (see `checkpoint_writing.py`). Checkpoints of older versions and other
programs have no manifest: every tensor is read and compared with the checksums in the index.
TensorFlow's `checkpoint` file names the one that was written last, but the files decide.

TensorFlow is imported only for checkpoints without a manifest.
"""

import contextlib
import functools
import hashlib
import json
import os
import pathlib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from electra_tf.util.console import warn_once
from electra_tf.util.errors import UserError
from electra_tf.util.plain_paths import plain_path

CHECKPOINT_NAME = "ckpt"
INDEX = ".index"
MANIFEST = ".manifest.json"
STATE_FILE = "checkpoint"
# Folder in which the files of a checkpoint are written before they get their names.
UNFINISHED = ".unfinished"
_FILE = re.compile(r"(?P<name>.+)\.(?:index|manifest\.json|data-\d{5}-of-\d{5})")
_NUMBERED = re.compile(r"(?P<stem>.+)-(?P<step>\d+)")
_STATE = re.compile(r'^model_checkpoint_path: "(?P<path>[^"\0]+)"$', re.MULTILINE)


class _Found(NamedTuple):
    """A checkpoint in a folder: its name, such as ckpt-200, the stem ckpt and the step."""

    name: str
    stem: str
    step: int


def step_of(prefix: str) -> int:
    """Returns the step in a name such as `…/ckpt-200`; -1 without one."""
    match = _NUMBERED.fullmatch(os.path.basename(prefix))
    return int(match["step"]) if match else -1


def checkpoint_path(folder: str, step: int) -> str:
    """Returns the prefix of this project's checkpoint of a step, FOLDER/ckpt-STEP."""
    return os.path.join(folder, f"{CHECKPOINT_NAME}-{step}")


def checkpoint_steps(folder: str) -> list[int]:
    """Returns the steps of this project's checkpoints in a folder, whole or not, ascending."""
    found = _checkpoints(folder)
    return sorted(each.step for each in found if each.stem == CHECKPOINT_NAME)


def newest_whole(folder: str, stem: str | None = CHECKPOINT_NAME) -> str | None:
    """Returns the prefix of the newest whole checkpoint in a folder.

    Newer checkpoints that are not whole are skipped, with a warning that names the problem. A
    `checkpoint` file that is missing, damaged, or names another checkpoint is ignored with a
    warning, too.

    Args:
        folder: a folder of the file system; need not exist.
        stem: first part of the names `stem-STEP`; None for any single one, such as that of a
            checkpoint of the authors' code.

    Returns:
        None if there are no checkpoints.

    Raises:
        UserError: there are checkpoints, but none is whole, or their names differ by more than
            the step and the `checkpoint` file names none of them.
    """
    every = _checkpoints(folder)
    named, problem = _named_by_state(folder)
    if stem is None:
        stem = _only_stem(folder, every, named)
    every = sorted((f for f in every if f.stem == stem), key=lambda found: -found.step)
    if not every:
        return None
    problems = []
    for found in every:
        prefix = os.path.join(folder, found.name)
        reason = problem_of(prefix)
        if reason is None:
            _warn_of_passed(problems, prefix)
            _warn_of_state(folder, named, problem, [f.name for f in every], found.name)
            return prefix
        problems.append(f"{prefix}: {reason}")
    raise UserError(
        f"{folder} has checkpoints, but none of them is intact. Restore their files from a "
        "copy, or delete them to start over:\n  " + "\n  ".join(problems)
    )


def warn_of_lost_checkpoints(folder: str) -> None:
    """Warns if the `checkpoint` file of a folder without checkpoints names one."""
    named, _ = _named_by_state(folder)
    if named is not None:
        warn_once(
            f"{os.path.join(folder, STATE_FILE)} names {named}, but there is no checkpoint in "
            f"{folder}: training starts from the first step, and the log begins again. To "
            "resume instead, stop it and restore the files of the checkpoint"
        )


def checkpoint_names(folder: str) -> list[str]:
    """Returns the names of all checkpoints in a folder, of any program, whole or not."""
    return sorted(found.name for found in _checkpoints(folder))


def checkpoint_of(file: str) -> str | None:
    """Returns the name of the checkpoint that a file belongs to, or None."""
    match = _FILE.fullmatch(file)
    return match["name"] if match else None


def require_whole(prefix: str) -> None:
    """Raises UserError unless the checkpoint of a prefix is whole; see `problem_of`."""
    problem = problem_of(prefix)
    if problem is not None:
        raise UserError(f"The checkpoint {prefix} is not intact: {problem}")


def problem_of(prefix: str) -> str | None:
    """Returns what is wrong with the files of a checkpoint, or None if it is whole.

    Files that have not changed since are not read again.
    """
    folder, name = os.path.split(prefix)
    try:
        entries = [entry for entry in os.scandir(folder or ".") if _belongs(entry.name, name)]
        states = tuple(
            sorted((e.name, e.stat().st_size, e.stat().st_mtime_ns) for e in entries)
        )
    except OSError as error:
        return f"{error.filename} cannot be read: {error.strerror}"
    return _problem(prefix, states)


@functools.lru_cache(maxsize=64)
def _problem(prefix: str, states: tuple[tuple[str, int, int], ...]) -> str | None:
    name = os.path.basename(prefix)
    sizes = {file: size for file, size, _ in states}
    if name + INDEX not in sizes:
        return f"{name}{INDEX} is missing"
    if not any(file.startswith(f"{name}.data-") for file in sizes):
        return f"{name}.data-00000-of-00001 is missing"
    if name + MANIFEST in sizes:
        manifest = _read_manifest(prefix)
        if manifest is not None:
            return _difference(os.path.dirname(prefix), sizes, manifest)
        warn_once(f"{prefix}{MANIFEST} is damaged: the checkpoint is read to check it")
    return _reading_error(prefix)


def _difference(
    folder: str, sizes: Mapping[str, int], manifest: Mapping[str, Mapping[str, Any]]
) -> str | None:
    for file, recorded in manifest.items():
        if file not in sizes:
            return f"{file} is missing"
        if sizes[file] != recorded["bytes"]:
            return f"{file} has {sizes[file]:,} bytes instead of {recorded['bytes']:,}"
    for file, recorded in manifest.items():
        try:
            if sha256(os.path.join(folder, file)) != recorded["sha256"]:
                return f"{file} has changed since it was written (its SHA-256 differs)"
        except OSError as error:
            return f"{file} cannot be read: {error.strerror}"
    return None


def _reading_error(prefix: str) -> str | None:
    try:
        for _ in read_tensors(prefix):
            pass
    except UserError as error:
        return str(error)
    return None


def read_tensors(prefix: str) -> Iterator[tuple[str, np.ndarray]]:
    """Yields name and value of every tensor, compared with the checksums in the index.

    Raises:
        UserError: a file cannot be read.
    """
    with _open_reader(prefix) as reader:
        for name in reader.get_variable_to_shape_map():
            yield name, reader.get_tensor(name)


def read_shapes(prefix: str) -> dict[str, list[int]]:
    """Returns the shape of every tensor; reads the index only, and raises as `read_tensors`."""
    with _open_reader(prefix) as reader:
        return dict(reader.get_variable_to_shape_map())


@contextlib.contextmanager
def _open_reader(prefix: str) -> Iterator[Any]:
    import tensorflow as tf

    try:
        with plain_path(prefix) as readable:
            yield tf.train.load_checkpoint(readable)
    except Exception as error:  # the reader raises IndexError for a short file, and more
        message = " ".join(str(error).split())[:200]
        raise UserError(f"The checkpoint {prefix} cannot be read: {message}") from error


def sha256(path: str) -> str:
    """Returns the SHA-256 of a file, in hexadecimal."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _read_manifest(prefix: str) -> dict[str, dict[str, Any]] | None:
    """Returns size and SHA-256 by file name; None if the manifest is damaged."""
    try:
        files = json.loads(pathlib.Path(prefix + MANIFEST).read_bytes())["files"]
        recorded = {
            file: {"bytes": int(entry["bytes"]), "sha256": str(entry["sha256"])}
            for file, entry in files.items()
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return recorded if os.path.basename(prefix) + INDEX in recorded else None


def _belongs(file: str, name: str) -> bool:
    match = _FILE.fullmatch(file)
    return match is not None and match["name"] == name


def _checkpoints(folder: str) -> list[_Found]:
    """Returns all checkpoints in a folder, except one whose writer was killed."""
    try:
        files = os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise UserError(f"{folder} cannot be read: {error.strerror}") from error
    names = {match["name"] for file in files if (match := _FILE.fullmatch(file))}
    names -= {
        name for name in names if name + UNFINISHED in files and name + INDEX not in files
    }
    found = []
    for name in names:
        match = _NUMBERED.fullmatch(name)
        found.append(_Found(name, match["stem"] if match else name, step_of(name)))
    return found


def _only_stem(folder: str, every: Sequence[_Found], named: str | None) -> str | None:
    stems = {found.stem for found in every}
    named_stems = {found.stem for found in every if found.name == named}
    if len(stems) > 1 and not named_stems:
        raise UserError(
            f"The folder {folder} has no `{STATE_FILE}` file that names a checkpoint in it, "
            f"and its checkpoints belong to several runs ({', '.join(sorted(stems))}): pass "
            "the prefix of one, such as FOLDER/model.ckpt-1000000"
        )
    return next(iter(named_stems or stems), None)


def _named_by_state(folder: str) -> tuple[str | None, str | None]:
    """Returns the name in the `checkpoint` file, and what is wrong with the file."""
    path = os.path.join(folder, STATE_FILE)
    try:
        content = pathlib.Path(path).read_text(encoding="utf-8")
    except FileNotFoundError:
        return None, f"{path} is missing"
    except (OSError, ValueError):
        return None, f"{path} is damaged"
    match = _STATE.search(content)
    return (os.path.basename(match["path"]), None) if match else (None, f"{path} is damaged")


def _warn_of_passed(problems: Sequence[str], used: str) -> None:
    for problem in problems:
        warn_once(f"Skipped a damaged checkpoint: {problem}. Using {used}")


def _warn_of_state(
    folder: str, named: str | None, problem: str | None, every: Sequence[str], used: str
) -> None:
    # The authors' checkpoints may come without a state file; skipped ones have been reported.
    if problem is not None and used.startswith(f"{CHECKPOINT_NAME}-"):
        warn_once(f"{problem}: using {used}, the newest complete checkpoint beside it")
    elif named is not None and named != used and named not in every[: every.index(used)]:
        there = "" if named in every else ", which does not exist"
        warn_once(
            f"{os.path.join(folder, STATE_FILE)} names {named}{there}: using {used}, the "
            "newest complete checkpoint"
        )
