"""Reads files of examples: tsv, csv, jsonl and conll, uncompressed or `.gz`, and parquet.

Every error names the file and the line, counted from 1. A record of several lines (a quoted
csv cell, a conll sentence) is located by its first line.
"""

import csv
import gzip
import io
import os
import re
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from electra_tf.util.console import warn_once
from electra_tf.util.errors import UserError, not_utf8
from electra_tf.util.files import loads_json
from electra_tf.util.text_checks import ONLY_CARRIAGE_RETURNS, not_text, valid_text
from finetune.data.conll_files import read_sentences
from finetune.data.parquet_files import read_parquet
from finetune.data.raw_examples import (
    RawExample,
    brief,
    check_different_columns,
    column_hint,
)

_MAX_CELL_CHARACTERS = 10_000_000
_SURROGATE = re.compile(r"\\ud[89a-f]", re.IGNORECASE)
# Separators of tables, for a hint if the file extension implies another one.
_SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}


def read_records(
    path: str,
    *,
    file_format: str,
    columns: Mapping[str, str | int],
    optional: Sequence[str] = (),
    assumed: Sequence[str] = (),
    header: bool = True,
    see_names: Callable[[Mapping[str, str]], None] | None = None,
    see_width: Callable[[int], None] | None = None,
) -> list[RawExample]:
    """Reads all records of a file.

    Args:
        path: path of the file; `.gz` is decompressed.
        file_format: "tsv" (split at tabs, no quoting, as in the authors' code), "csv"
            (quoting, line breaks within quotes), "jsonl" (one object per line), "conll"
            (one word per line, a blank line between sentences; see
            `finetune.data.conll_files`) or "parquet" (one row per record).
        columns: column of each role, by name or index; for jsonl, a key.
        optional: roles whose column may be missing.
        assumed: optional roles whose column nobody has named. A column is not read if several
            have its name, or if its values cannot be read.
        header: whether the first line of a tsv or csv file has the column names.
        see_names: called with the name of each role's column in that line.
        see_width: called with the number of columns of a tsv or csv file.

    Raises:
        UserError: the file is missing, empty or not UTF-8, lacks a column, has lines of
            different lengths or a second header, or contains invalid JSON or quoting.
    """
    if file_format == "parquet":
        _check_exists(path)
        records = list(read_parquet(path, columns, optional, assumed))
        header = False
    elif file_format == "jsonl":
        records = list(_read_jsonl(path, read_text(path), columns, optional))
    elif file_format == "conll":
        records = list(_read_conll(path, read_text(path), columns, optional))
    else:
        rows = {"csv": _csv_rows, "tsv": _tsv_rows}[file_format](path, read_text(path))
        roles = columns, optional, assumed
        records = list(_read_table(path, rows, *roles, header, see_names, see_width))
        _warn_of_quotes(records, file_format)
    if not records:
        raise UserError(f"{path} contains no examples{', only a header' if header else ''}")
    return records


def _check_exists(path: str) -> None:
    if os.path.isdir(path):
        raise UserError(f"{path} is a folder, not a file")
    if not os.path.isfile(path):
        raise UserError(f"No such file: {path}")


def read_text(path: str) -> str:
    """Returns the text of a UTF-8 file, without byte order mark; `.gz` is decompressed.

    Raises:
        UserError: the file is missing, empty, not UTF-8 or a damaged `.gz`.
    """
    _check_exists(path)
    try:
        with gzip.open(path) if path.lower().endswith(".gz") else open(path, "rb") as file:
            content = file.read()
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise UserError(f"{path} is not a complete .gz file: {error}") from error
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}") from error
    if reason := not_text(content):
        raise UserError(f"{path} {reason}")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: {not_utf8(error)}; save the file as UTF-8") from error
    if not text.strip():
        raise UserError(f"{path} is empty")
    return text


def _tsv_rows(path: str, text: str) -> Iterator[tuple[int, list[str]]]:
    for number, line in enumerate(split_lines(path, text), start=1):
        yield number, line.split("\t") if line else []


def _csv_rows(path: str, text: str) -> Iterator[tuple[int, list[str]]]:
    limit = csv.field_size_limit(_MAX_CELL_CHARACTERS)
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    line = 1
    try:
        for row in reader:
            yield line, row
            line = reader.line_num + 1
    except csv.Error as error:
        raise UserError(
            f"{path}: the record at line {line} is not valid csv ({error}); is a quote "
            'missing? A quote within quotes is written ""'
        ) from error
    finally:
        csv.field_size_limit(limit)


