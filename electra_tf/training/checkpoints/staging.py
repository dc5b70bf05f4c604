"""Training in a remote folder, through a local copy of it.

Remote file systems (`gs://…`) have neither locks nor atomic renames of folders. So a run writes
to a local folder, and finished files are copied: the data of a checkpoint, then its index, then
the file that names it. A restarted run continues from the remote folder.
"""

import contextlib
import filecmp
import glob
import os
import pathlib
import shutil
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType

from electra_tf.training.checkpoints.checkpoint_files import (
    INDEX,
    MANIFEST,
    STATE_FILE,
    UNFINISHED,
)
from electra_tf.training.checkpoints.staging_folders import (
    lock_remote_folder,
    new_folder,
    own_folder,
)
from electra_tf.util.console import warn_once
from electra_tf.util.errors import UserError
from electra_tf.util.paths import RemotePath, is_remote
from electra_tf.util.signals import TERMINATIONS, discard_closed_terminal, handling

SECONDS_BETWEEN_COPIES = 30.0
_LEFT = ".left-"
_TEMPORARY = (".tmp", UNFINISHED, ".lock")
_FINAL_ATTEMPTS = 3
_SECONDS_BETWEEN_ATTEMPTS = 10.0


@contextlib.contextmanager
def staged_folder(
    folder: str,
    flag: str,
    print_fn: Callable[[str], None] = print,
    *,
    trains: bool = True,
    part: str = "",
    written: str = "",
    is_used: Callable[[str], bool] = lambda name: True,
    enters: Callable[[str], bool] = lambda folder: True,
) -> Iterator[str]:
    """Yields a local copy of a remote folder, from which changes are copied back.

    A local folder is yielded itself. The copy is in the system's folder for temporary files
    (TMPDIR), and is removed once all changes have been copied.

    Args:
        folder: the folder.
        flag: flag to name in errors.
        print_fn: prints a message.
        trains: whether to lock the folder against other programs on this machine.
        part: name of the part of the folder that is used, if others may train into the rest.
        written: remote path to lock as well, because programs with other folders may write to
            it; empty for none.
        is_used: whether to copy the remote file of a relative path.
        enters: whether a remote folder, by relative path, may contain such files.

    Raises:
        UserError: the remote folder cannot be read or written, or another program on this
            machine is training into it.
    """
    if not is_remote(folder):
        yield folder
        return
    with contextlib.ExitStack() as stack:
        if written and trains:
            stack.enter_context(lock_remote_folder(written, flag))
        local = stack.enter_context(
            own_folder(folder, flag, part) if trains else new_folder(folder)
        )
        mirror = Mirror(RemotePath(folder), local, is_used, enters)
        if trains:
            _set_aside(local)
        left = _leftover_folders(local) if trains else []
        try:
            mirror.download()
            mirror.check_writable()
        except OSError as error:
            kept = f". Files of a killed run are in {', '.join(left)}" if left else ""
            raise UserError(
                f"{folder} ({flag}) cannot be used: {error.strerror}{kept}"
            ) from error
        for each in left:
            if not _remove_copied(pathlib.Path(each), local):
                print_fn(
                    f"A killed run left files that were not copied to {folder}. They are kept "
                    f"in {each}."
                )
        print_fn(f"Writing to {local}, which is copied to {folder} while the program runs.")
        ended = threading.Event()
        thread = threading.Thread(target=_copy_until, args=(mirror, ended, flag), daemon=True)
        thread.start()
        try:
            yield str(local)
        finally:
            with _deferring_signals(folder):
                ended.set()
                thread.join()
                _copy_remaining(mirror, flag)


@contextlib.contextmanager
def _deferring_signals(folder: str) -> Iterator[None]:
    """Defers termination signals, except Ctrl-C, until everything has been copied."""

    def wait(number: int, frame: FrameType | None) -> None:
        del frame
        if number == signal.SIGHUP:
            discard_closed_terminal()
        name = signal.Signals(number).name
        print(f"{name}: copying to {folder} first …", file=sys.stderr, flush=True)

    with handling(TERMINATIONS, wait):
        yield


def _set_aside(local: pathlib.Path) -> None:
    """Renames a folder that a killed run left behind, if any."""
    if not local.is_dir():
        return
    number = 1
    while (left := local.with_name(f"{local.name}{_LEFT}{number}")).exists():
        number += 1
    local.rename(left)


def _leftover_folders(local: pathlib.Path) -> list[str]:
    """Returns the folders that have been set aside, now or before."""
    return sorted(map(str, local.parent.glob(f"{glob.escape(local.name)}{_LEFT}*")))


def _remove_copied(left: pathlib.Path, local: pathlib.Path) -> bool:
    """Removes a killed run's folder if `local` has all its files; returns whether it has."""
    for path in left.rglob("*"):
        name = path.relative_to(left)
        if path.is_dir() or _is_temporary(name):
            continue
        same = local / name
        if not same.is_file() or not filecmp.cmp(path, same, shallow=False):
            return False
    shutil.rmtree(left, ignore_errors=True)
    return True


