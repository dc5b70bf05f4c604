"""Packages in which every module is one choice of a flag, found by its file's name.

A choice is added by adding its module. Names are found without importing the modules, so
that flags can be checked before TensorFlow is.
"""

import dataclasses
import importlib
import inspect
import pathlib
from collections.abc import Mapping
from typing import Any

from electra_tf.util.errors import UserError, nearest_name_hint

_PACKAGE = pathlib.Path(__file__).parent


def plugin_names(package: str) -> tuple[str, ...]:
    """Returns the names of the modules in `electra_tf/PACKAGE`, sorted."""
    files = (_PACKAGE / package).glob("*.py")
    return tuple(sorted(file.stem for file in files if not file.stem.startswith("_")))


def load_plugin(package: str, name: str, base: type) -> type:
    """Returns the subclass of `base` that the module of a name defines and is called after.

    Raises:
        ImportError: the module has not exactly one such class that no other derives from.
    """
    module = importlib.import_module(f"electra_tf.{package}.{name}")
    found = [
        value
        for value in vars(module).values()
        if inspect.isclass(value)
        and issubclass(value, base)
        and value.__module__ == module.__name__
    ]
    if len(found) != 1:
        raise ImportError(f"{module.__name__} defines {len(found)} subclasses of {base}, not 1")
    return found[0]


def parse_hparams(hparams_class: type, given: Mapping[str, Any], flag: str) -> Any:
    """Returns a plugin's own hyperparameters: its defaults under what is given.

    Args:
        hparams_class: frozen dataclass of bools, integers, floats and strings.
        given: values by field.
        flag: that errors name.

    Raises:
        UserError: for an unknown name (with the nearest) or a value of another type.
    """
    fields = {field.name: field for field in dataclasses.fields(hparams_class)}
    values = {}
    for name, value in given.items():
        if name not in fields:
            known = f" Known are {', '.join(fields)}." if fields else " None is known here."
            hint = nearest_name_hint(name, fields)
            raise UserError(f"Unknown key {name!r} in {flag}.{hint or known}")
        wanted = fields[name].type
        if wanted is float and isinstance(value, int) and not isinstance(value, bool):
            value = float(value)
        if type(value) is not wanted:
            raise UserError(
                f"{name} in {flag} must be of type {wanted.__name__}, not {value!r}"
            )
        values[name] = value
    return hparams_class(**values)
