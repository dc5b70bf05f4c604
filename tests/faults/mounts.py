"""Small and read-only file systems, which bind root too; they vanish with this process."""

import ctypes
import os
import pathlib
import subprocess

_NEW_MOUNTS = 0x00020000  # CLONE_NEWNS of sched.h


def own_mounts() -> str | None:
    """Gives this process mounts of its own; returns why it cannot have any, if so."""
    if os.geteuid():
        return "needs root"
    library = ctypes.CDLL(None, use_errno=True)
    if not hasattr(library, "unshare") or library.unshare(_NEW_MOUNTS):
        return f"unshare: {os.strerror(ctypes.get_errno())}"
    done = subprocess.run(
        ["mount", "--make-rprivate", "/"], capture_output=True, text=True, check=False
    )
    return done.stderr.strip() or None


def mount_small(folder: pathlib.Path, num_bytes: int) -> None:
    """Mounts an empty file system of this size in a folder."""
    options = f"size={num_bytes},mode=0755"
    _run("mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder))


def mount_read_only(folder: pathlib.Path) -> None:
    """Makes a folder and all below it read-only."""
    _run("mount", "--bind", str(folder), str(folder))
    _run("mount", "-o", "remount,ro,bind", str(folder))


def unmount(folder: pathlib.Path) -> None:
    """Undoes either."""
    _run("umount", str(folder))


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)
