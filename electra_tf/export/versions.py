"""Folders of versions, `EXPORT_DIR/1`, `EXPORT_DIR/2`, …, that appear whole or not at all."""

import contextlib
import os
import pathlib
import shutil
from collections.abc import Iterator

from electra_tf.util.errors import UserError


def version_to_write(export_dir: pathlib.Path, version: int | None) -> int:
    """Returns the version that an export gets.

    Args:
        export_dir: may not exist yet.
        version: as asked for; the one after the highest that is there if None.

    Raises:
        UserError: the version is there already, or `export_dir` is a file.
    """
    if export_dir.exists() and not export_dir.is_dir():
        raise UserError(f"--export_dir={export_dir} is a file, not a folder")
    names = [path.name for path in export_dir.glob("*")]
    taken = [int(name) for name in names if name.isascii() and name.isdigit()]
    if version is None:
        return max(taken, default=0) + 1
    if version in taken:
        raise UserError(
            f"--version={version}: {export_dir / str(version)} exists and is not overwritten. "
            f"Leave out --version for the next free one, {max(taken) + 1}"
        )
    return version


@contextlib.contextmanager
def new_version(export_dir: pathlib.Path, version: int) -> Iterator[pathlib.Path]:
    """Gives a folder to write to, which becomes `EXPORT_DIR/VERSION` when all went well.

    Model servers look for folders that are numbers: they see a version when it is whole.

    Raises:
        UserError: the version has appeared meanwhile.
    """
    export_dir.mkdir(parents=True, exist_ok=True)
    # Another process may export the same version at the same time.
    temporary = export_dir / f"writing-{version}-{os.getpid()}"
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir()
    try:
        yield temporary
        try:
            temporary.rename(export_dir / str(version))
        except OSError as error:
            raise UserError(
                f"{export_dir / str(version)} cannot be made: {error.strerror}"
            ) from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
