"""Finds the files of `recipes/`, which the wheel includes."""

import itertools
import os
import pathlib
import re
from collections.abc import Sequence

_FOLDER = "recipes"
_FLAGFILE = "--flagfile"


def find_recipe(path: str) -> str:
    """Returns the path of a file, which may be one of the installed recipes.

    A file in the working folder takes precedence. Otherwise, a relative path that begins with
    `recipes/` is looked up among the installed recipes. A path that exists in neither place is
    returned as given.
    """
    parts = pathlib.PurePath(path).parts
    if len(parts) < 2 or parts[0] != _FOLDER or os.path.exists(path):
        return path
    installed = recipes_dir().joinpath(*parts[1:])
    return str(installed) if installed.exists() else path


def find_flagfiles(arguments: Sequence[str]) -> list[str]:
    """Returns the arguments with the path of each `--flagfile` looked up.

    A file that includes an installed recipe is replaced by its flags, because absl looks for
    included files only in the working folder.
    """
    found: list[str] = []
    for argument in arguments:
        name, equals, value = argument.partition("=")
        if name == _FLAGFILE and equals:
            path = find_recipe(value)
            found += _read_flags(path) if _includes_recipe(path) else [f"{name}={path}"]
        elif found and found[-1] == _FLAGFILE:
            path = find_recipe(argument)
            found[-1:] = _read_flags(path) if _includes_recipe(path) else [_FLAGFILE, path]
        else:
            found.append(argument)
    return found


def _includes_recipe(path: str) -> bool:
    """Whether a flag file includes an installed recipe, directly or through another file."""
    included = [line for each in with_included([path]) for line in _lines(each)]
    return any(find_recipe(value) != value for value in _flagfile_values(included))


def _read_flags(path: str, including: tuple[str, ...] = ()) -> list[str]:
    """Returns the flags of a flag file and of those that it includes, in their order."""
    found: list[str] = []
    for line in _lines(path, errors="strict"):
        for included in map(find_recipe, _flagfile_values([line])):
            if not os.path.isfile(included):
                found.append(f"{_FLAGFILE}={included}")  # absl reports that it is missing
            elif included not in (*including, path):
                found += _read_flags(included, (*including, path))
        if line.strip() and not re.match(r"#|//|--?flagfile=", line):
            found.append(line.strip())
    return found


def _lines(path: str, errors: str = "replace") -> list[str]:
    if not os.path.isfile(path):
        return []
    return pathlib.Path(path).read_text(errors=errors).split("\n")


def given_flagfiles(arguments: Sequence[str]) -> list[str]:
    """Returns the path of each `--flagfile`, looked up, and of those that they include."""
    paths = [path for name, path in itertools.pairwise(arguments) if name == _FLAGFILE]
    return with_included([*map(find_recipe, paths + _flagfile_values(arguments))])


def with_included(paths: Sequence[str]) -> list[str]:
    """Returns the paths of flag files, and of those that they include.

    A missing file includes none; its reader reports it.
    """
    pending = list(paths)
    found: list[str] = []
    while pending:
        path = pending.pop(0)
        if path not in found:
            found.append(path)
            pending += map(find_recipe, _flagfile_values(_lines(path)))
    return found


def _flagfile_values(arguments: Sequence[str]) -> list[str]:
    """Returns the values of `--flagfile=` in arguments or lines, as absl parses them."""
    matches = (re.match(r"--?flagfile=(.+)", argument) for argument in arguments)
    return [os.path.expanduser(match[1].strip()) for match in matches if match]


def recipes_dir() -> pathlib.Path:
    """Returns the folder of the recipes, in the wheel or in the checkout."""
    package = pathlib.Path(__file__).resolve().parents[1]
    installed = package / _FOLDER
    return installed if installed.is_dir() else package.parent / _FOLDER
