"""Names of files and folders that get their final names when they are whole.

A program that is killed leaves those that it was writing. The next one on this machine that
writes the same file removes them; those of running programs and of other machines stay.
"""

import contextlib
import functools
import hashlib
import os
import re
import shutil
import socket


def temporary_path(path: str | os.PathLike) -> str:
    """Returns the path beside `path` to write to, and removes those of killed programs."""
    path = os.fspath(path)
    folder, name = os.path.split(path)
    pattern = re.compile(rf"{re.escape(name)}\.{_machine()}-(?P<process>\d+)\.tmp")
    with contextlib.suppress(FileNotFoundError, NotADirectoryError, PermissionError):
        for other in os.listdir(folder or "."):
            match = pattern.fullmatch(other)
            if match and not _is_running(int(match["process"])):
                _remove(os.path.join(folder, other))
    # The process id keeps concurrent writers apart.
    return f"{path}.{_machine()}-{os.getpid()}.tmp"


def remove_folder(path: str | os.PathLike) -> None:
    """Removes a folder, if there is one; of a link, what is in the folder that it leads to.

    The folder loses its name first: a program that is killed meanwhile does not leave a part of
    it under that name.

    Raises:
        OSError: it cannot be removed.
    """
    folder = os.path.realpath(path)
    if not os.path.isdir(folder):
        return
    removed = temporary_path(folder)
    try:
        os.rename(folder, removed)
    except OSError:  # a mounted disk, or one in a folder that cannot be written
        _empty(folder)
        return
    if os.path.islink(os.fspath(path).rstrip(os.sep)):
        os.mkdir(folder)
    # What cannot be removed, such as an open file on NFS, is not in the way.
    shutil.rmtree(removed, ignore_errors=True)


def _empty(folder: str) -> None:
    for entry in list(os.scandir(folder)):
        if entry.is_dir(follow_symlinks=False):
            shutil.rmtree(entry.path)
        else:
            os.remove(entry.path)


@functools.cache
def _machine() -> str:
    """Returns a short name of this machine: another one has other processes."""
    return hashlib.sha256(socket.gethostname().encode()).hexdigest()[:8]


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True  # of another user; or no number of a process, so of no file of ours
    return True


def _remove(path: str) -> None:
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path, ignore_errors=True)
        return
    with contextlib.suppress(OSError):  # another program may have removed it meanwhile
        os.remove(path)
