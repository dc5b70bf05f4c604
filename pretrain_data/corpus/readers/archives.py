"""Reads the tar archives of OpenWebText without extracting them to disk."""

import bz2
import contextlib
import dataclasses
import gzip
import lzma
import os
import pathlib
import tarfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import BinaryIO, ClassVar

from electra_tf.util.console import warn_once
from electra_tf.util.errors import UserError
from pretrain_data.corpus.blocks import Block, read_blocks
from pretrain_data.corpus.readers.compression import COMPRESSION_RATIO
from pretrain_data.corpus.unreadable import UnreadableError

# The release has the first; the authors' program accepts every compression of `tarfile`.
_OPENERS: Mapping[str, Callable[[BinaryIO], AbstractContextManager]] = {
    ".xz": lzma.open,
    ".tar": contextlib.nullcontext,
    ".gz": gzip.open,
    ".tgz": gzip.open,
    ".bz2": bz2.open,
}
ARCHIVE_SUFFIXES = tuple(_OPENERS)
FLAG = "--data-dir"


class _Member(tarfile.TarInfo):
    """A member whose damaged header is an error: `tarfile` takes it for the end."""

    @classmethod
    def fromtarfile(cls, archive: tarfile.TarFile) -> tarfile.TarInfo:
        position = archive.offset
        try:
            member = super().fromtarfile(archive)
        except tarfile.EOFHeaderError:
            raise  # the end marker
        except tarfile.HeaderError as error:
            problem = f"neither a member nor the end of the archive at byte {position:,}"
            raise tarfile.ReadError(problem) from error
        if member.size < 0:
            raise tarfile.ReadError(f"the member {member.name!r} has a negative size")
        return member


@dataclasses.dataclass(frozen=True)
class ArchivePart:
    """A tar archive of text files, compressed as its suffix says."""

    path: pathlib.Path
    num_disk_bytes: int
    is_divisible: ClassVar[bool] = False

    @property
    def weight(self) -> int:
        """Expected bytes of text."""
        return self.num_disk_bytes * (1 if self.path.suffix == ".tar" else COMPRESSION_RATIO)

    def read(self) -> Iterator[Block]:
        """Yields the text of the members, in archive order.

        Raises:
            UnreadableError: the archive is damaged or cannot be read.
            UserError: it contains a link, a device, or a path outside the target folder.
        """
        position = 0
        try:
            with (
                open(self.path, "rb") as raw,
                _OPENERS[self.path.suffix](raw) as uncompressed,
                tarfile.open(fileobj=uncompressed, mode="r|", tarinfo=_Member) as archive,
            ):
                for member in archive:
                    self._check(member)
                    if not member.isreg():
                        continue
                    name = f"{self.path}:{member.name}"
                    for block in read_blocks(archive.extractfile(member), name, raw):
                        # Includes the bytes between members.
                        num_disk_bytes, position = raw.tell() - position, raw.tell()
                        yield dataclasses.replace(block, num_disk_bytes=num_disk_bytes)
                _check_rest(archive)
        except (
            *(EOFError, lzma.LZMAError, zlib.error, gzip.BadGzipFile),
            tarfile.TarError,
        ) as error:
            reason = f"is not a complete {self.path.suffix} tar archive: {error}"
            raise UnreadableError("Archive", self.path, FLAG, reason) from error
        except OSError as error:
            reason = f"cannot be read: {error.strerror or error}"
            raise UnreadableError("Archive", self.path, FLAG, reason) from error

    def _check(self, member: tarfile.TarInfo) -> None:
        problem = None
        path = pathlib.PurePosixPath(member.name.replace("\\", "/"))
        if path.is_absolute() or ".." in path.parts or ":" in (path.parts or ("",))[0]:
            problem = "would be extracted outside the target folder"
        elif member.issym() or member.islnk():
            problem = f"is a link to {member.linkname!r}"
        elif not (member.isreg() or member.isdir()):
            problem = "is neither a file nor a folder"
        if problem:
            raise UserError(
                f"Archive {self.path} ({FLAG}): member {member.name!r} {problem}. "
                "Such members are rejected; remove the archive from the folder or repack "
                "it without the member"
            )


def _check_rest(archive: tarfile.TarFile) -> None:
    """Raises ReadError if anything but zeros follows the end marker.

    `tarfile` reads only the first of joined archives.
    """
    position = archive.fileobj.tell()
    while rest := archive.fileobj.read(tarfile.RECORDSIZE):
        if rest.strip(b"\0"):
            raise tarfile.ReadError(
                f"another archive, or other content, follows its end at byte {position:,}"
            )


def find_archives(
    directory: str | pathlib.Path, *, skip_unreadable: bool = False
) -> tuple[list[ArchivePart], dict[str, str]]:
    """Finds the archives directly in `directory`, and warns of other files.

    Returns:
        The archives, sorted by name, and with `skip_unreadable` those that cannot be read, with
        the reason.

    Raises:
        UserError: the folder does not exist or contains no archive.
        UnreadableError: the folder or an archive cannot be read.
    """
    directory = pathlib.Path(directory)
    if not directory.is_dir():
        raise UserError(
            f"{directory} does not exist; {FLAG} must be the folder that contains "
            f"{directory.name}/ with the .xz archives"
        )
    try:
        names = sorted(os.listdir(directory))
    except OSError as error:
        reason = f"cannot be read: {error.strerror}"
        raise UnreadableError("Folder", directory, FLAG, reason) from error
    visible = [directory / name for name in names if not name.startswith(".")]
    paths = [path for path in visible if path.suffix in ARCHIVE_SUFFIXES]
    if not paths:
        raise UserError(
            f"{directory} ({FLAG}) contains no archives ({', '.join(ARCHIVE_SUFFIXES)})"
        )
    if others := [path.name for path in visible if path.suffix not in ARCHIVE_SUFFIXES]:
        warn_once(f"{directory}: {len(others)} files are not archives: {', '.join(others[:3])}")
    parts: list[ArchivePart] = []
    unreadable: dict[str, str] = {}
    for path in paths:
        try:
            parts.append(ArchivePart(path, path.stat().st_size))
        except OSError as error:
            reason = f"cannot be read: {error.strerror}"
            if not skip_unreadable:
                raise UnreadableError("Archive", path, FLAG, reason) from error
            unreadable[str(path)] = reason
    return parts, unreadable
