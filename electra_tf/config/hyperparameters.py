"""Hyperparameter fields, which `flags/` turns into command-line flags."""

import dataclasses
import numbers
import os
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from electra_tf.util.errors import UserError, nearest_name_hint

PRECISIONS = ("float32", "mixed_bfloat16", "mixed_float16")
OPTIMIZERS = ("adam", "lamb")
RANGE = "range"
# Number of valid NumPy seeds.
MAX_SEEDS = 2**32
# Limit of hyperparameters that models use as float32 numbers.
FLOAT_LIMIT = 1e30
# Limit of hyperparameters that are sizes of tensors, whose dimensions are int32 numbers.
SIZE_LIMIT = 2**31
# Largest numbers of float32 and int64.
_MAX_VALUES: Mapping[type, float] = {float: 3.4e38, int: 2**63 - 1}
# What a hyperparameter influences: the trained weights; only the reported values; neither.
# Synonyms of other hyperparameters are not compared.
TRAINING, EVALUATION, NOTHING, SYNONYM = "training", "evaluation", "nothing", "synonym"
# Types of values, in errors.
VALUE_KINDS: Mapping[type, str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "a string",
    dict: "a JSON object",
    list: "a list",
}


def hyperparameter(
    default: Any,
    help_text: str,
    choices: Collection[str] | None = None,
    *,
    influence: str = TRAINING,
    null: Any = None,
) -> Any:
    """Returns a dataclass field that `flags/` turns into a flag with `help_text`.

    Args:
        default: default value.
        help_text: help of the flag.
        choices: valid values, or a registry with them as keys; None allows all.
        influence: what a change influences, see `electra_tf.config.recorded_settings`.
        null: value of a JSON null in `--hparams`, if the authors' code gives it a meaning; None
            keeps the default.
    """
    return dataclasses.field(
        default=default,
        metadata={
            "help": help_text,
            "choices": choices,
            "influence": influence,
            "null": null,
        },
    )


def value_type(field: dataclasses.Field) -> type:
    """Returns the type of a field's values other than None: one of `VALUE_KINDS`, or list."""
    for kind in (bool, int, float, str):
        if field.type in (kind, kind | None):
            return kind
    return list if field.type in (Sequence[str], Sequence[int]) else dict


