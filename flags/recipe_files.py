"""Finds the files of `recipes/`, which the wheel brings along."""

import itertools
import os
import pathlib
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
    """Returns the path of each `--flagfile` in the arguments, looked up."""
    looked_up = find_flagfiles(arguments)
    joined = [
        each.removeprefix(f"{_FLAGFILE}=")
        for each in looked_up
        if each.startswith(f"{_FLAGFILE}=")
    ]
    return joined + [path for name, path in itertools.pairwise(looked_up) if name == _FLAGFILE]


def recipes_dir() -> pathlib.Path:
    """Returns the folder of the recipes: of the wheel, or of the checkout."""
    package = pathlib.Path(__file__).resolve().parent
    installed = package / _FOLDER
    return installed if installed.is_dir() else package.parent / _FOLDER