def _read_table(
    path: str,
    rows: Iterator[tuple[int, list[str]]],
    columns: Mapping[str, str | int],
    optional: Sequence[str],
    assumed: Sequence[str],
    header: bool,
    see_names: Callable[[Mapping[str, str]], None] | None,
    see_width: Callable[[int], None] | None,
) -> Iterator[RawExample]:
    indices: dict[str, int] | None = None
    names: list[str] | None = None
    labels: set[str] = set()
    width, blank_line = 0, 0
    for line, cells in rows:
        if not cells:
            blank_line = blank_line or line
            continue
        if blank_line:
            # Blank lines are allowed at the end only; elsewhere a record may be missing.
            raise UserError(f"{path}: line {blank_line} is blank")
        if indices is None:
            width = len(cells)
            if see_width:
                see_width(width)
            names = [cell.strip() for cell in cells] if header else None
            indices = _column_indices(path, columns, optional, assumed, names, width)
            check_different_columns(path, {role: i % width for role, i in indices.items()})
            if names and see_names:
                see_names({role: names[index] for role, index in indices.items()})
            if header:
                continue
        if len(cells) != width:
            counted = "the header" if header else "the first line"
            raise UserError(
                f"{path}: line {line} has {_count(len(cells), 'column')}, but {counted} has "
                f"{width}{_stray_separator_hint(cells, width)}"
            )
        if width > 1 and [cell.strip("\ufeff \t") for cell in cells] == names:
            raise UserError(
                f"{path}: line {line} repeats the first line, the names of the columns; if two "
                'files were joined here, remove it; if both are examples, set "header" to false'
            )
        record = RawExample(path, line, {role: cells[i] for role, i in indices.items()})
        if "label" in indices:
            labels.add(record.values["label"].strip())
        yield record
    if names and isinstance(columns.get("label"), int):
        _warn_of_lost_example(path, names, names[indices["label"]], labels)


def _column_indices(
    path: str,
    columns: Mapping[str, str | int],
    optional: Sequence[str],
    assumed: Sequence[str],
    names: list[str] | None,
    width: int,
) -> dict[str, int]:
    """Returns the index of each role's column."""
    indices = {}
    for role, column in columns.items():
        if isinstance(column, int):
            if -width <= column < width:
                _warn_of_name(path, role, column, names)
                indices[role] = column
                continue
            missing = f"column {column} ({role}): line 1 has {_count(width, 'column')}"
        elif names is None:
            raise UserError(
                f'{path} is read without a header, so "columns" must be indices '
                f"(0, 1, ...), not {column!r}"
            )
        elif names.count(column) > 1:
            if role in assumed:
                continue
            raise UserError(f"{path}: the header has more than one column {column!r}")
        elif column in names:
            indices[role] = names.index(column)
            continue
        else:
            missing = (
                f"column {column!r} ({role}); its header has: {', '.join(names)}."
                f"{_other_separator(column, names) or column_hint(role, column, names)}"
            )
        if role not in optional:
            raise UserError(f"{path} has no {missing}")
    return indices


def _read_jsonl(
    path: str, text: str, columns: Mapping[str, str | int], optional: Sequence[str]
) -> Iterator[RawExample]:
    for line, content in enumerate(split_lines(path, text), start=1):
        if not content.strip():
            continue
        value = parse_task_json(content, f"{path}: line {line}")
        if not isinstance(value, dict):
            raise UserError(f"{path}: line {line} must be a JSON object, not {brief(value)}")
        values = {}
        for role, column in columns.items():
            key = str(column)
            if value.get(key) is not None:
                values[role] = value[key]
            elif role not in optional:
                problem = f"{path}: line {line} has no {key!r} ({role})"
                if key in value:
                    raise UserError(f"{problem}: it is null; fill it in or remove the line")
                raise UserError(
                    f"{problem}; its keys are {', '.join(value)}."
                    f"{column_hint(role, key, value)}"
                )
        yield RawExample(path, line, values)


def parse_task_json(content: str, where: str) -> Any:
    r"""Returns a JSON value; lone surrogates (`\ud800`), which UTF-8 lacks, become U+FFFD.

    Args:
        content: the text.
        where: file, and line of a file of several values, for errors.

    Raises:
        UserError: it is not valid JSON, a key is repeated, or it is nested too deeply.
    """
    try:
        value = loads_json(content)
        return _without_surrogates(value) if _SURROGATE.search(content) else value
    except (ValueError, RecursionError) as error:
        raise UserError(f"{where} is not valid JSON: {error}") from error


