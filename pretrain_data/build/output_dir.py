"""Output folder of a build: older data stays until the new data is complete."""

import contextlib
import os
import pathlib
import shutil
import uuid
from collections.abc import Iterator

import filelock

from electra_tf.util.errors import UserError, reason_of
from electra_tf.util.files import flush_file, flush_folder, make_folders
from electra_tf.util.paths import AnyPath, RemotePath
from pretrain_data.examples.shard_names import SHARD_PREFIX
from pretrain_data.records import manifest as records_manifest

LOCK_SUFFIX = ".lock"
_TEMPORARY_PREFIX = ".building-"
INNER_LOCK_FILE = f"{_TEMPORARY_PREFIX}lock"


def check_output_dir(output_dir: AnyPath, overwrite: bool, flag: str) -> None:
    """Checks that the output folder may be written.

    Raises:
        UserError: it is a file, or non-empty without `overwrite`.
    """
    try:
        exists, is_dir = output_dir.exists(), output_dir.is_dir()
    except OSError as error:
        raise UserError(
            f"Output folder {output_dir} ({flag}) cannot be read: {error.strerror}"
        ) from error
    if exists and not is_dir:
        raise UserError(f"Output folder {output_dir} ({flag}) is a file")
    present = [p for p in _entries(output_dir) if not p.name.startswith(_TEMPORARY_PREFIX)]
    if present and not overwrite:
        raise UserError(
            f"Output folder {output_dir} ({flag}) is not empty: it contains "
            f"{present[0].name}. Pass another one, or --overwrite to replace its data"
        )


@contextlib.contextmanager
def lock_output_dir(output_dir: AnyPath, flag: str) -> Iterator[None]:
    """Locks an output folder against other builds, by a file next to it; not a remote one.

    If files cannot be made there, such as next to a mounted volume, the file is inside. The
    operating system releases the lock when the program ends, however it does.

    Raises:
        UserError: another build holds the lock, or the file cannot be written.
    """
    if isinstance(output_dir, RemotePath):  # which has no locks
        yield
        return
    path = pathlib.Path(os.path.realpath(output_dir) + LOCK_SUFFIX)
    try:
        make_folders(path.parent)
        if not path.exists() and not os.access(path.parent, os.W_OK):
            path = output_dir / INNER_LOCK_FILE
        lock = filelock.FileLock(path, timeout=0)
        lock.acquire()
    except filelock.Timeout:
        raise UserError(
            f"Another program is building records in {output_dir} (it has locked {path}): wait "
            f"until it ends, or choose another folder with {flag}"
        ) from None
    except (OSError, NotImplementedError) as error:
        raise UserError(
            f"Output folder {output_dir} ({flag}) cannot be locked: {reason_of(error)}"
        ) from error
    try:
        yield
    finally:
        lock.release()


class TemporaryDir:
    """Hidden folder inside the output folder, removed on exit.

    Leftovers of killed builds are removed, too, and so is the output folder if it was
    created here and is still empty.
    """

    def __init__(self, output_dir: AnyPath, flag: str):
        self._output_dir = output_dir
        self._flag = flag

    def __enter__(self) -> AnyPath:
        existed = self._output_dir.exists()
        try:
            _make(self._output_dir)
            for path in _entries(self._output_dir):
                if path.name.startswith(_TEMPORARY_PREFIX) and path.is_dir():
                    _remove_tree(path)
            self._path = self._output_dir / f"{_TEMPORARY_PREFIX}{uuid.uuid4().hex[:8]}"
            _make(self._path)
        except OSError as error:
            raise UserError(
                f"Output folder {self._output_dir} ({self._flag}) cannot be written: "
                f"{error.strerror}"
            ) from error
        self._made_output_dir = not existed
        return self._path

    def __exit__(self, *exception: object) -> None:
        with contextlib.suppress(OSError):
            _remove_tree(self._path)
        if self._made_output_dir and not _entries(self._output_dir):
            _remove_tree(self._output_dir)


def publish(
    manifest: records_manifest.Manifest,
    held_out: records_manifest.Manifest | None,
    temporary_dir: AnyPath,
    output_dir: AnyPath,
    flag: str,
) -> None:
    """Replaces older data: marks it as unfinished, moves the shards, then the new manifest.

    Args:
        manifest: of the records in `temporary_dir`.
        held_out: of those in its folder of held-out records, if there are any.
        temporary_dir: the new data.
        output_dir: where they go.
        flag: flag to name in errors.

    Raises:
        UserError: the disk is full, or cannot be written.
    """
    try:
        # A full disk is noticed before older data is removed.
        _flush(manifest, temporary_dir)
        records_manifest.write_manifest(manifest, temporary_dir)
        new_held_out = temporary_dir / records_manifest.HELD_OUT_DIR
        old_held_out = output_dir / records_manifest.HELD_OUT_DIR
        if held_out is not None:
            _flush(held_out, new_held_out)
            records_manifest.write_manifest(held_out, new_held_out)
        records_manifest.mark_unfinished(output_dir)
        _remove_held_out(old_held_out)
        for path in output_dir.glob(f"{SHARD_PREFIX}*"):
            path.unlink()
        if held_out is not None:
            _make(old_held_out)
            records_manifest.mark_unfinished(old_held_out)
            _move(held_out, new_held_out, old_held_out)
        _move(manifest, temporary_dir, output_dir)
    except OSError as error:
        raise UserError(
            f"Output folder {output_dir} ({flag}) cannot be written: {reason_of(error)}"
        ) from error


def _move(manifest: records_manifest.Manifest, source: AnyPath, target: AnyPath) -> None:
    """Moves shards and then, when their names are on the disk, the manifest."""
    for names in (manifest.shards, [records_manifest.FILE_NAME]):
        for name in names:
            (source / name).rename(target / name)
        if not isinstance(target, RemotePath):
            flush_folder(str(target))


def _flush(manifest: records_manifest.Manifest, directory: AnyPath) -> None:
    """Waits until the shards are on the disk; a remote file is stored when it is closed."""
    if not isinstance(directory, RemotePath):
        for name in manifest.shards:
            flush_file(str(directory / name))


def _make(directory: AnyPath) -> None:
    if isinstance(directory, RemotePath):
        directory.mkdir()
    else:
        make_folders(directory)


def _remove_tree(directory: AnyPath) -> None:
    if isinstance(directory, RemotePath):
        directory.remove_tree()
    else:
        shutil.rmtree(directory)


def _remove_held_out(directory: AnyPath) -> None:
    """Removes older held-out records."""
    if (directory / records_manifest.FILE_NAME).is_file():
        records_manifest.mark_unfinished(directory)
        for path in directory.glob(f"{SHARD_PREFIX}*"):
            path.unlink()
        (directory / records_manifest.FILE_NAME).unlink()
        if not _entries(directory):
            _remove_tree(directory)


def _entries(directory: AnyPath) -> list[AnyPath]:
    return sorted(directory.iterdir()) if directory.is_dir() else []
