"""Checks of paths and names that are given in flags or files."""

import os
import pathlib

from electra_tf.util.errors import UserError


def check_not_empty(path: str | None, flag: str) -> None:
    """Raises UserError for an empty path, such as that of an unset shell variable.

    Python takes it for the current folder. None means that the flag is not given.
    """
    if path == "":
        raise UserError(f"{flag} is empty: pass a path")


def local_path(path: str, flag: str) -> pathlib.Path:
    """Returns a local path given by a user; `~` is the home folder.

    Raises:
        UserError: it is on a remote file system (`gs://…`), which the program does not use,
            or empty.
    """
    check_not_empty(path, flag)
    if "://" in path:
        raise UserError(
            f"{flag}: {path} is on a remote file system: copy the files or mount the bucket, "
            "and pass a path of this machine"
        )
    return pathlib.Path(os.path.expanduser(path))


def check_model_name(name: str) -> None:
    """Raises UserError unless --model_name stays in DATA_DIR/models, at any depth."""
    parts = pathlib.PurePath(name).parts
    if os.path.isabs(name) or os.pardir in parts:
        raise UserError(
            f"--model_name={name} points outside DATA_DIR/models: pass a name, or another "
            "folder as --model_dir"
        )
    if name and not parts:
        raise UserError(f"--model_name={name} is DATA_DIR/models itself: pass a name")


def check_plain_name(name: object, kind: str, source: str) -> None:
    """Raises UserError unless a name in a file can safely be one component of a path.

    Args:
        name: the name.
        kind: what it names, for the message.
        source: the file that has it, for the message.
    """
    is_plain = isinstance(name, str) and name not in ("", os.curdir, os.pardir)
    if not is_plain or any(character in name for character in "/\\\0"):
        raise UserError(f"{source} names the {kind} {name!r}; expected a name without folders")
