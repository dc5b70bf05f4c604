"""Damaged, missing and unfinished files of checkpoints, and what is read instead."""

import errno
import json
import os
import pathlib
import resource
import shutil

import pytest
import tensorflow as tf

from electra_tf.training.checkpoints import (
    checkpoint_directory,
    checkpoint_files,
    checkpoint_writing,
)
from electra_tf.training.checkpoints.checkpoint_directory import CheckpointDirectory
from electra_tf.training.checkpoints.checkpoint_files import (
    checkpoint_of,
    newest_whole,
    problem_of,
    require_whole,
)
from electra_tf.util.errors import PreemptedError, UserError

STEPS = (2, 4, 6)


class Weights(tf.Module):
    """Stands for a model: one table."""

    def __init__(self) -> None:
        super().__init__()
        self.table = tf.Variable(tf.zeros([100, 10]))


class Run:
    """A run whose weights equal its step."""

    def __init__(self, folder: pathlib.Path, keep: int = 5) -> None:
        self.model, self.step = Weights(), tf.Variable(0, dtype=tf.int64, trainable=False)
        self.checkpoints = CheckpointDirectory(
            str(folder), self.model, self.step, keep_checkpoint_max=keep
        )

    def save(self, *steps: int) -> None:
        for step in steps:
            self.step.assign(step)
            self.model.table.assign(tf.fill([100, 10], float(step)))
            self.checkpoints.save()

    def resume(self) -> int:
        """Returns the step that it goes on from."""
        assert self.checkpoints.restore_latest()
        assert float(self.model.table[99, 9]) == int(self.step)
        return int(self.step)


