"""Absl flags made from the fields of a configuration dataclass."""

import dataclasses
import os
import re
import sys
import types
from collections.abc import Mapping, Sequence
from typing import Any

from absl import flags

from electra_tf.config.hyperparameters import VALUE_KINDS, check_range, value_type
from electra_tf.util.console import warn_once
from electra_tf.util.errors import UserError, nearest_name_hint
from electra_tf.util.files import parse_json, read_given_text
from electra_tf.util.paths import is_remote, with_home
from flags.command_line.pipes import refuse_pipes
from flags.command_line.recipe_files import find_recipe

# Hyperparameters that may be a file of `recipes/`.
_RECIPE_FILES = ("task_spec", "vocab_file")
# Beginning of a worker's address in IPv6, such as [::1]:2222, which is not a JSON list.
_IPV6 = re.compile(r"\s*\[[^\[\]]*\]:")
_TRUE, _FALSE = ("true", "t", "1", "yes"), ("false", "f", "0", "no")


def define_flags(config_class: type, flag_values: flags.FlagValues = flags.FLAGS) -> None:
    """Defines one flag per field, and `--hparams`.

    Every flag defaults to None, meaning "not given"; its help text names the real default.

    Args:
        config_class: dataclass whose fields are made with
            `electra_tf.config.hyperparameters.hyperparameter`.
        flag_values: where the flags are defined.
    """
    for field in dataclasses.fields(config_class):
        help_text = field.metadata["help"]
        if field.default not in (None, "", ()):
            help_text += f" Default: {spell_default(field.default)}."
        options = {"flag_values": flag_values, "module_name": sys.argv[0]}
        kind = value_type(field)
        if kind is bool:
            flags.DEFINE_boolean(field.name, None, help_text, **options)
        elif kind is int:
            flags.DEFINE_integer(field.name, None, help_text, **options)
        elif kind is float:
            flags.DEFINE_float(field.name, None, help_text, **options)
        elif field.metadata["choices"]:
            flags.DEFINE_enum(
                field.name, None, list(field.metadata["choices"]), help_text, **options
            )
        else:
            flags.DEFINE_string(field.name, None, help_text, **options)
    flags.DEFINE_string(
        "hparams",
        None,
        "Hyperparameters as a JSON object or the path of a .json file; flags override it.",
        flag_values=flag_values,
        module_name=sys.argv[0],
    )


def explicit_values(
    config_class: type,
    flag_values: flags.FlagValues,
    retired: Mapping[str, str] = types.MappingProxyType({}),
) -> dict[str, Any]:
    """Returns the values given in `--hparams`, overridden by the flags.

    Args:
        config_class: dataclass of the hyperparameters.
        flag_values: the parsed flags.
        retired: unsupported hyperparameters of the authors' code, with the reason; they are
            ignored unless set to a true value, which is an error.

    Raises:
        UserError: for an unknown hyperparameter (with the nearest name), a value of
            the wrong type, a pipe as a file that is read several times, or JSON that does
            not parse.
    """
    fields = {field.name: field for field in dataclasses.fields(config_class)}
    values: dict[str, Any] = {}
    for name, value in read_hparams(flag_values.hparams).items():
        if name in retired:
            if value:
                raise UserError(f"{name} in --hparams: {retired[name]}")
            continue
        if name not in fields:
            hint = nearest_name_hint(name, fields)
            raise UserError(f"Unknown hyperparameter {name!r} in --hparams.{hint}")
        if value is None:
            value = fields[name].metadata["null"]
        if value is not None:
            values[name] = with_home(_convert(fields[name], value, f"{name} in --hparams"))
    refuse_pipes(values, "{name} in --hparams: {value}")
    for name, field in fields.items():
        value = flag_values[name].value
        if value is not None:
            value = with_home(_convert(field, value, f"--{name}"))
            _warn_of_overridden(name, values.get(name, value), value)
            values[name] = value
    for name in _RECIPE_FILES:
        if values.get(name):
            values[name] = find_recipe(values[name])
    return values


