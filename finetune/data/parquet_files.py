"""Reads examples of Parquet files; one row is one example."""

import types
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from electra_tf.util.errors import UserError
from electra_tf.util.extras import import_extra
from finetune.data.raw_examples import RawExample, check_different_columns, column_hint

_ROWS_AT_ONCE = 1024


def read_parquet(
    path: str,
    columns: Mapping[str, str | int],
    optional: Sequence[str],
    assumed: Sequence[str],
) -> Iterator[RawExample]:
    """Yields the rows of a file; `line` of an example is the number of its row, from 1.

    Args:
        path: the file, which exists.
        columns: column of each role, by name or index.
        optional: roles whose column or value may be missing.
        assumed: see `finetune.data.file_readers.read_records`.

    Raises:
        UserError: pyarrow is not installed, the file is damaged, it lacks a column or a value,
            or a column has no text, labels or numbers.
    """
    arrow = _import("pyarrow")
    try:
        with _import("pyarrow.parquet").ParquetFile(path, pre_buffer=False) as file:
            names = _column_names(path, file.schema_arrow, columns, optional, assumed)
            row = 0
            wanted = list(dict.fromkeys(names.values()))
            for batch in file.iter_batches(_ROWS_AT_ONCE, columns=wanted, use_threads=False):
                for found in batch.to_pylist():
                    row += 1
                    values = {role: found[name] for role, name in names.items()}
                    yield _example(path, row, values, names, optional)
    except (arrow.ArrowException, OSError, UnicodeDecodeError) as error:
        reason = str(error).split("\n")[0].rstrip(".")
        raise UserError(f"{path} is not a complete Parquet file: {reason}") from error


def _example(
    path: str,
    row: int,
    values: dict[str, Any],
    names: Mapping[str, str],
    optional: Sequence[str],
) -> RawExample:
    missing = [role for role, value in values.items() if value is None]
    for role in missing:
        if role not in optional:
            raise UserError(f"{path}: row {row} has no value of {names[role]!r} ({role})")
        del values[role]
    return RawExample(path, row, values, unit="row")


def _column_names(
    path: str,
    schema: Any,
    columns: Mapping[str, str | int],
    optional: Sequence[str],
    assumed: Sequence[str],
) -> dict[str, str]:
    """Returns the name of each role's column."""
    arrow_types = _import("pyarrow").types
    names = list(schema.names)
    found = {}
    for role, column in columns.items():
        if isinstance(column, int) and -len(names) <= column < len(names):
            column = names[column]
        if column not in names:
            if role in optional:
                continue
            raise UserError(
                f"{path} has no column {column!r} ({role}); its columns are: "
                f"{', '.join(names)}.{column_hint(role, str(column), names)}"
            )
        if names.count(column) > 1:
            if role in assumed:
                continue
            raise UserError(f"{path} has more than one column {column!r}")
        kind = schema.field(column).type
        if not _is_readable(arrow_types, kind):
            if role in assumed:
                continue
            raise UserError(
                f"{path}: the column {column!r} ({role}) has the type {kind}; it must be text, "
                "a number or a boolean, or a list of them"
            )
        found[role] = column
    check_different_columns(path, found)
    return found


def _is_readable(of: types.ModuleType, kind: Any) -> bool:
    """Returns whether JSON can represent the values of a type."""
    if of.is_dictionary(kind):
        return _is_readable(of, kind.value_type)
    if of.is_list(kind) or of.is_large_list(kind) or of.is_fixed_size_list(kind):
        return _is_readable(of, kind.value_type)
    if of.is_struct(kind):
        return all(_is_readable(of, kind.field(i).type) for i in range(kind.num_fields))
    text = of.is_string(kind) or of.is_large_string(kind) or of.is_string_view(kind)
    return text or of.is_boolean(kind) or of.is_integer(kind) or of.is_floating(kind)


def _import(module: str) -> types.ModuleType:
    return import_extra(module, "corpus", "Reading .parquet files")
