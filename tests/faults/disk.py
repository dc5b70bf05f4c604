"""A disk on which only what was flushed survives a power cut, as POSIX has it.

Data of a file is safe once the file was flushed, and a name once its folder was. Before, each
may survive or be lost, in any combination; a name never leads to a mixture of two files.
"""

import dataclasses
import hashlib
import os
import pathlib
import random
from collections.abc import Callable, Iterator
from typing import NamedTuple

from tests.faults.shim import Change, Event

# A sector is written whole or not at all.
_SECTOR = 512


@dataclasses.dataclass(eq=False)
class File:
    """Content on the disk, and what was written since."""

    safe: bytes = b""
    now: bytes = b""
    pending: list[tuple[int, bytes | None]] = dataclasses.field(default_factory=list)

    def write(self, offset: int, data: bytes | None) -> None:
        """Writes data at an offset; None cuts the file there."""
        self.now = _written(self.now, offset, data)
        self.pending.append((offset, data))

    def sync(self) -> None:
        self.safe, self.pending = self.now, []

    def torn(self, generator: random.Random) -> bytes:
        """Returns the content with some of the pending writes, whole or in part."""
        content = self.safe
        for offset, data in self.pending:
            fate = generator.choice(("lost", "written", "written", "part", "zeros"))
            if fate == "part" and data:
                data = data[: generator.randrange(len(data) // _SECTOR + 1) * _SECTOR]
            if fate == "zeros" and data:
                data = bytes(len(data))
            if fate != "lost":
                content = _written(content, offset, data)
        return content


class Naming(NamedTuple):
    """A name that was made (`node`) or removed (None); one rename has two of a `group`."""

    group: int
    folder: "Folder"
    name: str
    node: "File | Folder | None"


@dataclasses.dataclass(eq=False)
class Folder:
    """Names on the disk, and as they are now."""

    safe: dict[str, "File | Folder"] = dataclasses.field(default_factory=dict)
    now: dict[str, "File | Folder"] = dataclasses.field(default_factory=dict)


Tree = dict[str, "bytes | Tree"]


class Disk:
    """A folder, whose content is safe at first, and what events change in it."""

    def __init__(self, folder: str) -> None:
        self._path = os.path.realpath(folder)
        self._root = _load(pathlib.Path(folder))
        self._pending: list[Naming] = []
        self._groups = 0

    def apply(self, event: Event) -> None:
        """Does what an event did."""
        folder, name = self._find(event.path)
        node = folder.now.get(name) if name else folder
        if event.change == Change.CREATE:
            self._name(folder, name, File())
        elif event.change == Change.MKDIR:
            self._name(folder, name, Folder())
        elif event.change in (Change.UNLINK, Change.RMDIR):
            self._name(folder, name, None)
        elif event.change == Change.RENAME:
            target, new = self._find(event.to)
            self._groups += 1
            self._name(target, new, node, group=self._groups)
            self._name(folder, name, None, group=self._groups)
        elif event.change == Change.WRITE and isinstance(node, File):
            node.write(event.offset, event.data)
        elif event.change == Change.TRUNCATE and isinstance(node, File):
            node.write(event.offset, None)
        elif event.change == Change.SYNC and isinstance(node, File):
            node.sync()
        elif event.change == Change.SYNC and isinstance(node, Folder):
            node.safe = dict(node.now)
            self._pending = [each for each in self._pending if each.folder is not node]

    def images(self, generator: random.Random, trials: int) -> Iterator[tuple[str, Tree]]:
        """Yields what the disk may be after a power cut now, with the name of the variant."""
        every, journal = self._pending, sorted({each.group for each in self._pending})
        yield "all is written", self._image(every, lambda file: file.now)
        yield "what was flushed", self._image([], lambda file: file.safe)
        yield "names without data", self._image(every, lambda file: file.safe)
        yield "zeros as data", self._image(every, _zeros)
        for _ in range(trials):
            last = generator.choice([0, *journal])
            kept = [each for each in every if each.group <= last]
            yield "a journal of names", self._image(kept, lambda f: f.torn(generator))
            kept = _some(every, generator)
            yield "names in any order", self._image(kept, lambda f: f.torn(generator))

    def _name(
        self, folder: Folder, name: str, node: File | Folder | None, group: int | None = None
    ) -> None:
        if group is None:
            self._groups += 1
            group = self._groups
        _set(folder.now, name, node)
        self._pending.append(Naming(group, folder, name, node))

    def _find(self, path: str) -> tuple[Folder, str]:
        relative = os.path.relpath(os.path.normpath(path), self._path)
        *folders, name = relative.split(os.sep)
        folder = self._root
        for each in folders:
            folder = folder.now[each]
        return folder, "" if name == os.curdir else name

    def _image(self, kept: list[Naming], content: Callable[[File], bytes]) -> Tree:
        names = {}
        for each in kept:
            names.setdefault(each.folder, dict(each.folder.safe))
            _set(names[each.folder], each.name, each.node)

        def copy(node: File | Folder) -> "bytes | Tree":
            if isinstance(node, File):
                return content(node)
            return {name: copy(each) for name, each in names.get(node, node.safe).items()}

        return copy(self._root)


def write_tree(tree: Tree, folder: pathlib.Path) -> None:
    """Writes an image to a new folder."""
    folder.mkdir()
    for name, content in tree.items():
        if isinstance(content, dict):
            write_tree(content, folder / name)
        else:
            (folder / name).write_bytes(content)


def digest(tree: Tree) -> str:
    """Returns a digest of an image."""
    parts = [
        f"{name!r} "
        + (digest(each) if isinstance(each, dict) else hashlib.sha256(each).hexdigest())
        for name, each in sorted(tree.items())
    ]
    return hashlib.sha256("\n".join(["/", *parts]).encode()).hexdigest()


def _set(names: dict[str, File | Folder], name: str, node: File | Folder | None) -> None:
    if node is None:
        names.pop(name, None)
    else:
        names[name] = node


def _some(pending: list[Naming], generator: random.Random) -> list[Naming]:
    """Returns some changes; of a rename both names, none or, in two folders, the new one."""
    kept = []
    for group in sorted({each.group for each in pending}):
        names = [each for each in pending if each.group == group]
        fate = generator.choice(("lost", "kept", "new"))
        if (
            fate == "new"
            and names[0].node is not None
            and names[0].folder is not names[-1].folder
        ):
            kept.append(names[0])
        elif fate != "lost":
            kept += names
    return kept


def _written(content: bytes, offset: int, data: bytes | None) -> bytes:
    before = content[:offset].ljust(offset, b"\0")
    return before if data is None else before + data + content[offset + len(data) :]


def _zeros(file: File) -> bytes:
    return file.safe + bytes(len(file.now) - len(file.safe)) if file.pending else file.now


def _load(path: pathlib.Path) -> File | Folder:
    if path.is_file():
        content = path.read_bytes()
        return File(content, content)
    names = {each.name: _load(each) for each in path.iterdir()}
    return Folder(names, dict(names))
