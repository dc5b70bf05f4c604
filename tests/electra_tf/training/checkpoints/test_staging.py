"""Tests of runs in remote folders: `ram://`, in this process."""

import contextlib
import os
import pathlib
import signal
import threading
import uuid
from collections.abc import Callable

import pytest

from electra_tf.config.pretraining import PretrainingConfig
from electra_tf.training.checkpoints import staging, staging_folders
from electra_tf.training.checkpoints.staging import Mirror, staged_folder
from electra_tf.util.errors import PreemptedError, UserError
from electra_tf.util.paths import RemotePath, as_path
from electra_tf.util.signals import handling
from finetune.config.finetuning import FinetuningConfig
from flags.remote.pretraining_folders import staged
from tests.pretraining_runs import evaluate, train


@pytest.fixture
def remote(tmp_path, monkeypatch) -> str:
    """A remote folder that does not exist yet."""
    monkeypatch.setattr(staging_folders.tempfile, "gettempdir", lambda: str(tmp_path / "tmp"))
    monkeypatch.setattr(staging, "_SECONDS_BETWEEN_ATTEMPTS", 0.0)
    return f"ram://staging/{uuid.uuid4().hex}"


def names(folder: str) -> list[str]:
    return sorted(str(path).removeprefix(f"{folder}/") for path in as_path(folder).walk())


def test_a_run_in_a_remote_folder_resumes_from_it(tiny_data, remote, tmp_path, capsys):
    for path in tiny_data.rglob("*"):
        if path.is_file():
            target = as_path(f"{remote}/{path.relative_to(tiny_data)}")
            target.parent.mkdir()
            target.copy_from_local(path)
    shape = {"num_hidden_layers": 1, "hidden_size": 8, "num_attention_heads": 1}
    shape |= {"intermediate_size": 8, "max_position_embeddings": 16}
    settings = {"data_dir": remote, "model_name": "run", "model_hparam_overrides": shape}
    settings |= {"max_seq_length": 16, "train_batch_size": 4, "vocab_size": 40, "seed": 5}
    settings |= {"save_checkpoints_steps": 2, "keep_checkpoint_max": 1, "report": False}
    settings |= {"allow_changed_settings": ("num_train_steps",), "embedding_size": 8}
    printed = []

    def run(function, **changes):
        config = PretrainingConfig.create(**settings | changes)
        with staged(config, printed.append) as local:
            assert local.model_dir.startswith(str(tmp_path))
            return function(local, print)

    run(train, num_train_steps=2)
    files = names(f"{remote}/models/run")
    assert {"checkpoint", "config.json", "ckpt-2.index"} <= set(files)
    assert not [name for name in files if name.endswith((".tmp", ".lock"))]
    run(train, num_train_steps=4)
    files = names(f"{remote}/models/run")
    assert "ckpt-4.index" in files
    assert not [name for name in files if name.startswith("ckpt-2.")]
    assert b"ckpt-4" in as_path(f"{remote}/models/run/checkpoint").read_bytes()
    # Its folder is named, not the local one, which is gone by then.
    output = capsys.readouterr().out
    assert f"Resuming from {remote}/models/run/ckpt-2, step 2." in output
    assert f"TensorBoard: tensorboard --logdir {remote}/models/run/tensorboard" in output
    assert str(tmp_path) not in output
    config = PretrainingConfig.create(**settings)
    with (
        pytest.raises(PreemptedError, match=f"saved {remote}/models/run/ckpt-3"),
        staged(config, printed.append) as local,
    ):
        raise PreemptedError(f"saved {local.model_dir}/ckpt-3")
    # The same folder, as shells complete its name.
    folder = f"{remote}/models/run/"
    run(evaluate, num_train_steps=4, do_train=False, do_eval=True, model_dir=folder)
    assert "results/unsup_results.json" in names(f"{remote}/models/run")
    # What is copied is removed here.
    assert [path for path in tmp_path.glob("tmp/*/*") if path.is_dir()] == []


def test_files_are_copied_in_the_order_of_a_checkpoint(tmp_path, remote, monkeypatch):
    local = tmp_path / "local"
    mirror = Mirror(RemotePath(remote), local)
    mirror.download()
    for name in ("checkpoint", "ckpt-1.index", "ckpt-1.data-00000-of-00001", "log.jsonl"):
        (local / name).write_text(name)
    (local / "ckpt-2.unfinished").mkdir()
    (local / "ckpt-2.unfinished/ckpt-2.index").write_text("half")
    written = []
    for method in ("write_bytes", "copy_from_local"):
        original = getattr(RemotePath, method)

        def note(self, source, original=original):
            written.append(self.name.removesuffix(".tmp"))
            original(self, source)

        monkeypatch.setattr(RemotePath, method, note)
    mirror.upload()
    assert written == ["log.jsonl", "ckpt-1.data-00000-of-00001", "ckpt-1.index", "checkpoint"]
    (local / "log.jsonl").write_text("longer log")
    mirror.upload()
    assert written[4:] == ["log.jsonl"]
    (local / "ckpt-1.index").unlink()
    mirror.upload()
    assert names(remote) == ["checkpoint", "ckpt-1.data-00000-of-00001", "log.jsonl"]
    again = Mirror(RemotePath(remote), tmp_path / "again")
    again.download()
    assert (tmp_path / "again/log.jsonl").read_text() == "longer log"
    again.upload()
    assert written[5:] == []


