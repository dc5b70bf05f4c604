"""The lock that keeps a second program from training into a folder."""

import contextlib
import errno
import fcntl
import multiprocessing
import os
import types

import pytest

from electra_tf.training.checkpoints import folder_lock
from electra_tf.training.checkpoints.folder_lock import kept_from_training, lock_model_dir
from electra_tf.util.errors import UserError

CHIEF, OTHER = (types.SimpleNamespace(is_chief=each, count=1) for each in (True, False))


def _hold_until_killed(folder: str, pipe) -> None:
    with lock_model_dir(folder, "--model_dir", CHIEF):
        pipe.send("held")
        pipe.recv()


def test_a_second_program_is_refused_until_the_first_has_ended(tmp_path):
    folder = str(tmp_path / "models" / "one")
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    program = context.Process(target=_hold_until_killed, args=(folder, theirs))
    program.start()
    try:
        assert ours.recv() == "held"
        message = rf"Another program is training in {folder} .* with --model_dir"
        with (
            pytest.raises(UserError, match=message),
            lock_model_dir(folder, "--model_dir", CHIEF),
        ):
            pass
        with lock_model_dir(folder, "--model_dir", OTHER):  # a worker of the same run
            pass
        with lock_model_dir(f"{folder}_2", "--model_dir", CHIEF):
            pass
    finally:
        program.kill()
        program.join()
    with lock_model_dir(folder, "--model_dir", CHIEF):
        pass


def test_a_lock_is_given_back_after_an_error(tmp_path):
    folder = str(tmp_path / "one")
    for _ in range(2):
        with pytest.raises(KeyError), lock_model_dir(folder, "--model_dir", CHIEF):
            raise KeyError


def test_an_error_in_a_folder_without_a_lock_is_raised_alone(tmp_path):
    with (
        pytest.raises(KeyError) as raised,
        kept_from_training(str(tmp_path / "one"), "--output"),
    ):
        raise KeyError
    assert raised.value.__context__ is None


def test_remote_folders_are_not_locked(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with lock_model_dir("gs://bucket/one", "--model_dir", CHIEF):
        assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("number", [errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP])
def test_a_file_system_without_locks_is_one_error(tmp_path, monkeypatch, number):
    def refuse(descriptor: int, operation: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", refuse)
    message = rf"one\.lock cannot be locked .*{os.strerror(number)}.* with --model_dir"
    with (
        pytest.raises(UserError, match=message),
        lock_model_dir(str(tmp_path / "one"), "--model_dir", CHIEF),
    ):
        pass


def test_a_read_only_folder_is_one_error(tmp_path, monkeypatch):
    def refuse(path: str, *_: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), path)

    monkeypatch.setattr(os, "open", refuse)
    with (
        pytest.raises(UserError, match=r"one \(--model_dir\) cannot be written: .*Read-only"),
        lock_model_dir(str(tmp_path / "one"), "--model_dir", CHIEF),
    ):
        pass


def test_a_file_is_no_model_folder(tmp_path):
    path = tmp_path / "file"
    path.write_text("")
    message = "file .--model_dir. is a file. Choose another folder"
    with (
        pytest.raises(UserError, match=message),
        lock_model_dir(str(path), "--model_dir", CHIEF),
    ):
        pass
    assert [each.name for each in tmp_path.iterdir()] == ["file"]


def test_a_folder_has_one_lock_under_all_of_its_names(tmp_path, monkeypatch):
    (tmp_path / "disk/run").mkdir(parents=True)
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "disk/run")
    with (
        lock_model_dir(f"{link}/", "--model_dir", CHIEF),
        pytest.raises(UserError, match=r"Another program is training in .*disk/run"),
        lock_model_dir(str(tmp_path / "disk/run"), "--model_dir", CHIEF),
    ):
        pass
    assert not (tmp_path / "link.lock").exists()
    # Next to a mounted disk, no file can be made.
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with lock_model_dir(str(link), "--model_dir", CHIEF):
        assert (tmp_path / "link.lock").exists()


@pytest.mark.parametrize("is_shared", [True, False])
def test_workers_that_do_not_share_the_folder_are_refused(tmp_path, monkeypatch, is_shared):
    monkeypatch.setattr(folder_lock, "_SECONDS_TO_SEE", 0.1)
    marks: list[int] = []

    def worker(is_chief: bool) -> types.SimpleNamespace:
        def from_chief(value: int) -> int:
            if is_chief:
                marks.append(value)
            return marks[-1]

        return types.SimpleNamespace(
            is_chief=is_chief, count=2, from_chief=from_chief, any_worker=bool
        )

    folder = str(tmp_path / "one" / "model")
    seen = folder if is_shared else str(tmp_path / "other" / "model")
    with lock_model_dir(folder, "--model_dir", worker(True)):
        refused = pytest.raises(
            UserError, match=rf"workers do not share {seen} \(--model_dir\)"
        )
        expected = contextlib.nullcontext() if is_shared else refused
        with expected, lock_model_dir(seen, "--model_dir", worker(False)):
            pass