def checked_values(config_class: type, given: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the hyperparameters that are not None, as plain Python values.

    NumPy's numbers, also in mappings, and paths are converted to values that JSON can
    represent.

    Args:
        config_class: dataclass of the hyperparameters.
        given: values by name.

    Raises:
        UserError: there is no such hyperparameter, or a value is of another type.
    """
    fields = {field.name: field for field in dataclasses.fields(config_class)}
    for name in given:
        if name not in fields:
            hint = nearest_name_hint(name, fields)
            raise UserError(f"Unknown hyperparameter {name!r}.{hint}")
    return {
        name: _plain_value(fields[name], _without_numpy(value))
        for name, value in given.items()
        if value is not None
    }


def _without_numpy(value: Any) -> Any:
    """Converts NumPy scalars, also in a mapping, to Python's; returns other values as given."""
    if isinstance(value, Mapping):
        return {name: _without_numpy(each) for name, each in value.items()}
    # Without importing NumPy, which would delay every --help.
    is_numpy = type(value).__module__ == "numpy" and getattr(value, "ndim", None) == 0
    return value.item() if is_numpy else value


def _plain_value(field: dataclasses.Field, value: Any) -> Any:
    kind = value_type(field)
    if kind is str and isinstance(value, os.PathLike):
        return os.fspath(value)
    is_number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    fits = {
        bool: isinstance(value, bool),
        int: is_number and value % 1 == 0,
        float: is_number,
        str: isinstance(value, str),
        dict: isinstance(value, Mapping) and all(isinstance(key, str) for key in value),
        list: isinstance(value, Collection) and not isinstance(value, (str, bytes, Mapping)),
    }
    if not fits[kind]:
        raise UserError(f"--{field.name} must be {VALUE_KINDS[kind]}, not {value!r:.80}")
    if kind is list:
        return _plain_list(field, value)
    if kind in _MAX_VALUES:
        check_range(kind, value, f"--{field.name}")
        return kind(value)
    return value


def _plain_list(field: dataclasses.Field, values: Collection[Any]) -> tuple[Any, ...]:
    kind, noun = (int, "whole numbers") if field.type == Sequence[int] else (str, "strings")
    wanted = numbers.Integral if kind is int else str
    if not all(isinstance(v, wanted) and not isinstance(v, bool) for v in values):
        raise UserError(f"--{field.name} must be a list of {noun}, not {list(values)!r:.80}")
    return tuple(map(kind, values))


def check_range(kind: type, value: float, source: str) -> None:
    """Raises UserError if a number is NaN, infinite or too large to compute with.

    Args:
        kind: int or float.
        value: the number.
        source: name of the value in errors.
    """
    limit = _MAX_VALUES[kind]
    if not -limit <= value <= limit:  # nor NaN
        raise UserError(
            f"{source} must be {VALUE_KINDS[kind]} from {-limit:g} to {limit:g}, not "
            f"{value!r:.40}"
        )


def parse_hparams(hparams_class: type, given: Mapping[str, Any], flag: str) -> Any:
    """Builds the hyperparameters of an objective or masking strategy from given values.

    Args:
        hparams_class: frozen dataclass of bools, integers, floats and strings.
        given: values by field name; the others keep their defaults.
        flag: flag to name in errors.

    Raises:
        UserError: unknown name (the message suggests the nearest) or wrong type.
    """
    fields = {field.name: field for field in dataclasses.fields(hparams_class)}
    values = {}
    for name, value in given.items():
        if name not in fields:
            known = f" Known: {', '.join(fields)}." if fields else " It has no keys."
            hint = nearest_name_hint(name, fields)
            raise UserError(f"Unknown key {name!r} in {flag}.{hint or known}")
        wanted = fields[name].type
        if wanted is float and isinstance(value, int) and not isinstance(value, bool):
            value = float(value)
        if type(value) is not wanted:
            raise UserError(f"{name} in {flag} must be {VALUE_KINDS[wanted]}, not {value!r}")
        low, high = fields[name].metadata.get(RANGE, (-FLOAT_LIMIT, FLOAT_LIMIT))
        if wanted in (int, float) and not low <= value <= high:  # nor NaN
            is_low = value < low and high == FLOAT_LIMIT
            limits = f"at least {low:g}" if is_low else f"from {low:g} to {high:g}"
            raise UserError(f"{name} in {flag} must be {limits}, not {value}")
        values[name] = value
    return hparams_class(**values)


def within(default: float, low: float, high: float = FLOAT_LIMIT) -> Any:
    """Returns a number in the hyperparameters of an objective or masking strategy.

    Args:
        default: default value.
        low, high: minimum and maximum.
    """
    return dataclasses.field(default=default, metadata={RANGE: (low, high)})


def check_positive(config: Any, names: Sequence[str]) -> None:
    """Raises UserError if a hyperparameter is 0 or less; None is not given."""
    for name in names:
        value = getattr(config, name)
        if value is not None and not value > 0:
            raise UserError(f"--{name} must be positive, not {value}")


def check_sizes(config: Any, names: Sequence[str]) -> None:
    """Raises UserError if a hyperparameter is too large for the size of a tensor."""
    for name in names:
        value = getattr(config, name)
        if value is not None and value >= SIZE_LIMIT:
            raise UserError(f"--{name} must be less than {SIZE_LIMIT}, not {value}")


def check_not_negative(config: Any, names: Sequence[str]) -> None:
    """Raises UserError if a hyperparameter is less than 0; None is not given."""
    for name in names:
        value = getattr(config, name)
        if value is not None and not value >= 0:
            raise UserError(f"--{name} must be at least 0, not {value}")


def check_choices(config: Any) -> None:
    """Raises UserError if the value of a hyperparameter is not one of its choices."""
    for field in dataclasses.fields(config):
        valid, value = field.metadata["choices"], getattr(config, field.name)
        if valid and value is not None and value not in valid:
            raise UserError(f"--{field.name} must be one of {', '.join(valid)}, not {value!r}")


def check_seed(seed: int, num_seeds: int = 1) -> None:
    """Raises UserError unless `seed` and the ones that follow it are seeds of NumPy.

    Args:
        seed: value of --seed.
        num_seeds: number of seeds, each one more than the last.
    """
    largest = MAX_SEEDS - num_seeds
    if not 0 <= seed <= largest:
        raise UserError(f"--seed must be from 0 to {largest}, not {seed}")


@dataclasses.dataclass(frozen=True)
class NoHparams:
    """No additional hyperparameters."""