def test_a_folder_that_others_have_made_is_refused(remote, tmp_path):
    (tmp_path / "theirs").mkdir()
    (tmp_path / "tmp").mkdir()
    base = tmp_path / f"tmp/electra-staging-{os.getuid()}"
    base.symlink_to(tmp_path / "theirs")
    with (
        pytest.raises(UserError, match=f"^{base} is a link or belongs to another user"),
        staged_folder(remote, "--model_dir"),
    ):
        pass
    assert not list((tmp_path / "theirs").iterdir())
    base.unlink()
    base.mkdir(mode=0o777)
    with staged_folder(remote, "--model_dir", lambda line: None):
        assert base.stat().st_mode & 0o777 == 0o700


def test_a_second_training_does_not_touch_the_files_of_the_first(remote):
    with staged_folder(remote, "--model_dir", lambda line: None) as local:
        pathlib.Path(local, "ckpt-2.index").write_text("not copied yet")
        with (
            pytest.raises(UserError, match=rf"is training in {remote} \(--model_dir\)"),
            staged_folder(remote, "--model_dir"),
        ):
            pass
        with staged_folder(remote, "--model_dir", lambda line: None, trains=False) as other:
            assert other != local
            pathlib.Path(other, "results.json").write_text("evaluated meanwhile")
        assert names(remote) == ["results.json"]
        assert os.listdir(local) == ["ckpt-2.index"]
    assert names(remote) == ["ckpt-2.index", "results.json"]


def test_models_are_not_written_twice_whatever_folder_they_are_staged_in(remote):
    """Of the results, and of both, the common folder differs."""
    models = f"{remote}/a/model"

    def stage(folder: str, part: str, **given):
        return staged_folder(
            folder, "--model_dir", lambda line: None, part=part, written=models, **given
        )

    with stage(remote, "a/model"):
        with (
            pytest.raises(UserError, match=rf"is training in {models} \(--model_dir\)"),
            stage(f"{remote}/a", "model"),
        ):
            pass
        with stage(f"{remote}/a", "model", trains=False):
            pass
    with stage(f"{remote}/a", "model"):
        pass


def test_what_a_killed_run_had_not_copied_is_kept(remote, monkeypatch):
    printed = []

    def kill(mirror, flag):
        raise KeyboardInterrupt

    def leave(content: str) -> None:
        with (
            monkeypatch.context() as patch,
            contextlib.suppress(KeyboardInterrupt),
            staged_folder(remote, "--model_dir", printed.append) as local,
        ):
            patch.setattr(staging, "_copy_remaining", kill)
            pathlib.Path(local, "log.jsonl").write_text(content)

    leave("first")
    as_path(f"{remote}/log.jsonl").write_bytes(b"first")
    with staged_folder(remote, "--model_dir", printed.append):
        assert not [line for line in printed if "were not copied" in line]
    leave("second")
    with staged_folder(remote, "--model_dir", printed.append) as local:
        assert pathlib.Path(local, "log.jsonl").read_text() == "first"
    (line,) = [line for line in printed if "were not copied" in line]
    left = pathlib.Path(line.removesuffix(".").rpartition(" ")[2])
    assert (left / "log.jsonl").read_text() == "second"

    # Also after a start in between that could not read the remote folder.
    def refuse(self):
        raise PermissionError(13, "no network", str(self))

    told = pytest.raises(UserError, match=rf"no network\. Files of a killed run are in {left}")
    with monkeypatch.context() as patch:
        patch.setattr(Mirror, "download", refuse)
        with told, staged_folder(remote, "--model_dir"):
            pass
    printed.clear()
    with staged_folder(remote, "--model_dir", printed.append):
        assert line in printed


def test_signals_wait_for_the_last_copy(remote, monkeypatch, capsys):
    """Also those that come before it, while another handler is installed."""
    copy = staging._copy_remaining
    received = []

    def receive(number, frame):
        received.append(number)
        raise SystemExit

    def signal_and_copy(mirror, flag):
        for each in (signal.SIGTERM, signal.SIGTERM, signal.SIGUSR1):
            signal.raise_signal(each)
        copy(mirror, flag)

    monkeypatch.setattr(staging, "_copy_remaining", signal_and_copy)
    with handling([signal.SIGTERM], receive):
        with staged_folder(remote, "--model_dir") as local:
            pathlib.Path(local, "log.jsonl").write_text("all")
        assert not received
        assert f"SIGUSR1: copying to {remote} first" in capsys.readouterr().err
        with pytest.raises(SystemExit):
            signal.raise_signal(signal.SIGTERM)
    assert as_path(f"{remote}/log.jsonl").read_bytes() == b"all"