@pytest.fixture(scope="module")
def saved(tmp_path_factory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("run") / "model"
    Run(folder).save(*STEPS)
    return folder


@pytest.fixture
def folder(saved, tmp_path) -> pathlib.Path:
    return pathlib.Path(shutil.copytree(saved, tmp_path / "model"))


def flip_a_bit(path: pathlib.Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


DAMAGES = {
    "truncated": lambda path: os.truncate(path, path.stat().st_size // 2),
    "empty": lambda path: os.truncate(path, 0),
    "zeros": lambda path: path.write_bytes(bytes(path.stat().st_size)),
    "bit": flip_a_bit,
    "missing": lambda path: path.unlink(),
}


@pytest.mark.parametrize("with_manifest", [True, False], ids=["manifest", "older version"])
@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("suffix", ["index", "data-00000-of-00001"])
def test_a_damaged_checkpoint_is_passed_over(folder, suffix, damage, with_manifest, capsys):
    if not with_manifest:
        for path in folder.glob("*.manifest.json"):
            path.unlink()
    DAMAGES[damage](folder / f"ckpt-6.{suffix}")
    assert Run(folder).resume() == 4
    (warning,) = capsys.readouterr().err.splitlines()
    assert warning.startswith(f"warning: Skipped a damaged checkpoint: {folder}/ckpt-6: ")
    assert warning.endswith(f"Using {folder}/ckpt-4")
    with pytest.raises(UserError, match="ckpt-6 is not intact"):
        require_whole(str(folder / "ckpt-6"))


def test_a_signal_while_a_checkpoint_is_checked_does_not_mean_damage(folder, monkeypatch):
    (folder / "ckpt-6.manifest.json").unlink()  # so its tensors are read

    def stop(prefix: str) -> None:
        raise PreemptedError(f"SIGTERM, as {prefix} is read")

    monkeypatch.setattr(tf.train, "load_checkpoint", stop)
    with pytest.raises(PreemptedError, match="ckpt-6"):
        Run(folder).resume()


@pytest.mark.parametrize("damage", ["empty", "zeros", "missing", "not UTF-8"])
def test_the_state_file_does_not_decide(folder, damage, capsys):
    if damage == "not UTF-8":
        (folder / "checkpoint").write_bytes(b'model_checkpoint_path: "\xff"')
    else:
        DAMAGES[damage](folder / "checkpoint")
    assert Run(folder).resume() == 6
    (warning,) = capsys.readouterr().err.splitlines()
    assert f"{folder}/checkpoint is " in warning

    (folder / "checkpoint").write_text('model_checkpoint_path: "ckpt-2"\n')
    assert Run(folder).resume() == 6
    assert f"{folder}/checkpoint names ckpt-2" in capsys.readouterr().err


def test_a_url_is_not_a_folder():
    with pytest.raises(UserError, match="gs://bucket/run is not a folder on a file system"):
        Run("gs://bucket/run")


def test_whole_checkpoints_need_no_warning(folder, capsys):
    assert Run(folder).resume() == 6
    assert newest_whole(str(folder / "none")) is None
    assert capsys.readouterr().err == ""


def test_a_damaged_manifest_leaves_the_checkpoint_to_the_reader(folder, capsys):
    DAMAGES["zeros"](folder / "ckpt-6.manifest.json")
    assert Run(folder).resume() == 6
    assert f"{folder}/ckpt-6.manifest.json is damaged" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("ckpt-6.index", "ckpt-6"),
        ("model.ckpt-100.data-00000-of-00002", "model.ckpt-100"),
        ("ckpt-6.manifest.json", "ckpt-6"),
        ("config.json", None),
        ("checkpoint", None),
    ],
)
def test_the_name_of_the_checkpoint_of_a_file(file, name):
    assert checkpoint_of(file) == name


def test_a_folder_that_cannot_be_read_is_named(tmp_path):
    long = str(tmp_path / ("x" * 300))
    with pytest.raises(UserError, match=f"^{long} cannot be read: File name too long"):
        newest_whole(long)
    problem = problem_of(str(tmp_path / "gone/ckpt-2"))
    assert problem == f"{tmp_path}/gone cannot be read: No such file or directory"


def test_a_checkpoint_without_steps_is_found_by_the_only_name(folder, tmp_path):
    """As those of the authors' code, of which a folder may have several."""
    other = tmp_path / "others"
    other.mkdir()

    def copy(name: str) -> None:
        for path in folder.glob("ckpt-6.*"):
            if "manifest" not in path.name:
                shutil.copy(path, other / path.name.replace("ckpt-6", name))

    copy("model.ckpt-5")
    assert newest_whole(str(other), None) == f"{other}/model.ckpt-5"
    assert newest_whole(str(other), "bert.ckpt") is None
    copy("bert.ckpt")
    with pytest.raises(UserError, match=r"belong to several runs \(bert\.ckpt, model\.ckpt\)"):
        newest_whole(str(other), None)
    (other / "checkpoint").write_text('model_checkpoint_path: "bert.ckpt"\n')
    assert newest_whole(str(other), None) == f"{other}/bert.ckpt"
    (other / "checkpoint").write_text('model_checkpoint_path: "model.ckpt-5"\n')
    assert newest_whole(str(other), None) == f"{other}/model.ckpt-5"


def test_a_file_that_cannot_be_read_or_is_missing_is_named(folder, monkeypatch):
    manifest = folder / "ckpt-6.manifest.json"
    content = json.loads(manifest.read_text())
    content["files"]["ckpt-6.data-00001-of-00002"] = {"bytes": 1, "sha256": "0"}
    manifest.write_text(json.dumps(content))
    problem = problem_of(str(folder / "ckpt-6"))
    assert problem == "ckpt-6.data-00001-of-00002 is missing"

    def fail(path):
        raise OSError(errno.EIO, "Input/output error", path)

    monkeypatch.setattr(checkpoint_files, "sha256", fail)
    problem = problem_of(str(folder / "ckpt-4"))
    assert problem == "ckpt-4.data-00000-of-00001 cannot be read: Input/output error"


def test_a_folder_that_cannot_be_removed_does_not_fail_a_save(tmp_path, monkeypatch):
    def denied(path, *args, **kwargs):
        raise PermissionError(13, "Permission denied", path)

    run = Run(tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr("os.rmdir", denied)
        run.save(2)
    assert Run(tmp_path).resume() == 2
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] != []
    run.save(4)
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == []
    assert Run(tmp_path).resume() == 4


def test_the_step_of_a_name():
    names = {"a/ckpt-200": 200, "model.ckpt-7": 7, "a-3/model": -1, "ckpt-x": -1}
    assert {name: checkpoint_files.step_of(name) for name in names} == names


def test_tensorflow_is_told_of_all_checkpoints_that_are_kept(tmp_path):
    Run(tmp_path, keep=2).save(2, 4, 6)
    state = tf.train.get_checkpoint_state(str(tmp_path))
    assert state.model_checkpoint_path == str(tmp_path / "ckpt-6")
    paths = [str(tmp_path / name) for name in ("ckpt-4", "ckpt-6")]
    assert list(state.all_model_checkpoint_paths) == paths


def test_a_checkpoint_is_removed_index_first(tmp_path, monkeypatch):
    """Killed meanwhile, a checkpoint without its index is none; one without data is damaged."""
    Run(tmp_path).save(2)
    removed, remove = [], os.remove

    def note(path):
        removed.append(os.path.basename(path))
        remove(path)

    monkeypatch.setattr(os, "remove", note)
    checkpoint_writing.remove_checkpoint(str(tmp_path / "ckpt-2"))
    assert removed[0] == "ckpt-2.index"
    assert len(removed) == 3


def test_a_file_named_like_a_folder_of_a_killed_save_is_no_obstacle(tmp_path):
    (tmp_path / "ckpt-1.unfinished").write_text("")
    run = Run(tmp_path)
    run.save(2)
    assert Run(tmp_path).resume() == 2


def test_none_whole_is_an_error(folder):
    for step in STEPS:
        DAMAGES["zeros"](folder / f"ckpt-{step}.index")
    with pytest.raises(UserError, match=r"none of them is intact(.|\n)*ckpt-6(.|\n)*ckpt-2: "):
        Run(folder).checkpoints.restore_latest()
    for path in folder.glob("*.index"):
        path.unlink()
    with pytest.raises(UserError, match=r"ckpt-4\.index is missing"):
        Run(folder).checkpoints.restore_latest()


def test_training_goes_on_from_before_and_replaces_what_is_damaged(folder):
    DAMAGES["truncated"](folder / "ckpt-6.data-00000-of-00001")
    run = Run(folder, keep=2)
    assert run.resume() == 4
    run.save(5)
    assert Run(folder).resume() == 5
    run.save(6)
    assert Run(folder).resume() == 6
    assert checkpoint_files.checkpoint_steps(str(folder)) == [5, 6]
    assert tf.train.latest_checkpoint(str(folder)) == str(folder / "ckpt-6")


@pytest.mark.parametrize("renamed", range(3))
def test_a_killed_save_leaves_the_one_before(folder, renamed, monkeypatch, capsys):
    """The program dies after `renamed` of the three files got their final names."""

    class Killed(BaseException):
        pass

    names = []

    def rename(source: str, target: str) -> None:
        if os.path.dirname(target) == str(folder) and len(names) == renamed:
            raise Killed
        os.rename(source, target)
        if os.path.dirname(target) == str(folder):
            names.append(target)

    run = Run(folder)
    monkeypatch.setattr(os, "replace", rename)
    monkeypatch.setattr(shutil, "rmtree", lambda *_, **__: None)
    monkeypatch.setattr(checkpoint_writing, "remove_checkpoint", print)
    with pytest.raises(Killed):
        run.save(8)
    assert not (folder / "ckpt-8.index").exists()
    capsys.readouterr()
    assert Run(folder).resume() == 6
    assert capsys.readouterr().err == ""
    monkeypatch.undo()
    run = Run(folder)
    run.resume()
    run.save(9)
    assert not list(folder.glob("ckpt-8*"))


def test_a_killed_first_save_is_not_a_checkpoint(tmp_path):
    (tmp_path / "ckpt-2.unfinished").mkdir()
    (tmp_path / "ckpt-2.data-00000-of-00001").write_bytes(b"half")
    run = Run(tmp_path)
    assert not run.checkpoints.restore_latest()
    run.save(1)
    assert {path.name.split(".")[0] for path in tmp_path.iterdir()} == {"ckpt-1", "checkpoint"}


def test_files_are_flushed_before_they_are_named(tmp_path, monkeypatch):
    events = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: events.append("flush"))
    rename = os.replace

    def record(source: str, target: str) -> None:
        events.append(os.path.basename(target))
        rename(source, target)

    monkeypatch.setattr(os, "replace", record)
    Run(tmp_path).save(1)
    data, index, manifest = (
        f"ckpt-1.{suffix}" for suffix in ("data-00000-of-00001", "index", "manifest.json")
    )
    first = events.index(data)
    assert events[:first].count("flush") >= 3  # data, index, manifest
    assert events[first : first + 5] == [data, manifest, "flush", index, "flush"]
    assert events.index("checkpoint") > first + 4


