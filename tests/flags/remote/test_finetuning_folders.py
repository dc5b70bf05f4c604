"""What fine-tuning copies of a remote data folder: `ram://`, in this process."""

import pathlib
import tempfile
import uuid

import pytest

from electra_tf.util.paths import RemotePath
from flags.remote.finetuning_folders import _Folders


@pytest.fixture
def remote() -> RemotePath:
    return RemotePath(f"ram://finetuning/{uuid.uuid4().hex}")


def write(path: RemotePath, text: str) -> None:
    path.parent.mkdir()
    path.write_bytes(text.encode())


def folders_of(remote: RemotePath, **given: str) -> _Folders:
    return _Folders({"data_dir": f"{remote}/", "model_name": "m", **given}, lambda line: None)


def test_the_vocabulary_and_the_files_of_the_tasks_are_copied(remote, tmp_path):
    for name in ("vocab.txt", "vocab.tokenizer.json", "finetuning_data/cola/dev.tsv"):
        write(remote / name, name)
    write(remote / "finetuning_data/rte/dev.tsv", "of another task")
    folders = folders_of(remote, task_names=("cola",))
    folders._copy_data(tmp_path / "data")
    files = {
        path.relative_to(tmp_path / "data").as_posix(): path.read_text()
        for path in (tmp_path / "data").rglob("*")
        if path.is_file()
    }
    copied = ("vocab.txt", "vocab.tokenizer.json", "finetuning_data/cola/dev.tsv")
    assert files == {name: name for name in copied}
    assert folders.local["data_dir"] == str(tmp_path / "data")


def test_the_model_to_start_from_is_that_of_the_run_or_a_copy(remote, tmp_path):
    for model in ("m", "other"):
        write(remote / f"models/{model}/config.json", "{}")
    folders = folders_of(remote, init_checkpoint=f"{remote}/models/m/")
    folders.local["data_dir"] = str(tmp_path)
    with folders.init_checkpoint():
        assert folders.local["init_checkpoint"] == f"{tmp_path}/models/m"
    folders = folders_of(remote, init_checkpoint="other")
    with folders.init_checkpoint():
        copy = folders.local["init_checkpoint"]
        assert pathlib.Path(copy, "config.json").read_text() == "{}"
        assert folders.names[copy] == f"{remote}/models/other"
    assert not pathlib.Path(copy).exists()
    folders = folders_of(remote, init_checkpoint=str(tmp_path))
    with folders.init_checkpoint():
        assert "init_checkpoint" not in folders.local


@pytest.mark.parametrize("results", ["runs/scores", "runs"])
def test_of_the_folders_of_outputs_the_runs_own_files_are_copied(
    remote, tmp_path, monkeypatch, results
):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    own = {"runs/a_1/config.json", "runs/a_search/run_1/config.json"}
    own |= {f"{results}/cola_results.json", f"{results}/cola_search/run_1/cola_results.json"}
    for name in (*own, "runs/b_1/config.json", "runs/b_search/run_1/config.json"):
        write(remote / name, name)
    folders = folders_of(
        remote,
        task_names=("cola",),
        model_dir=f"{remote}/runs/a",
        results_dir=f"{remote}/{results}",
    )
    with folders.outputs():
        model = pathlib.Path(folders.local["model_dir"])
        root = model.parent
        assert pathlib.Path(folders.local["results_dir"]).is_relative_to(root)
        copied = {f"runs/{p.relative_to(root)}" for p in root.rglob("*") if p.is_file()}
    assert copied == own