def _without_surrogates(value: Any) -> Any:
    if isinstance(value, str):
        return valid_text(value)
    if isinstance(value, list):
        return [_without_surrogates(item) for item in value]
    if isinstance(value, dict):
        return {key: _without_surrogates(item) for key, item in value.items()}
    return value


def _read_conll(
    path: str, text: str, columns: Mapping[str, str | int], optional: Sequence[str]
) -> Iterator[RawExample]:
    for role, column in columns.items():
        if not isinstance(column, int):
            raise UserError(
                f'{path}: "columns" of a conll file must be indices (0, 1, ... or -1 for '
                f"the last), but {role} is {column!r}"
            )
    sentences = read_sentences(
        path,
        split_lines(path, text),
        lambda width: _column_indices(path, columns, optional, (), None, width),
    )
    for line, sentence in sentences:
        yield RawExample(path, line, sentence)


def split_lines(path: str, text: str) -> list[str]:
    """Splits at line breaks, but not at characters such as U+2028, as `splitlines` does.

    Raises:
        UserError: lines end in carriage returns alone; the message names `path`.
    """
    if "\r" in text.strip() and "\n" not in text:
        raise UserError(f"{path}: {ONLY_CARRIAGE_RETURNS}")
    return re.split(r"\r?\n", text)


def _warn_of_lost_example(
    path: str, names: Sequence[str], label: str, labels: set[str]
) -> None:
    """Warns of a first line that is read as a header, but looks like an example."""
    if are_indices(names):
        return
    if label in labels or all(map(is_number, (label, *labels))):
        warn_once(
            f"{path}: line 1, whose label column has {brief(label)}, is read as the names of "
            'the columns; if it is an example, set "header" to false'
        )


def _warn_of_name(path: str, role: str, index: int, names: Sequence[str] | None) -> None:
    """Warns if the index of a column is also the name of another one."""
    if names and str(index) in names and names[index] != str(index):
        warn_once(
            f"{path}: column {index} ({role}), counted from 0, is {brief(names[index])}; if "
            f'the one that line 1 names "{index}" is meant, give {names.index(str(index))}'
        )


def are_indices(names: Sequence[str]) -> bool:
    """Whether the column names are 0, 1, 2, …, as pandas writes them by default."""
    return list(names) == [str(i) for i in range(len(names))]


def is_number(text: str) -> bool:
    """Whether a cell has a decimal number."""
    return re.fullmatch(r"[+-]?[0-9]*\.?[0-9]+", text) is not None


def _warn_of_quotes(records: Sequence[RawExample], file_format: str) -> None:
    """Warns of quotation marks around a cell that become part of a label or text."""
    rules = {
        "tsv": "tsv is read without quoting",
        "csv": "nothing, not even a space, may stand between the comma and a quoted cell",
    }
    for record in records:
        for role, value in record.values.items():
            cell = value.strip()
            if len(cell) < 2 or not cell[0] == cell[-1] == '"':
                continue
            inner = cell[1:-1]
            is_quoted = '""' in inner and '"' not in inner.replace('""', "")
            if role == "label" or (file_format == "tsv" and is_quoted):
                warn_once(
                    f"{record.where}: the quotation marks around {role} {brief(cell)} become "
                    f"part of it: {rules[file_format]}"
                )
                return


def _other_separator(column: str, names: Sequence[str]) -> str:
    """Returns a hint at the separator of a header that was read as a single cell."""
    for separator, called in _SEPARATORS.items():
        cells = [cell.strip().strip('"') for cell in names[0].split(separator)]
        if len(names) == 1 < len(cells) and column in cells:
            known = {",": ' (its "format" is csv)', "\t": ' (its "format" is tsv)'}
            advice = known.get(separator, ": save it with commas (csv) or tabs (tsv)")
            return f" It is separated by {called}{advice}."
    return ""


def _stray_separator_hint(cells: Sequence[str], width: int) -> str:
    if len(cells) > width:
        return "; a separator within a text must be quoted (csv) or replaced (tsv)"
    if any(cell.startswith('"') and cell.count('"') % 2 for cell in cells):
        return "; tsv is read without quoting, so save lines with quoted line breaks as csv"
    return ""


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
