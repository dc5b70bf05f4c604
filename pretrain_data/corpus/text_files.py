"""Finds the text files of a corpus, reads them and splits them."""

import dataclasses
import errno
import gzip
import os
import pathlib
import zlib
from collections.abc import Callable, Iterator, Mapping
from typing import BinaryIO

from electra_tf.util.errors import UserError
from pretrain_data.corpus.blocks import MAX_LINE_BYTES, Block, read_blocks

TEXT_SUFFIXES = (".txt", ".txt.gz")
FLAG = "--corpus-dir"
_FILE, _FOLDER = "Corpus file", "Corpus folder"
# A conservative estimate, to weigh compressed files against plain ones.
COMPRESSION_RATIO = 3
# A longer document may be split between two processes.
_MAX_BOUNDARY_SEARCH_BYTES = 16 << 20


class UnreadableError(UserError):
    """A file or folder of the corpus cannot be read.

    Attributes:
        path: the file or folder.
        reason: why, in a few words.
    """

    def __init__(self, kind: str, path: str | os.PathLike, flag: str, reason: str) -> None:
        super().__init__(
            f"{kind} {path} ({flag}) {reason}. Repair it, or skip what cannot be read with "
            "--skip_unreadable."
        )
        self._arguments = (kind, str(path), flag, reason)
        self.path, self.reason = str(path), reason

    def __reduce__(self) -> tuple:
        return type(self), self._arguments


@dataclasses.dataclass(frozen=True)
class TextPart:
    """A text file, or the byte range [`start`, `end`) of an uncompressed one."""

    path: pathlib.Path
    start: int
    end: int

    @property
    def is_compressed(self) -> bool:
        return self.path.suffix == ".gz"

    @property
    def num_disk_bytes(self) -> int:
        return self.end - self.start

    @property
    def weight(self) -> int:
        """Expected bytes of text."""
        return self.num_disk_bytes * (COMPRESSION_RATIO if self.is_compressed else 1)

    def read(self) -> Iterator[Block]:
        """Yields the part in blocks of about `BLOCK_BYTES`.

        Raises:
            UnreadableError: the file cannot be read or decompressed.
        """
        try:
            with open(self.path, "rb") as raw:
                if self.is_compressed:
                    with gzip.open(raw) as text:
                        yield from read_blocks(text, str(self.path), raw)
                else:
                    raw.seek(self.start)
                    yield from read_blocks(raw, str(self.path), raw, self.num_disk_bytes)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            reason = f"is not a complete gzip file: {error}"
            raise UnreadableError(_FILE, self.path, FLAG, reason) from error
        except OSError as error:
            raise UnreadableError(_FILE, self.path, FLAG, _reason(error)) from error

    def split(self, offset: int, at_documents: bool) -> tuple["TextPart", "TextPart"]:
        """Splits the part near `offset`.

        Args:
            offset: position relative to the start of the part; the split is at the first
                document or line boundary after it.
            at_documents: split after a blank line, not after any line.

        Returns:
            Both parts; the second one is empty if there is no boundary.

        Raises:
            UnreadableError: the file cannot be read.
        """
        try:
            with open(self.path, "rb") as f:
                boundary = self._boundary(f, self.start + offset, at_documents)
        except OSError as error:
            raise UnreadableError(_FILE, self.path, FLAG, _reason(error)) from error
        return (
            dataclasses.replace(self, end=boundary),
            dataclasses.replace(self, start=boundary),
        )

    def _boundary(self, f: BinaryIO, position: int, at_documents: bool) -> int:
        f.seek(position)
        while not f.readline(MAX_LINE_BYTES).endswith(b"\n") and f.tell() < self.end:
            pass
        boundary = f.tell()
        search_end = min(self.end, boundary + _MAX_BOUNDARY_SEARCH_BYTES)
        while at_documents and f.tell() < search_end:
            if not f.readline(MAX_LINE_BYTES).strip():
                boundary = f.tell()
                break
        return min(boundary, self.end)


@dataclasses.dataclass(frozen=True)
class Corpus:
    """Contents of a corpus directory.

    Attributes:
        parts: text files, sorted by path.
        ignored: other files.
        unreadable: files and folders that cannot be read, with the reason.
    """

    parts: tuple[TextPart, ...]
    ignored: tuple[pathlib.Path, ...]
    unreadable: Mapping[str, str] = dataclasses.field(default_factory=dict)


def find_corpus(
    corpus_dir: str | pathlib.Path, flag: str = FLAG, *, skip_unreadable: bool = False
) -> Corpus:
    """Finds the `.txt` and `.txt.gz` files in `corpus_dir`, recursively.

    Hidden files and directories are skipped; links to directories are followed.

    Args:
        corpus_dir: the directory.
        flag: flag to name in errors.
        skip_unreadable: list what cannot be read instead of failing.

    Raises:
        UserError: the directory does not exist or contains no text.
        UnreadableError: a file or folder cannot be read.
    """
    corpus_dir = pathlib.Path(corpus_dir)
    if not corpus_dir.exists():
        raise UserError(f"Corpus directory {corpus_dir} ({flag}) does not exist.")
    if not corpus_dir.is_dir():
        raise UserError(
            f"{flag} must be a directory of .txt or .txt.gz files; {corpus_dir} is a file. "
            "Pass its parent directory."
        )
    ignored: list[pathlib.Path] = []
    unreadable: dict[str, str] = {}

    def refuse(error: UnreadableError) -> None:
        if not skip_unreadable:
            raise error
        unreadable[error.path] = error.reason

    found = []
    for path in sorted(_walk(corpus_dir, flag, refuse)):
        if path.name.endswith(TEXT_SUFFIXES):
            try:
                found.append(_text_part(path))
            except OSError as error:
                refuse(UnreadableError(_FILE, path, flag, _reason(error)))
        elif path.exists():
            ignored.append(path)
        else:
            refuse(UnreadableError(_FILE, path, flag, "is a broken link"))
    parts = tuple(found)
    if not parts:
        others = f", only {len(ignored)} other files" if ignored else ""
        raise UserError(
            f"Corpus directory {corpus_dir} ({flag}) contains no .txt or .txt.gz files{others}."
        )
    if not any(part.num_disk_bytes for part in parts):
        raise UserError(f"All {len(parts)} text files in {corpus_dir} ({flag}) are empty.")
    return Corpus(parts, tuple(ignored), unreadable)


def _text_part(path: pathlib.Path) -> TextPart:
    """Returns a whole file; raises OSError if it cannot be read."""
    if path.exists() and not path.is_file():
        # Opening a pipe would wait for a writer.
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))
    with open(path, "rb") as f:
        return TextPart(path, 0, os.fstat(f.fileno()).st_size)


def _reason(error: OSError) -> str:
    return f"cannot be read: {error.strerror or error}"


def _walk(
    directory: pathlib.Path, flag: str, refuse: Callable[[UnreadableError], None]
) -> Iterator[pathlib.Path]:
    def refuse_folder(error: OSError) -> None:
        refuse(UnreadableError(_FOLDER, error.filename, flag, _reason(error)))

    seen = {os.path.realpath(directory)}
    for parent, directories, names in os.walk(
        directory, onerror=refuse_folder, followlinks=True
    ):
        visible = []
        for name in directories:
            target = os.path.realpath(os.path.join(parent, name))
            if not name.startswith(".") and target not in seen:
                seen.add(target)
                visible.append(name)
        directories[:] = visible
        for name in names:
            if not name.startswith("."):
                yield pathlib.Path(parent, name)
