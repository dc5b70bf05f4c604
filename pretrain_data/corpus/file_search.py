"""Finds the files that an entry of `--input` names, on any file system."""

import contextlib
import errno
import filecmp
import glob
import os
import pathlib
from collections.abc import Callable, Iterable, Iterator

from electra_tf.util.errors import UserError
from electra_tf.util.file_patterns import pattern_of_files
from electra_tf.util.paths import AnyPath, RemotePath
from pretrain_data.corpus.unreadable import FOLDER, UnreadableError, reason_of_os_error

_SPECIAL_TOKENS = {b"[CLS]", b"[SEP]", b"[MASK]"}
# Enough to find the special tokens of BERT's vocabularies, after a hundred unused entries.
_FIRST_BYTES = 4096


def files_below(
    folder: AnyPath, flag: str, refuse: Callable[[UnreadableError], None]
) -> list[AnyPath]:
    """Returns the files in a folder at any depth, sorted; hidden ones are skipped.

    Args:
        folder: the folder; links to folders are followed.
        flag: flag to name in errors.
        refuse: called with the error of a folder that cannot be read.
    """
    if not isinstance(folder, RemotePath):
        return sorted(_walk(folder, flag, refuse))
    try:
        return list(folder.walk())
    except OSError as error:
        refuse(UnreadableError(FOLDER, folder, flag, reason_of_os_error(error)))
        return []


def exists(path: AnyPath, flag: str) -> bool:
    """Whether there is a file, folder or broken link; raises UserError if that is unknown."""
    if not isinstance(path, RemotePath):
        return os.path.lexists(path)
    try:
        return path.exists()
    except OSError as error:
        raise UserError(f"{flag}: {path} {reason_of_os_error(error)}") from error


def matching_paths(pattern: AnyPath, flag: str) -> list[AnyPath]:
    """Returns the paths that match a glob; raises UserError if they cannot be listed."""
    if not isinstance(pattern, RemotePath):
        found = glob.glob(pattern_of_files(str(pattern)), recursive=True)
        return [pathlib.Path(path) for path in sorted(found)]
    if "**" in str(pattern):
        raise UserError(f"{flag}: {pattern}: remote globs have no **; name the folder instead")
    try:
        return list(pattern.parent.glob(pattern.name))
    except OSError as error:
        raise UserError(f"{flag}: {pattern} {reason_of_os_error(error)}") from error


def identity_of(path: AnyPath) -> str:
    """Returns an identity that is the same for all names and hard links of a file."""
    if isinstance(path, RemotePath):
        return str(path)
    with contextlib.suppress(OSError):
        status = os.stat(path)
        # Not all file systems number files without hard links reliably.
        if status.st_nlink > 1:
            return f"{status.st_dev}:{status.st_ino}"
    return os.path.realpath(path)


def full_name(path: AnyPath) -> str:
    """Returns the name of a file from the root of its file system on."""
    return str(path) if isinstance(path, RemotePath) else os.path.abspath(path)


def is_copy(path: AnyPath, files: Iterable[str]) -> bool:
    """Whether a local file has the same content as one of the others; raises OSError."""
    if isinstance(path, RemotePath):
        return False
    return any(filecmp.cmp(each, path, shallow=False) for each in files)


def begins_as_vocabulary(path: AnyPath) -> bool:
    """Whether a local file begins with lines of special tokens; raises OSError."""
    if isinstance(path, RemotePath):
        return False
    with open(path, "rb") as file:
        return _SPECIAL_TOKENS.issubset(file.read(_FIRST_BYTES).splitlines())


def size_of(path: pathlib.Path) -> int:
    """Returns the size of a file; raises OSError if it cannot be read."""
    if isinstance(path, RemotePath):
        return path.stat().st_size
    if path.exists() and not path.is_file():
        # Opening a pipe would wait for a writer.
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))
    with open(path, "rb") as f:
        return os.fstat(f.fileno()).st_size


def _walk(
    directory: pathlib.Path, flag: str, refuse: Callable[[UnreadableError], None]
) -> Iterator[pathlib.Path]:
    def refuse_folder(error: OSError) -> None:
        refuse(UnreadableError(FOLDER, error.filename, flag, reason_of_os_error(error)))

    seen = {os.path.realpath(directory)}
    for parent, directories, names in os.walk(
        directory, onerror=refuse_folder, followlinks=True
    ):
        visible = []
        # Sorted, so that every machine follows the same of several links to a folder.
        for name in sorted(directories):
            target = os.path.realpath(os.path.join(parent, name))
            if not name.startswith(".") and target not in seen:
                seen.add(target)
                visible.append(name)
        directories[:] = visible
        for name in names:
            if not name.startswith("."):
                yield pathlib.Path(parent, name)
