"""Compiles `shim.c`, and controls it from a process that was started with it."""

import ctypes
import enum
import os
import pathlib
import shutil
import struct
import subprocess
from collections.abc import Iterator
from typing import NamedTuple

SOURCE = pathlib.Path(__file__).with_name("shim.c")
LIBRARY = "FAULTS_SHIM"
_HEAD = struct.Struct("<IIIqQ")


class Kind(enum.IntEnum):
    """How a change fails."""

    ERROR = 1  # once, with the errno
    SHORT = 2  # half of the bytes are written, which is legal
    FULL = 3  # from then on, whatever needs room
    GONE = 4  # from then on, everything
    KILL = 5  # the process ends as by SIGKILL, in the middle of a write


class Change(enum.IntEnum):
    """What a process did, as in `shim.c`."""

    CREATE = 1
    TRUNCATE = 2
    WRITE = 3
    FLUSH = 4
    SYNC = 5
    RENAME = 6
    UNLINK = 7
    MKDIR = 8
    RMDIR = 9


class Event(NamedTuple):
    """A change of a file or name; `to` is the new name of a renamed one."""

    change: Change
    path: str
    to: str
    offset: int
    data: bytes


def compiler() -> str | None:
    """Returns the C compiler; None if there is none, or this is not Linux."""
    return shutil.which("gcc") if os.path.isdir("/proc/self/fd") else None


def compile_shim(folder: pathlib.Path) -> pathlib.Path:
    """Compiles the shim into a folder; returns its path."""
    library = folder / "shim.so"
    command = [compiler(), "-shared", "-fPIC", "-O1", "-w", "-o", library, SOURCE, "-ldl"]
    subprocess.run([*map(str, command)], check=True)
    return library


def environment(library: pathlib.Path) -> dict[str, str]:
    """Returns the variables of a process with the shim."""
    return {**os.environ, "LD_PRELOAD": str(library), LIBRARY: str(library)}


class Shim:
    """Records and fails changes in a folder, in a process with the shim."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL(os.environ[LIBRARY])

    def record(self, folder: str, log: str | None) -> None:
        """Begins to count, and to write to `log`, what changes in a folder."""
        name = os.path.realpath(folder).encode()
        self._library.shim_start(name, log.encode() if log else None)

    def fail(self, change: int, kind: Kind, error: int) -> None:
        """Lets the change of this number, counted from the recording's begin, fail."""
        self._library.shim_fail(ctypes.c_long(change), int(kind), error)

    def stop(self) -> int:
        """Ends a recording; returns its number of changes."""
        return self._library.shim_stop()


def read_events(log: str) -> Iterator[Event]:
    """Yields the events of a recording."""
    content = pathlib.Path(log).read_bytes()
    at = 0
    while at < len(content):
        change, path, to, offset, size = _HEAD.unpack_from(content, at)
        at += _HEAD.size
        parts = []
        for length in (path, to, size):
            parts.append(content[at : at + length])
            at += length
        yield Event(Change(change), parts[0].decode(), parts[1].decode(), offset, parts[2])
