"""The lock that keeps a second program from training into a model folder."""

import contextlib
import errno
import fcntl
import os
from collections.abc import Iterator

from electra_tf.training.distribution.workers import Workers
from electra_tf.util.errors import UserError, reason_of
from electra_tf.util.files import make_folders

LOCK_SUFFIX = ".lock"


@contextlib.contextmanager
def lock_model_dir(folder: str, flags: str, workers: Workers) -> Iterator[None]:
    """Locks a model folder against other training programs, by a file next to it.

    The operating system releases the lock when the program ends, in whatever way; the file
    remains. Remote folders (`gs://…`) are not locked.

    Args:
        folder: folder of the model; need not exist.
        flags: flags that select the folder, for the message.
        workers: workers of the run; the chief holds the lock.

    Raises:
        UserError: another program holds the lock, `folder` is a file, the lock cannot be
            written, or its file system has no locks.
    """
    if "://" in folder or not workers.is_chief:
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
        yield
    finally:
        os.close(descriptor)  # releases the lock


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
            raise UserError(
                f"Another program is training in {folder} (it has locked {path}): wait until "
                f"it ends, or choose another folder with {flags}"
            ) from None
        raise UserError(
            f"{path} cannot be locked against other programs: {error.strerror}. Mount its file "
            f"system with locking, or choose a folder on another file system with {flags}"
        ) from error
