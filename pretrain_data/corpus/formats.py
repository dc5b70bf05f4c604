"""Corpus formats, by suffix.

To add one, write a file like `readers/json_lines.py`, and add a function and a line here.
"""

import dataclasses
import pathlib
from collections.abc import Callable

from electra_tf.util.errors import nearest_name_hint
from pretrain_data.corpus.partition import CorpusPart
from pretrain_data.corpus.readers.arrow_files import arrow_part
from pretrain_data.corpus.readers.compression import check_compression
from pretrain_data.corpus.readers.json_lines import JsonLinesPart
from pretrain_data.corpus.readers.parquet_files import parquet_part
from pretrain_data.corpus.readers.text_files import TextPart


@dataclasses.dataclass(frozen=True)
class FormatOptions:
    """Settings of the formats.

    Attributes:
        flag: flag that gave the file, to name in errors.
        text_field: key of the text in JSONL.
        text_column: column of the text in Parquet and Arrow.
    """

    flag: str = "--input"
    text_field: str = "text"
    text_column: str = "text"


def _text(path: pathlib.Path, num_bytes: int, options: FormatOptions) -> CorpusPart:
    return TextPart(path, 0, num_bytes, options.flag)


def _json_lines(path: pathlib.Path, num_bytes: int, options: FormatOptions) -> CorpusPart:
    return JsonLinesPart(path, 0, num_bytes, options.flag, options.text_field)


def _parquet(path: pathlib.Path, num_bytes: int, options: FormatOptions) -> CorpusPart:
    del num_bytes
    return parquet_part(path, options.flag, options.text_column)


def _arrow(path: pathlib.Path, num_bytes: int, options: FormatOptions) -> CorpusPart:
    del num_bytes
    return arrow_part(path, options.flag, options.text_column)


# Functions that make the part of a whole file from its path, size in bytes, and options.
FORMATS: dict[str, Callable[[pathlib.Path, int, FormatOptions], CorpusPart]] = {
    ".txt": _text,
    ".txt.gz": _text,
    ".txt.zst": _text,
    ".jsonl": _json_lines,
    ".jsonl.gz": _json_lines,
    ".jsonl.zst": _json_lines,
    ".parquet": _parquet,
    ".arrow": _arrow,
}


def suffix_of(path: pathlib.Path) -> str | None:
    """Returns the suffix of `FORMATS` that a file has, the longest if several; else None."""
    fitting = [suffix for suffix in FORMATS if path.name.endswith(suffix)]
    return max(fitting, key=len, default=None)


def make_part(path: pathlib.Path, num_bytes: int, options: FormatOptions) -> CorpusPart:
    """Returns a whole file; one whose suffix is not in `FORMATS` is text.

    Raises:
        UserError: the file does not fit the options, or a package for it is not installed.
        UnreadableError: it cannot be read.
    """
    check_compression(path)
    return FORMATS.get(suffix_of(path), _text)(path, num_bytes, options)


def unknown_format(path: pathlib.Path) -> str:
    """Returns the message that a file has no known suffix."""
    known = ", ".join(FORMATS)
    hint = nearest_name_hint("".join(path.suffixes).lower(), FORMATS)
    return f"has no suffix of a corpus format; known are {known}.{hint}"
