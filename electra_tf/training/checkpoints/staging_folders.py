"""Local folders for copies of remote ones, and the locks that remote file systems lack.

All are in one folder for temporary files (TMPDIR), which belongs to this user alone.
"""

import contextlib
import hashlib
import os
import pathlib
import stat
import tempfile
from collections.abc import Iterator

import filelock

from electra_tf.util.errors import UserError, reason_of


@contextlib.contextmanager
def own_folder(folder: str, flag: str, part: str) -> Iterator[pathlib.Path]:
    """Yields the local path for a remote folder, locked; the path is the same each time.

    Args:
        folder: the remote folder.
        flag: flag to name in errors.
        part: name of the part of the folder that is used, if others may use the rest; empty
            for all of it.

    Raises:
        UserError: another program has it, or TMPDIR cannot be used.
    """
    name = _name_of(folder, *([part] if part else []))
    with _lock(name, folder, flag):
        yield _base() / name


@contextlib.contextmanager
def new_folder(folder: str) -> Iterator[pathlib.Path]:
    """Yields a new local folder for a copy of a remote one that is only read.

    Raises:
        UserError: TMPDIR cannot be used.
    """
    with _usable_base() as base:
        path = pathlib.Path(tempfile.mkdtemp(prefix=f"{_name_of(folder)}-", dir=base))
    yield path


@contextlib.contextmanager
def lock_remote_folder(folder: str, flag: str) -> Iterator[None]:
    """Locks a remote folder against other programs on this machine.

    Unlike `own_folder`, this does not lock the local path for that folder.

    Raises:
        UserError: another program has it, or TMPDIR cannot be used.
    """
    with _lock(_name_of(folder, ""), folder, flag):
        yield


@contextlib.contextmanager
def _lock(name: str, folder: str, flag: str) -> Iterator[None]:
    try:
        with _usable_base() as base:
            lock = filelock.FileLock(base / f"{name}.staging.lock", timeout=0)
            lock.acquire()
    except filelock.Timeout:
        raise UserError(
            f"Another program on this machine is training in {folder} ({flag}): wait until "
            "it ends, or choose another folder"
        ) from None
    try:
        yield
    finally:
        lock.release()


def _base() -> pathlib.Path:
    return pathlib.Path(tempfile.gettempdir(), f"electra-staging-{os.getuid()}")


@contextlib.contextmanager
def _usable_base() -> Iterator[pathlib.Path]:
    base = _base()
    try:
        _make_private(base)
        yield base
    except filelock.Timeout:  # an OSError
        raise
    except (OSError, NotImplementedError) as error:
        raise UserError(f"{base} (TMPDIR) cannot be written: {reason_of(error)}") from error


def _make_private(folder: pathlib.Path) -> None:
    """Makes a folder that only this user can read, and refuses one that another user made.

    All users of the machine may know its name, and may write to the folder above.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid():
        raise UserError(
            f"{folder} is a link or belongs to another user, who could change what is written "
            "there: remove it, or set TMPDIR to a folder of your own"
        )
    folder.chmod(0o700)


def _name_of(*identity: str) -> str:
    return hashlib.sha256("\n".join(identity).encode()).hexdigest()[:16]
