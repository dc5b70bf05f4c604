"""JSON files that describe models; imports no TensorFlow."""

import json
import pathlib
from collections.abc import Mapping
from typing import Any

from electra_tf.errors import UserError


def read_json(path: str) -> dict[str, Any]:
    """Returns the object of a JSON file, empty where there is no file."""
    try:
        content = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except ValueError as error:
        raise UserError(f"{path} is not valid JSON: {error}") from error
    if not isinstance(content, dict):
        raise UserError(f"{path} must hold a JSON object")
    return content


def to_json(content: Mapping[str, Any]) -> bytes:
    """Returns indented JSON with a final newline."""
    return (json.dumps(content, indent=2, ensure_ascii=False) + "\n").encode()
