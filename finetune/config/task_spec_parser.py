"""Parses descriptions of custom tasks from JSON and from flags."""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from electra_tf.config.hyperparameters import FLOAT_LIMIT
from electra_tf.util.errors import UserError, nearest_name_hint
from electra_tf.util.files import parse_json, read_given_text
from finetune.config.custom_task_fields import OWN_TASK_PREFIX
from finetune.config.task_kinds import LEVELS, TABLES, TaskKind, kinds_by_name
from finetune.config.task_spec import Column, TaskSpec

# Separates the columns of a list in `--own_task_columns`.
COLUMN_SEPARATOR = "+"
_RESERVED_SPLIT = "predict"


def load_specs(task_spec: str) -> list[TaskSpec]:
    """Parses task descriptions from a JSON file or inline JSON.

    Args:
        task_spec: path or inline JSON: one object, or a list of objects.

    Raises:
        UserError: the file is missing, the JSON is invalid, keys are unknown or missing,
            values are invalid, or two tasks have the same name.
    """
    text, spec_file, source = task_spec, None, "--task_spec"
    if not task_spec.lstrip().startswith(("{", "[")):
        source = f"--task_spec={task_spec}"
        spec_file = task_spec
        text = read_given_text(task_spec, source)
    given = parse_json(text, source)
    objects = given if isinstance(given, list) else [given]
    if not objects or not all(isinstance(o, dict) for o in objects):
        raise UserError(f"{source} must be a JSON object that describes a task, or a list")
    specs = [parse_spec(o, spec_file=spec_file, source=source) for o in objects]
    names = [spec.name for spec in specs]
    for name in names:
        if names.count(name) > 1:
            raise UserError(f"{source} describes task {name!r} more than once")
    return specs


def spec_from_flags(values: Mapping[str, Any], name: str) -> TaskSpec | None:
    """Returns the task described by the `--own_task_...` flags, or None if none is given.

    `--own_task_files` and `--own_task_columns` have the form `key=value,key=value`; a column
    that is an integer is an index, and `key=column+column` has a column for each value of a
    list.

    Args:
        values: hyperparameters by name; those starting with `own_task_` are used.
        name: name of the task.

    Raises:
        UserError: as `load_specs`; the message names the flag.
    """
    given = {
        key: values.get(f"{OWN_TASK_PREFIX}{key}")
        for key in KEYS
        if key not in ("name", "dev_seed")
    }
    given = {key: value for key, value in given.items() if value is not None}
    if not given:
        return None
    for key in ("kind", "files"):
        if key not in given:
            named = ", ".join(f"--{OWN_TASK_PREFIX}{k}" for k in given)
            raise UserError(f"{named} needs --{OWN_TASK_PREFIX}{key} too")
    for key, example in (("files", "train=a.tsv,dev=b.tsv"), ("columns", "text=1,label=0")):
        if key in given:
            given[key] = _parse_pairs(given[key], f"--{OWN_TASK_PREFIX}{key}", example)
    if "columns" in given:
        kind = kinds_by_name().get(given["kind"])
        given["columns"] = {
            role: _split_columns(text)
            if kind is not None and role in kind.list_columns
            else _parse_column(text)
            for role, text in given["columns"].items()
        }
    if "group_column" in given:
        given["group_column"] = _parse_column(given["group_column"])
    if isinstance(given.get("labels"), str):
        given["labels"] = [label.strip() for label in given["labels"].split(",")]
    return parse_spec({"name": name, **given}, source=f"--{OWN_TASK_PREFIX}*")