class Mirror:
    """Copies a local folder to a remote one."""

    def __init__(
        self,
        remote: RemotePath,
        local: pathlib.Path,
        is_used: Callable[[str], bool] = lambda name: True,
        enters: Callable[[str], bool] = lambda folder: True,
    ):
        """Initializes the mirror; nothing is copied yet.

        Args:
            remote: need not exist.
            local: need not exist.
            is_used, enters: see `staged_folder`.
        """
        self._remote = remote
        self._is_used, self._enters = is_used, enters
        self.local = local
        # Size and time of change of each copied file, by relative path.
        self._copied: dict[str, tuple[int, int]] = {}

    def download(self) -> None:
        """Copies the remote folder to the empty local one; raises OSError."""
        self.local.mkdir(parents=True, exist_ok=True)
        if not self._remote.is_dir():
            return
        start = len(str(self._remote)) + 1
        for source in self._remote.walk(lambda folder: self._enters(str(folder)[start:])):
            name = str(source)[start:]
            if not self._is_used(name):
                continue
            target = self.local / name
            target.parent.mkdir(parents=True, exist_ok=True)
            # A run may remove an old checkpoint meanwhile.
            with contextlib.suppress(FileNotFoundError):
                source.copy_to_local(target)
                self._copied[name] = _version(target)

    def check_writable(self) -> None:
        """Raises OSError if the remote folder cannot be written."""
        self._remote.check_writable()

    def upload(self) -> None:
        """Copies changed files, checkpoints last, and removes those that are gone here.

        Raises:
            OSError: a file cannot be written. Checkpoints that were copied before stay intact.
        """
        # Read before the files are listed, which then include the checkpoint it names.
        states = {
            name: (version, self.local.joinpath(name).read_bytes())
            for name, version in self._versions().items()
            if os.path.basename(name) == STATE_FILE
        }
        versions = self._versions()
        for name in sorted(versions, key=_order):
            if name not in states and self._copied.get(name) != versions[name]:
                self._copy(name)
                self._copied[name] = versions[name]
        for name, (version, content) in states.items():
            if self._copied.get(name) != version:
                self._replace(name, content)
                self._copied[name] = version
        for name in sorted(set(self._copied) - set(versions), key=_order, reverse=True):
            (self._remote / name).unlink(missing_ok=True)
            del self._copied[name]

    def _versions(self) -> dict[str, tuple[int, int]]:
        """Returns size and time of modification (ns) of the local files, by relative path."""
        found = {}
        for path in self.local.rglob("*"):
            name = path.relative_to(self.local).as_posix()
            if not _is_temporary(pathlib.PurePath(name)):
                # The run may remove an old checkpoint meanwhile.
                with contextlib.suppress(FileNotFoundError):
                    if path.is_file():
                        found[name] = _version(path)
        return found

    def _copy(self, name: str) -> None:
        target = self._remote / name
        target.parent.mkdir()
        with contextlib.suppress(FileNotFoundError):
            if _is_of_checkpoint(name):
                # Not read before the index is there.
                target.copy_from_local(self.local / name)
            else:
                self._replace(name, (self.local / name).read_bytes())

    def _replace(self, name: str, content: bytes) -> None:
        target = self._remote / name
        temporary = target.with_name(target.name + ".tmp")
        temporary.write_bytes(content)
        temporary.rename(target)


def _is_temporary(name: pathlib.PurePath) -> bool:
    return any(part.endswith(_TEMPORARY) for part in name.parts)


def _version(path: pathlib.Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_size, status.st_mtime_ns


def _is_of_checkpoint(name: str) -> bool:
    return name.endswith((INDEX, MANIFEST)) or ".data-" in os.path.basename(name)


def _order(name: str) -> tuple[int, str]:
    """Sort key of the order of copying: files that name others come after them."""
    rank = 0
    if _is_of_checkpoint(name):
        rank = 2 if name.endswith(INDEX) else 1
    return rank, name


def _copy_until(mirror: Mirror, ended: threading.Event, flag: str) -> None:
    while not ended.wait(SECONDS_BETWEEN_COPIES):
        try:
            mirror.upload()
        except OSError as error:
            warn_once(
                f"{error.filename} ({flag}) cannot be written: {error.strerror}; retrying"
            )


def _copy_remaining(mirror: Mirror, flag: str) -> None:
    """Copies the remaining files, and removes the local folder.

    Raises:
        UserError: the remote folder cannot be written.
        KeyboardInterrupt: after printing where the files are.
    """
    for attempt in range(_FINAL_ATTEMPTS):
        try:
            mirror.upload()
        except OSError as error:
            if attempt + 1 < _FINAL_ATTEMPTS:
                threading.Event().wait(_SECONDS_BETWEEN_ATTEMPTS)
                continue
            raise UserError(
                f"{error.filename} ({flag}) cannot be written: {error.strerror}. The files "
                f"missing there are in {mirror.local}"
            ) from error
        except KeyboardInterrupt:
            print(
                f"\nNot all files have been copied ({flag}). They are in {mirror.local}",
                file=sys.stderr,
            )
            raise
        shutil.rmtree(mirror.local, ignore_errors=True)
        return