def test_nothing_of_a_failed_save_stays(tmp_path, monkeypatch):
    def write(prefix: str) -> None:
        pathlib.Path(prefix + ".index").touch()
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), prefix)

    run = Run(tmp_path)
    monkeypatch.setattr(run.checkpoints._checkpoint, "write", write)
    with pytest.raises(UserError, match=r"ckpt-1 cannot be written: .*No space left on device"):
        run.save(1)
    assert not list(tmp_path.iterdir())


def test_a_full_disk_is_one_error(folder):
    """A limit of the size of files stands for the disk: TensorFlow writes half of the data."""
    run = Run(folder)
    run.resume()
    before = sorted(path.name for path in folder.iterdir())
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, limits[1]))
    try:
        with pytest.raises(UserError, match=r"ckpt-8 cannot be written: /.*one is .*ckpt-6$"):
            run.save(8)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert sorted(path.name for path in folder.iterdir()) == before
    run.save(8)
    assert Run(folder).resume() == 8


def test_files_are_not_read_twice(folder, monkeypatch):
    assert problem_of(str(folder / "ckpt-6")) is None
    monkeypatch.setattr(checkpoint_files, "sha256", lambda path: pytest.fail(path))
    assert problem_of(str(folder / "ckpt-6")) is None


def test_checkpoints_of_other_names_are_none_of_a_run(folder):
    for path in folder.glob("ckpt-6*"):
        path.rename(path.with_name(path.name.replace("ckpt-6", "other-9")))
    assert newest_whole(str(folder)) == str(folder / "ckpt-4")


class KilledError(Exception):
    """Stands for a kill."""


@pytest.mark.parametrize("killed_in", ["record_newest", "remove_checkpoint"])
def test_a_resumed_run_completes_a_killed_save(tmp_path, monkeypatch, killed_in):
    def kill(*_: object) -> None:
        raise KilledError

    run = Run(tmp_path, keep=2)
    run.save(2, 4)
    keep_newest = checkpoint_writing.keep_newest

    def keep_until_killed(*arguments: object) -> None:
        monkeypatch.setattr(checkpoint_writing, killed_in, kill)
        keep_newest(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(checkpoint_directory, "keep_newest", keep_until_killed)
        with pytest.raises(KilledError):
            run.save(6)
    monkeypatch.undo()
    resumed = Run(tmp_path, keep=2)
    assert resumed.checkpoints.resume()
    assert int(resumed.step) == 6
    assert 'model_checkpoint_path: "ckpt-6"' in (tmp_path / "checkpoint").read_text()
    assert checkpoint_files.checkpoint_steps(str(tmp_path)) == [4, 6]