def test_an_interrupted_last_copy_tells_where_the_files_are(remote, monkeypatch, capsys):
    def interrupt(self):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), staged_folder(remote, "--model_dir") as local:
        monkeypatch.setattr(Mirror, "upload", interrupt)
    told = f"Not all files have been copied (--model_dir). They are in {local}"
    assert told in capsys.readouterr().err


def test_what_cannot_be_written_is_one_line(tmp_path, remote, monkeypatch):
    def refuse(self, *_):
        raise PermissionError(13, "no permission: 403", str(self))

    with monkeypatch.context() as patch:
        patch.setattr(RemotePath, "write_bytes", refuse)
        with (
            pytest.raises(UserError, match=r"--model_dir\) cannot be used: no permission: 403"),
            staged_folder(remote, "--model_dir"),
        ):
            pass
    with pytest.raises(UserError, match=r"no permission: 403\. The files missing there are in"):
        _write_until_refused(remote, monkeypatch, refuse)
    assert list(tmp_path.glob("tmp/*/*/a"))
    with (
        pytest.raises(UserError, match="TensorFlow has no file system nope://"),
        staged_folder("nope://x", "--model_dir"),
    ):
        pass


def _write_until_refused(
    remote: str, monkeypatch: pytest.MonkeyPatch, refuse: Callable[..., None]
) -> None:
    with staged_folder(remote, "--model_dir", lambda line: None) as local:
        pathlib.Path(local, "a").write_text("a")
        monkeypatch.setattr(RemotePath, "write_bytes", refuse)


def test_a_folder_for_copies_that_cannot_be_made_is_named(tmp_path, remote):
    (tmp_path / "tmp").write_text("a file")
    with (
        pytest.raises(UserError, match=rf"{tmp_path}/tmp/.* \(TMPDIR\) cannot be written"),
        staged_folder(f"{remote}/model", "--model_dir"),
    ):
        pass


def test_a_copy_that_fails_while_training_is_told_and_tried_again(monkeypatch, capsys):
    class FailingOnce:
        uploads = 0

        def upload(self):
            FailingOnce.uploads += 1
            if FailingOnce.uploads == 1:
                raise OSError(5, "Input/output error", "gs://bucket/a")
            ended.set()

    ended = threading.Event()
    monkeypatch.setattr(staging, "SECONDS_BETWEEN_COPIES", 0.0)
    staging._copy_until(FailingOnce(), ended, "--model_dir")
    assert FailingOnce.uploads == 2
    assert capsys.readouterr().err == (
        "warning: gs://bucket/a (--model_dir) cannot be written: Input/output error; retrying\n"
    )


def test_what_is_not_done_remotely_is_refused(tmp_path):
    settings = {"data_dir": "gs://bucket/data", "model_name": "run", "vocab_size": 40}
    workers = {"strategy": "multi_worker", "workers": ("a:1", "b:1"), "task_index": 0}
    config = PretrainingConfig.create(**settings, **workers)
    with (
        pytest.raises(UserError, match=r"--strategy=multi_worker needs a --model_dir"),
        staged(config),
    ):
        pass
    fine = {"model_name": "run", "task_names": ("cola",)}
    for name in ("data_dir", "model_dir", "raw_data_dir"):
        with pytest.raises(UserError, match=f"--{name}=gs://b must be on this machine"):
            FinetuningConfig.create(**{"data_dir": str(tmp_path), **fine, name: "gs://b"})


def test_a_folder_of_this_machine_is_used_itself(tmp_path):
    with staged_folder(str(tmp_path), "--model_dir", trains=False) as folder:
        assert folder == str(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_what_killed_runs_have_left_is_kept_until_it_is_copied(tmp_path):
    local = tmp_path / "local"
    for _ in range(2):
        (local / "folder").mkdir(parents=True)
        (local / "folder/weights").write_text("same")
        (local / "half.tmp").write_text("half")
        staging._set_aside(local)
    staging._set_aside(local)
    lefts = [pathlib.Path(left) for left in staging._leftover_folders(local)]
    assert [left.name for left in lefts] == ["local.left-1", "local.left-2"]
    (local / "folder").mkdir(parents=True)
    assert not staging._remove_copied(lefts[0], local)
    assert (lefts[0] / "folder/weights").exists()
    (local / "folder/weights").write_text("same")
    assert staging._remove_copied(lefts[0], local)
    assert not lefts[0].exists()
    (local / "folder/weights").write_text("other")
    assert not staging._remove_copied(lefts[1], local)
