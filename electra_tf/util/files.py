"""Atomic file writes, and JSON files."""

import errno
import json
import os
import pathlib
from collections.abc import Mapping
from typing import Any

from electra_tf.util.errors import UserError

# What network and FUSE file systems without such a call answer.
_CANNOT_FLUSH_FOLDERS = (errno.EINVAL, errno.ENOTSUP, errno.ENOSYS)


def write_atomically(path: str | os.PathLike, content: str | bytes) -> None:
    """Writes text (UTF-8) or bytes to a temporary file and renames it to `path`.

    The content is on the disk before it has the name. On an error, nothing is left.
    """
    path = os.fspath(path)
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    if isinstance(content, str):
        content = content.encode("utf-8")
    # The process id keeps concurrent writers apart.
    temporary = f"{path}.{os.getpid()}.tmp"
    try:
        with open(temporary, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        pathlib.Path(temporary).unlink(missing_ok=True)
        raise
    flush_folder(os.path.dirname(path) or ".")


def flush_file(path: str) -> None:
    """Waits until a file's content is on the disk."""
    with open(path, "rb") as file:
        os.fsync(file.fileno())


def flush_folder(path: str) -> None:
    """Waits until the names in a folder are on the disk, where the file system can tell."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _CANNOT_FLUSH_FOLDERS:
            raise
    finally:
        os.close(descriptor)


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


def check_plain_name(name: object, kind: str, source: str) -> None:
    """Raises UserError unless a name in a file can be part of a path without leading elsewhere.

    Args:
        name: the name.
        kind: what it names, for the message.
        source: the file that has it, for the message.
    """
    is_plain = isinstance(name, str) and name not in ("", os.curdir, os.pardir)
    if not is_plain or any(character in name for character in "/\\\0"):
        raise UserError(f"{source} names the {kind} {name!r}; expected a name without folders")
