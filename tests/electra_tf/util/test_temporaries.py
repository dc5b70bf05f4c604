"""What killed programs leave is removed by the next one that writes the same file."""

import os
import pathlib
import shutil
import subprocess
import sys
import time

import pytest

from electra_tf.util import temporaries
from electra_tf.util.files import whole_folder, write_atomically
from electra_tf.util.temporaries import remove_folder, temporary_path

KILLED = """
import os, signal, sys
from electra_tf.util import files
files.flush_folder = files.flush_tree = lambda path: os.kill(os.getpid(), signal.SIGKILL)
files.os.fsync = lambda file: os.kill(os.getpid(), signal.SIGKILL)
if sys.argv[1] == "file":
    files.write_atomically(sys.argv[2], "half")
with files.whole_folder(sys.argv[2]) as temporary:
    os.mkdir(temporary)
    open(os.path.join(temporary, "weights"), "w").close()
"""


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_leftovers_of_a_killed_program_are_removed(kind, tmp_path):
    path = tmp_path / "target"
    subprocess.run([sys.executable, "-c", KILLED, kind, str(path)], check=False)
    (left,) = os.listdir(tmp_path)
    assert left.startswith("target.")
    assert left.endswith(".tmp")
    if kind == "file":
        write_atomically(path, "whole")
    else:
        with whole_folder(path) as temporary:
            os.mkdir(temporary)
    assert os.listdir(tmp_path) == ["target"]


def test_those_of_running_programs_other_machines_and_other_files_stay(tmp_path):
    path = tmp_path / "target"
    ours = temporary_path(path)
    assert os.path.dirname(ours) == str(tmp_path)
    machine = ours.rpartition("-")[0].rpartition(".")[2]
    elsewhere = f"{'0' * 8}-{machine.partition('-')[2]}"
    names = {
        f"target.{machine}-{os.getppid()}.tmp",
        f"target.{elsewhere}-4194305.tmp",  # above every process id
        f"other.{machine}-4194305.tmp",
        "target.tmp",
    }
    for name in (*names, f"target.{machine}-4194305.tmp"):
        (tmp_path / name).touch()
    write_atomically(path, "text")
    assert {*os.listdir(tmp_path)} == {*names, "target"}


def test_those_of_other_containers_of_this_machine_stay_for_a_day(tmp_path, monkeypatch):
    path = tmp_path / "target"
    ours = pathlib.Path(temporary_path(path))
    monkeypatch.setattr(temporaries, "_container", lambda: "1")
    for process, age in ((1, 0), (4194305, 0), (2, 25 * 3600)):
        theirs = ours.with_name(ours.name.replace(f"-{os.getpid()}.", f"-{process}."))
        theirs.touch()
        os.utime(theirs, (time.time() - age,) * 2)
    write_atomically(path, "text")
    left = {name.rpartition("-")[2] for name in os.listdir(tmp_path)}
    assert left == {"1.tmp", "4194305.tmp", "target"}


def test_files_of_other_users_programs_stay(tmp_path, monkeypatch):
    path = tmp_path / "target"
    machine = temporary_path(path).rpartition("-")[0].rpartition(".")[2]
    left = tmp_path / f"target.{machine}-77.tmp"
    left.touch()

    def refuse(process: int, signal: int) -> None:
        assert (process, signal) == (77, 0)
        raise PermissionError

    monkeypatch.setattr(os, "kill", refuse)
    temporary_path(path)
    assert left.exists()


def make_folder(path: pathlib.Path) -> None:
    (path / "deep").mkdir(parents=True)
    (path / "deep" / "weights").touch()
    (path / "config.json").touch()


def test_a_folder_is_removed_and_that_of_a_link_emptied(tmp_path):
    folder, link = tmp_path / "folder", tmp_path / "link"
    remove_folder(folder)  # which is not there
    make_folder(folder)
    remove_folder(folder)
    assert os.listdir(tmp_path) == []
    make_folder(folder)
    link.symlink_to(folder)
    remove_folder(f"{link}/")
    assert sorted(os.listdir(tmp_path)) == ["folder", "link"]
    assert os.listdir(link) == []


def test_no_part_of_a_folder_is_left_under_its_name(tmp_path, monkeypatch):
    """Where the folder cannot be renamed, such as a mounted disk, it is emptied."""
    folder = tmp_path / "folder"
    make_folder(folder)
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "rmtree", lambda *_, **__: None)  # killed meanwhile
        remove_folder(folder)
    assert not folder.exists()
    make_folder(folder)
    with monkeypatch.context() as patch:
        patch.setattr(os, "rename", lambda *_: (_ for _ in ()).throw(OSError))
        remove_folder(folder)
    assert os.listdir(folder) == []
