"""Temporary names of files and folders that are renamed once they are complete.

A killed program leaves its temporary files behind. The next program on this machine that writes
the same file removes them; those of running programs and of other machines stay. Whether a
program in another container is running cannot be seen, so its files stay for a day.
"""

import contextlib
import functools
import hashlib
import os
import re
import shutil
import socket
import time

# Maximum time that writing a file or folder is assumed to take.
_MAX_SECONDS = 24 * 3600


def temporary_path(path: str | os.PathLike) -> str:
    """Returns the path beside `path` to write to, and removes those of killed programs."""
    path = os.fspath(path)
    folder, name = os.path.split(path)
    pattern = re.compile(
        rf"{re.escape(name)}\.{_machine()}-(?P<container>\w+)-(?P<process>\d+)\.tmp"
    )
    with contextlib.suppress(FileNotFoundError, NotADirectoryError, PermissionError):
        for entry in os.scandir(folder or "."):
            match = pattern.fullmatch(entry.name)
            if not match:
                continue
            if match["container"] == _container():
                is_left = not _is_running(int(match["process"]))
            else:
                is_left = _is_old(entry)
            if is_left:
                _remove(entry.path)
    # These keep concurrent writers apart.
    return f"{path}.{_machine()}-{_container()}-{os.getpid()}.tmp"


def remove_folder(path: str | os.PathLike) -> None:
    """Removes a folder if it exists; of a link, the content of the folder that it points to.

    The folder is renamed first, so that a killed program does not leave a part of it under its
    name.

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
    """Returns a short name of this machine: process ids are valid only on one machine."""
    return hashlib.sha256(socket.gethostname().encode()).hexdigest()[:8]


@functools.cache
def _container() -> str:
    """Returns the id of this program's PID namespace: each container has its own.

    Containers can share the host name of their machine, or of each other.
    """
    try:
        return re.sub(r"\D", "", os.readlink("/proc/self/ns/pid"))
    except OSError:  # not Linux
        return "0"


def _is_old(entry: os.DirEntry) -> bool:
    try:
        return time.time() - entry.stat(follow_symlinks=False).st_mtime > _MAX_SECONDS
    except OSError:  # another program may have removed it meanwhile
        return False


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
