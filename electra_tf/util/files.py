"""Atomic file writes, and JSON files."""

import json
import os
import pathlib
from collections.abc import Mapping
from typing import Any

from electra_tf.util.errors import UserError


def write_atomically(path: str | os.PathLike, content: str | bytes) -> None:
    """Writes text (UTF-8) or bytes to a temporary file and renames it to `path`."""
    path = os.fspath(path)
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    if isinstance(content, str):
        content = content.encode("utf-8")
    # The process id keeps concurrent writers apart.
    temporary = f"{path}.{os.getpid()}.tmp"
    pathlib.Path(temporary).write_bytes(content)
    os.replace(temporary, path)


def read_json(path: str) -> dict[str, Any]:
    """Returns the object in a JSON file; empty if there is no file."""
    try:
        content = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except ValueError as error:
        raise UserError(f"{path} is not valid JSON: {error}") from error
    if not isinstance(content, dict):
        raise UserError(f"{path} must contain a JSON object")
    return content


def to_json(content: Mapping[str, Any]) -> bytes:
    """Returns indented JSON with a final newline."""
    return (json.dumps(content, indent=2, ensure_ascii=False) + "\n").encode()
