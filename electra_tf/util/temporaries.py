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