def parse_spec(
    given: Mapping[str, Any], *, source: str, spec_file: str | None = None
) -> TaskSpec:
    """Validates the JSON object of one task.

    Args:
        given: the object.
        source: name of the description in errors.
        spec_file: file of the description, or None.

    Raises:
        UserError: keys are unknown or missing, or values are invalid.
    """
    named = given.get("name")
    where = f"{source}: task {named!r}" if isinstance(named, str) else f"{source}: task"
    for key in given:
        if key not in KEYS:
            raise UserError(
                f"{where} has the unknown key {key!r}.{nearest_name_hint(key, KEYS)} "
                f"Known keys: {', '.join(KEYS)}"
            )
    values = {key: value for key, value in given.items() if value is not None}
    for key in ("name", "kind", "files"):
        if key not in values:
            raise UserError(f'{where} lacks the key "{key}"')
    for key, value in values.items():
        if not KEYS[key].is_valid(value):
            raise UserError(f'{where}: "{key}" must be {KEYS[key].expected}, not {value!r}')
    kind = values["kind"] = kinds_by_name()[values["kind"]]
    for key in KEYS:
        kinds = [each.name for each in kinds_by_name().values() if key in each.spec_keys]
        if key in values and kinds and kind.name not in kinds:
            raise UserError(
                f'{where}: "{key}" is for {" and ".join(kinds)}, but this task is {kind.name}'
            )
    _choice(where, "format", values.get("format"), kind.file_formats, kind)
    metrics = kind.main_metrics(values.get("level"))
    _choice(where, "metric", values.get("metric"), metrics, kind)
    if "train" not in values["files"]:
        raise UserError(f'{where}: "files" lacks the split "train"')
    if _RESERVED_SPLIT in values["files"]:
        raise UserError(
            f'{where}: "files" must not name the split "{_RESERVED_SPLIT}", which is '
            "--predict_file"
        )
    if values.get("dev_fraction") is not None and "dev" in values["files"]:
        raise UserError(f'{where} has both a dev file and "dev_fraction": remove one of them')
    columns = _parse_columns(where, kind, values.get("columns", {}))
    single = [c for column in columns.values() for c in _columns_of(column)]
    by_index = bool(columns) and all(isinstance(c, int) for c in single)
    has_only_tables = set(kind.file_formats) <= set(TABLES)
    if values.get("header") is False and has_only_tables and not by_index:
        raise UserError(f'{where}: without a header "columns" must be indices (0, 1, ...)')
    values["columns"] = columns
    values.setdefault("metric", metrics[0])
    if "labels" in values:
        values["labels"] = _parse_labels(where, values["labels"])
    low, high = values.get("min_label"), values.get("max_label")
    if low is not None and high is not None and not low < high:
        raise UserError(f'{where}: "min_label" ({low}) must be below "max_label" ({high})')
    return TaskSpec(**values, spec_file=spec_file, source=source)


class _Key(NamedTuple):
    """A key: `expected` describes valid values, `is_valid` checks them."""

    expected: str
    is_valid: Any


def _is_number(value: Any) -> bool:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return is_number and abs(value) < FLOAT_LIMIT  # nor NaN; far from overflow in float32


def _is_name(value: Any) -> bool:
    return (
        isinstance(value, str) and re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]*", value) is not None
    )


def _is_column(value: Any) -> bool:
    return isinstance(value, (str, int)) and not isinstance(value, bool)


def _is_column_or_list(value: Any) -> bool:
    return _is_column(value) or (isinstance(value, list) and all(map(_is_column, value)))


# Keys of a description.
KEYS = {
    "name": _Key("letters from A to Z, digits, - and _", _is_name),
    "kind": _Key(
        f"one of {', '.join(kinds_by_name())}",
        lambda v: isinstance(v, str) and v in kinds_by_name(),
    ),
    "files": _Key(
        "an object of paths by split",
        lambda v: (
            isinstance(v, dict)
            and all(_is_name(split) and isinstance(path, str) for split, path in v.items())
        ),
    ),
    "format": _Key("a string", lambda v: isinstance(v, str)),
    "header": _Key("true or false", lambda v: isinstance(v, bool)),
    "columns": _Key(
        "an object of column names or indices",
        lambda v: isinstance(v, dict) and all(map(_is_column_or_list, v.values())),
    ),
    "group_column": _Key("a column name or index", _is_column),
    "labels": _Key(
        "a list of at least two labels, which are strings, integers or booleans",
        lambda v: (
            isinstance(v, list) and len(v) > 1 and all(isinstance(x, str | int) for x in v)
        ),
    ),
    "label_separator": _Key("a string", lambda v: isinstance(v, str) and v != ""),
    "min_label": _Key("a number", _is_number),
    "max_label": _Key("a number", _is_number),
    "metric": _Key("a string", lambda v: isinstance(v, str)),
    "dev_fraction": _Key("at least 0 and below 1", lambda v: _is_number(v) and 0 <= v < 1),
    "dev_seed": _Key("a whole number", lambda v: type(v) is int and v >= 0),
    "level": _Key(f"one of {', '.join(LEVELS)}", lambda v: v in LEVELS),
    "unanswerable": _Key("true or false", lambda v: isinstance(v, bool)),
}


