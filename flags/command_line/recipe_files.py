"""Finds the files of `recipes/`, which the wheel brings along."""

import itertools
import os
import pathlib
import re
from collections.abc import Sequence

_FOLDER = "recipes"
_FLAGFILE = "--flagfile"


def find_recipe(path: str) -> str:
    """Returns the path of a file, which may be one of the installed recipes.

    A file of the working folder wins: only a relative path that begins with `recipes/` and
    is not there is looked for among the recipes of this installation. A path that is in
    neither place is returned as given.
    """
    parts = pathlib.PurePath(path).parts
    if len(parts) < 2 or parts[0] != _FOLDER or os.path.exists(path):
        return path
    installed = recipes_dir().joinpath(*parts[1:])
    return str(installed) if installed.exists() else path


def find_flagfiles(arguments: Sequence[str]) -> list[str]:
    """Returns the arguments with the path of each `--flagfile` looked up."""
    found: list[str] = []
    for argument in arguments:
        name, equals, value = argument.partition("=")
        if name == _FLAGFILE and equals:
            argument = f"{name}={find_recipe(value)}"
        elif found and found[-1] == _FLAGFILE:
            argument = find_recipe(argument)
        found.append(argument)
    return found


def given_flagfiles(arguments: Sequence[str]) -> list[str]:
    """Returns the path of each `--flagfile`, looked up, and of those that they include."""
    looked_up = find_flagfiles(arguments)
    paths = [path for name, path in itertools.pairwise(looked_up) if name == _FLAGFILE]
    return with_included(paths + _values_of_flagfile(looked_up))


def with_included(paths: Sequence[str]) -> list[str]:
    """Returns the paths of flag files, and of those that they include.

    A missing file includes none; its reader reports it.
    """
    waiting = list(paths)
    found: list[str] = []
    while waiting:
        path = waiting.pop(0)
        if path not in found:
            found.append(path)
            if os.path.isfile(path):
                lines = pathlib.Path(path).read_text(errors="replace").splitlines()
                waiting += _values_of_flagfile(lines)
    return found


def _values_of_flagfile(arguments: Sequence[str]) -> list[str]:
    """Returns the values of `--flagfile=` in arguments or in lines, as absl finds these."""
    matches = (re.match(r"--?flagfile=(.+)", argument) for argument in arguments)
    return [os.path.expanduser(match[1].strip()) for match in matches if match]


def recipes_dir() -> pathlib.Path:
    """Returns the folder of the recipes: of the wheel, or of the checkout."""
    package = pathlib.Path(__file__).resolve().parents[1]
    installed = package / _FOLDER
    return installed if installed.is_dir() else package.parent / _FOLDER
