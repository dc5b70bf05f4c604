"""One program at a time trains into a folder."""

import contextlib
import os
from collections.abc import Iterator

import filelock

from electra_tf.util.errors import UserError
from electra_tf.workers import Workers

SUFFIX = ".lock"


@contextlib.contextmanager
def only_trainer(folder: str, flags: str, workers: Workers) -> Iterator[None]:
    """Keeps other programs from training into a folder, by a lock on a file beside it.

    The operating system gives the lock back when the program ends, however it does; the file
    stays. Remote folders (`gs://…`) are not locked.

    Args:
        folder: of the model; it need not be there yet.
        flags: those that choose another one, for the message.
        workers: of the run; the chief holds the lock for all.

    Raises:
        UserError: another program holds the lock.
    """
    if "://" in folder or not workers.is_chief:
        yield
        return
    path = folder.rstrip("/") + SUFFIX
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    lock = filelock.FileLock(path, timeout=0)
    try:
        lock.acquire()
    except filelock.Timeout:
        raise UserError(
            f"Another program is training into {folder} (it holds {path}): wait until it has "
            f"ended, or choose another folder with {flags}"
        ) from None
    try:
        yield
    finally:
        lock.release()
