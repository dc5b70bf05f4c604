"""The disk of `tests.faults.disk` loses what was not flushed, and nothing else."""

import random

import pytest

from tests.faults.disk import Disk, digest
from tests.faults.shim import Change, Event


@pytest.fixture
def disk(tmp_path) -> Disk:
    (tmp_path / "old").write_bytes(b"old")
    return Disk(str(tmp_path))


def event(tmp_path, change: Change, name: str, to: str = "", data: bytes = b"") -> Event:
    return Event(change, str(tmp_path / name), to and str(tmp_path / to), 0, data)


def images(disk: Disk, trials: int = 30) -> list[dict]:
    return [tree for _, tree in disk.images(random.Random(1), trials)]


def test_without_a_flush_all_may_be_lost(disk, tmp_path):
    disk.apply(event(tmp_path, Change.CREATE, "new"))
    disk.apply(event(tmp_path, Change.WRITE, "new", data=b"data"))
    disk.apply(event(tmp_path, Change.RENAME, "new", to="old"))
    found = {digest(tree) for tree in images(disk)}
    for content in (b"old", b"data", b"", bytes(4)):
        assert digest({"old": content}) in found


def test_a_flushed_file_under_a_flushed_name_stays(disk, tmp_path):
    disk.apply(event(tmp_path, Change.CREATE, "new"))
    disk.apply(event(tmp_path, Change.WRITE, "new", data=b"data"))
    disk.apply(event(tmp_path, Change.SYNC, "new"))
    disk.apply(event(tmp_path, Change.RENAME, "new", to="old"))
    found = {tree["old"] for tree in images(disk)}
    assert found == {b"old", b"data"}
    disk.apply(event(tmp_path, Change.SYNC, "."))
    assert images(disk) == [{"old": b"data"}] * len(images(disk))


def test_a_folder_whose_name_is_not_flushed_is_lost_with_its_files(disk, tmp_path):
    disk.apply(event(tmp_path, Change.MKDIR, "folder"))
    disk.apply(event(tmp_path, Change.CREATE, "folder/file"))
    disk.apply(event(tmp_path, Change.SYNC, "folder/file"))
    disk.apply(event(tmp_path, Change.SYNC, "folder"))
    assert {"old": b"old"} in images(disk)
    disk.apply(event(tmp_path, Change.SYNC, "."))
    assert {"old": b"old"} not in images(disk)
    disk.apply(event(tmp_path, Change.UNLINK, "folder/file"))
    assert {len(tree["folder"]) for tree in images(disk)} == {0, 1}


def test_a_rename_never_loses_the_file(disk, tmp_path):
    disk.apply(event(tmp_path, Change.MKDIR, "folder"))
    disk.apply(event(tmp_path, Change.SYNC, "."))
    disk.apply(event(tmp_path, Change.RENAME, "old", to="folder/new"))
    for tree in images(disk):
        assert tree.get("old") == b"old" or tree["folder"].get("new") == b"old"
