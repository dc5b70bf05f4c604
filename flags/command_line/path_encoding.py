"""Paths that are not UTF-8, which TensorFlow can neither read nor write."""

import os
from collections.abc import Mapping
from typing import Any

# TensorFlow's message if it cannot convert a path to a tensor.
_CONVERSION_FAILED = "Error converting unicode string"


def describe_path_encoding(error: Exception, given: Mapping[str, Any]) -> str | None:
    """Returns a message if a path that is not UTF-8 caused the error; None otherwise.

    Args:
        error: an error of Python or TensorFlow.
        given: values of flags by name.
    """
    if not isinstance(error, UnicodeEncodeError) and _CONVERSION_FAILED not in str(error):
        return None
    for name, value in given.items():
        for each in value if isinstance(value, list | tuple) else (value,):
            if isinstance(each, str) and not _is_utf8(each):
                return (
                    f"--{name}={each} is not UTF-8, and TensorFlow reads and writes no such "
                    "paths: rename the file or folder"
                )
    if not _is_utf8(os.getcwd()):
        return "The path of the working directory is not UTF-8: rename the folder"
    return None


def _is_utf8(path: str) -> bool:
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True
