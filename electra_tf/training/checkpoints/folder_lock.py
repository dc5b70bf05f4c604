"""The lock that keeps a second program from training into a model folder."""

import contextlib
import errno
import fcntl
import os
import secrets
import time
from collections.abc import Iterator

from electra_tf.training.distribution.workers import Workers
from electra_tf.util.errors import LockedError, UserError, reason_of
from electra_tf.util.files import make_folders

LOCK_SUFFIX = ".lock"
# Network file systems show a new file after some seconds.
_SECONDS_TO_SEE = 20.0
_MARK_BITS = 48


@contextlib.contextmanager
def lock_model_dir(folder: str, flags: str, workers: Workers) -> Iterator[None]:
    """Locks a model folder against other training programs, by a file next to it.

    The operating system releases the lock however the program ends; the file remains. Remote
    folders (`gs://…`) are not locked.

    Args:
        folder: folder of the model; need not exist.
        flags: flags that select the folder, for the message.
        workers: workers of the run; the chief holds the lock.

    Raises:
        LockedError: another program holds the lock.
        UserError: `folder` is a file, the lock cannot be written, its file system has no
            locks, or the workers see different folders.
    """
    if "://" in folder:
        yield
        return
    if not workers.is_chief:
        _require_shared(folder, flags, workers)
        yield
        return
    if os.path.exists(folder) and not os.path.isdir(folder):
        raise UserError(f"{folder} ({flags}) is a file. Choose another folder")
    path = _lock_file(folder)
    try:
        make_folders(os.path.dirname(path))
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    except OSError as error:
        raise UserError(
            f"{folder} ({flags}) cannot be written: {reason_of(error)}. Choose another folder"
        ) from error
    try:
        _lock(descriptor, path, folder, flags)
        _require_shared(folder, flags, workers, descriptor)
        yield
    finally:
        os.close(descriptor)  # releases the lock


@contextlib.contextmanager
def kept_from_training(folder: str, flag: str) -> Iterator[None]:
    """Keeps training programs from a folder that another kind of program writes.

    It uses the lock file of an earlier training, and creates none. Fine-tuning locks
    `--model_dir`, not the folders of its trials, such as `MODEL_DIR_1`.

    Args:
        folder: the folder; need not exist.
        flag: flag that selects it, for the message.

    Raises:
        LockedError: a program is training into the folder.
        UserError: the lock cannot be used.
    """
    path = _lock_file(folder)
    try:
        descriptor = os.open(path, os.O_RDWR)
    except OSError:  # no lock file, or one of another user, whose folder cannot be written
        descriptor = None
    if descriptor is None:
        yield
        return
    try:
        _lock(descriptor, path, folder, flag)
        yield
    finally:
        os.close(descriptor)  # releases the lock


def _require_shared(
    folder: str, flags: str, workers: Workers, descriptor: int | None = None
) -> None:
    """Raises UserError unless all workers see what the chief writes into the lock's file.

    Args:
        folder, flags, workers: see `lock_model_dir`.
        descriptor: descriptor of the file; None on workers other than the chief.
    """
    if workers.count == 1:
        return
    mark = secrets.randbits(_MARK_BITS)
    if descriptor is not None:
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, str(mark).encode(), 0)
        os.fsync(descriptor)
    mark = workers.from_chief(mark)
    until = time.monotonic() + _SECONDS_TO_SEE
    while (
        not (is_seen := _content(_lock_file(folder)) == str(mark)) and time.monotonic() < until
    ):
        time.sleep(_SECONDS_TO_SEE / 20)
    if workers.any_worker(not is_seen):
        raise UserError(
            f"The workers do not share {folder} ({flags}): all must see the chief's, so mount "
            "one file system on all of them"
        )


def _content(path: str) -> str | None:
    """Returns the content of a file; None if it cannot be read, as on another machine."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return None


def _lock_file(folder: str) -> str:
    """Returns the path of the lock; a folder has the same one under all of its names.

    A link may lead to a mounted disk, next to which no file can be made.
    """
    folder = folder.rstrip("/")
    if os.path.islink(folder):
        real = os.path.realpath(folder)
        if os.access(os.path.dirname(real), os.W_OK):
            folder = real
    return folder + LOCK_SUFFIX


def _lock(descriptor: int, path: str, folder: str, flags: str) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EAGAIN):
            raise LockedError(
                f"Another program is training in {folder} or converts into it (it has locked "
                f"{path}): wait until it ends, or choose another folder with {flags}"
            ) from None
        raise UserError(
            f"{path} cannot be locked against other programs: {error.strerror}. Mount its file "
            f"system with locking, or choose a folder on another file system with {flags}"
        ) from error