def _choice(
    where: str, key: str, value: str | None, known: Iterable[str], kind: TaskKind
) -> None:
    if value is not None and value not in known:
        raise UserError(
            f'{where}: "{key}" of a {kind.name} task must be one of {", ".join(known)}, not '
            f"{value!r}"
        )


def _parse_columns(
    where: str, kind: TaskKind, given: Mapping[str, str | int | list[str | int]]
) -> dict[str, Column]:
    """Returns the columns by role, with synonyms resolved."""
    spoken = (*kind.column_synonyms, *kind.required_columns, *kind.optional_columns)
    columns: dict[str, Column] = {}
    for role, column in given.items():
        if role not in spoken:
            raise UserError(
                f'{where}: "columns" has the unknown role {role!r}.'
                f"{nearest_name_hint(role, spoken)} The roles of a {kind.name} task are "
                f"{', '.join(spoken)}"
            )
        meant = kind.column_synonyms.get(role, role)
        if meant in columns:
            (word,) = [w for w, other in kind.column_synonyms.items() if other == meant]
            raise UserError(f'{where}: "columns" has both "{word}" and "{meant}"')
        if isinstance(column, list):
            column = _check_column_list(where, kind, role, column)
        columns[meant] = column
    missing = [role for role in kind.required_columns if role not in columns]
    if columns and missing:
        raise UserError(
            f'{where}: "columns" lacks {", ".join(missing)}; a {kind.name} task needs '
            f"{', '.join(kind.required_columns)}"
        )
    _check_used_once(where, columns)
    return columns


def _check_used_once(where: str, columns: Mapping[str, Column]) -> None:
    """Raises UserError if a column has two roles; names of examples may be anything."""
    roles: dict[str | int, str] = {}
    for role, column in columns.items():
        for each in _columns_of(column) if role != "id" else ():
            if each in roles:
                raise UserError(
                    f'{where}: "columns" names the column {each!r} as {roles[each]!r} and as '
                    f"{role!r}"
                )
            roles[each] = role


def _check_column_list(
    where: str, kind: TaskKind, role: str, given: list[str | int]
) -> tuple[str | int, ...]:
    if role not in kind.list_columns:
        raise UserError(f'{where}: "columns" must name one column as {role!r}, not {given!r}')
    if len(given) < 2 or len(set(given)) < len(given):
        raise UserError(
            f'{where}: "columns" must name one column of lists, or several different columns, '
            f"as {role!r}, not {given!r}"
        )
    return tuple(given)


def _columns_of(column: Column) -> tuple[str | int, ...]:
    return column if isinstance(column, tuple) else (column,)


def _parse_labels(where: str, given: Iterable[str | int]) -> tuple[str, ...]:
    """Returns the labels as those of files: true is "true"."""
    labels = tuple(x if isinstance(x, str) else json.dumps(x) for x in given)
    for label in labels:
        if not label.strip():
            raise UserError(
                f'{where}: "labels" has an empty label: {", ".join(map(repr, labels))}'
            )
        if labels.count(label) > 1:
            raise UserError(f'{where}: "labels" lists {label!r} more than once')
    return labels


def _parse_column(text: str) -> str | int:
    return int(text) if re.fullmatch(r"-?[0-9]{1,9}", text) else text


def _split_columns(text: str) -> str | int | list[str | int]:
    parts = [_parse_column(part.strip()) for part in text.split(COLUMN_SEPARATOR)]
    return parts if len(parts) > 1 else parts[0]


def _parse_pairs(text: str, flag: str, example: str) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for part in text.split(","):
        key, equals, value = part.partition("=")
        key, value = key.strip(), value.strip()
        if not (key and equals and value):
            hint = ". Commas divide it: use --task_spec for names with commas" if pairs else ""
            raise UserError(f"{flag} must have the form {example}, not {text!r}{hint}")
        if key in pairs:
            raise UserError(f"{flag} has {key!r} twice")
        pairs[key] = value
    return pairs
