"""Checks that outputs can be written, before the work whose results they get."""

import os
import tempfile
from collections.abc import Mapping

from electra_tf.util.errors import UserError
from electra_tf.util.files import is_stream


def check_output_file(path: str | os.PathLike, flag: str) -> None:
    """Raises UserError if a file cannot be written, before the work whose result it gets.

    Args:
        path: the file; it and folders above it need not exist.
        flag: flag that names it, for the message.
    """
    if os.path.isdir(path):
        raise UserError(f"{flag}={path} is a folder: pass the path of a file")
    if not is_stream(os.fspath(path)):
        check_output_folder(os.path.dirname(os.path.abspath(path)), f"{flag}={path}")


def check_distinct(outputs: Mapping[str, str | os.PathLike | None]) -> None:
    """Raises UserError if two flags name the same file to write, of which one would be lost.

    Args:
        outputs: files by flag; None is not written. Devices, such as /dev/null, may be shared.
    """
    flags: dict[str, str] = {}
    for flag, path in outputs.items():
        if path is None or is_stream(os.fspath(path)):
            continue
        other = flags.setdefault(os.path.realpath(path), flag)
        if other != flag:
            raise UserError(f"{flag}={path} is the file of {other}, too: pass another path")


def check_output_folder(path: str | os.PathLike, named: str) -> None:
    """Raises UserError if files cannot be written into a folder, which need not exist.

    Args:
        path: the folder.
        named: flag and value that name it, for the message.
    """
    folder = os.path.abspath(path)
    while not os.path.lexists(folder):
        folder = os.path.dirname(folder)
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise UserError(f"{named} cannot be written: {folder}: {error.strerror}") from error
