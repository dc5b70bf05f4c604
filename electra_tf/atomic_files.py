"""Files that are there as a whole or not at all; imports no TensorFlow."""

import os
import pathlib


def write_atomically(path: str | os.PathLike, content: str | bytes) -> None:
    """Writes text (as UTF-8) or bytes under a temporary name and renames the file."""
    path = os.fspath(path)
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    if isinstance(content, str):
        content = content.encode("utf-8")
    # Another process may write the same file at the same time.
    temporary = f"{path}.{os.getpid()}.tmp"
    pathlib.Path(temporary).write_bytes(content)
    os.replace(temporary, path)