def _warn_of_overridden(name: str, in_hparams: Any, value: Any) -> None:
    """Warns of a value in `--hparams` that a `--flagfile` overrides, not the command line."""
    if in_hparams == value:
        return
    typed = {argument.lstrip("-").partition("=")[0] for argument in sys.argv[1:]}
    if not {name, f"no{name}"} & {each.replace("-", "_") for each in typed}:
        warn_once(
            f"{name} of --hparams ({in_hparams!r}) is overridden by --{name} of the --flagfile "
            f"({value!r}): pass --{name} after it"
        )


def read_hparams(hparams: str | None) -> dict[str, Any]:
    """Returns the JSON object of `--hparams`, which may be the path of a file.

    Raises:
        UserError: it cannot be read, or is not a JSON object.
    """
    if not hparams:
        return {}
    source = "--hparams"
    if hparams.endswith(".json"):
        source = f"--hparams={hparams}"
        if is_remote(hparams):
            raise UserError(f"{source} must be on this machine: copy it, or mount it")
        if not os.path.exists(hparams):
            raise UserError(f"{source}: no such file")
        hparams = read_given_text(hparams, source)
    values = parse_json(hparams, source)
    if not isinstance(values, dict):
        raise UserError(f'{source} must be a JSON object, such as {{"model_size": "base"}}')
    return values


def _convert(field: dataclasses.Field, value: Any, source: str) -> Any:
    """Converts `value` to the field's type, accepting the authors' spellings ("True", 1)."""
    kind = value_type(field)
    if kind is list:
        return _convert_list(field, value, source)
    wrong = UserError(f"{source} must be {VALUE_KINDS[kind]}, not {value!r}")
    if kind is dict:
        if isinstance(value, str):
            value = parse_json(value, source)
        if not isinstance(value, dict):
            raise wrong
        return value
    if kind is bool:
        if isinstance(value, bool):
            return value
        if str(value).lower() in (*_TRUE, *_FALSE):
            return str(value).lower() in _TRUE
        raise wrong
    if kind is str:
        if not isinstance(value, str):
            raise wrong
        return value
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise wrong
    check_range(kind, value, source)
    if kind is int and value != int(value):
        raise wrong
    return kind(value)


def convert_scalar(field: dataclasses.Field, value: Any, source: str) -> Any:
    """Returns `value` as the field's type: a boolean, a number or one of its choices.

    Args:
        field: field of a configuration.
        value: value in JSON.
        source: name of the value in errors.

    Raises:
        UserError: it has another type or is not a choice, or the field takes lists or objects.
    """
    if value_type(field) in (list, dict):
        raise UserError(f"{source} cannot be listed: its values are lists or objects")
    choices = field.metadata["choices"]
    converted = _convert(field, value, source)
    if choices and converted not in choices:
        raise UserError(f"{source} must be one of {', '.join(choices)}, not {value!r}")
    return converted


def _convert_list(field: dataclasses.Field, value: Any, source: str) -> tuple:
    """Converts a list, a JSON list or comma-separated words to a tuple."""
    if isinstance(value, str) and value.lstrip().startswith("[") and not _IPV6.match(value):
        value = parse_json(value, source)
    if isinstance(value, str):
        value = [word.strip() for word in value.split(",") if word.strip()]
    kind, article = (int, "whole numbers") if field.type == Sequence[int] else (str, "names")
    wrong = UserError(f"{source} must be a list of {article}, not {value!r}")
    if not isinstance(value, list):
        raise wrong
    if not all(isinstance(v, str | int) and not isinstance(v, bool) for v in value):
        raise wrong
    try:
        return tuple(kind(v) for v in value)
    except ValueError:
        raise wrong from None


def spell_default(value: Any) -> str:
    """Formats a default value as on a command line."""
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else f"{value}"
