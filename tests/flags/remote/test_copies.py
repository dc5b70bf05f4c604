"""Copies of models in remote folders: `ram://`, in this process."""

import uuid

import pytest

from electra_tf.util.paths import RemotePath, as_path
from flags.remote import copies


@pytest.fixture
def remote() -> RemotePath:
    """A folder with a run: two checkpoints, and what else is in it."""
    folder = as_path(f"ram://copies/{uuid.uuid4().hex}/models/run")
    folder.mkdir()
    for name in (
        *(
            f"ckpt-{step}{ending}"
            for step in (2, 10)
            for ending in (".index", ".data-00000-of-00001")
        ),
        *("config.json", "vocab.txt", "vocab.tokenizer.json", "train_log.jsonl"),
    ):
        (folder / name).write_bytes(name.encode())
    return folder


def test_of_several_checkpoints_the_newest_is_copied(remote, tmp_path):
    target = tmp_path / "model"
    assert copies.copy_model(remote, target) == target
    copied = {path.name for path in target.iterdir()}
    assert {name for name in copied if "ckpt" in name} == {
        "ckpt-10.index",
        "ckpt-10.data-00000-of-00001",
    }
    assert {"config.json", "vocab.txt", "vocab.tokenizer.json"} <= copied


def test_a_checkpoint_is_copied_with_its_description(remote, tmp_path):
    found = copies.copy_model(remote / "ckpt-2.index", tmp_path / "model")
    assert found == tmp_path / "model/ckpt-2"
    names = {path.name for path in found.parent.glob("ckpt-*")}
    assert names == {"ckpt-2.index", "ckpt-2.data-00000-of-00001"}
    assert (found.parent / "config.json").read_text() == "config.json"


def test_what_is_not_there_is_named(remote, tmp_path):
    for path in (remote / "ckpt-3", remote.parent / "other"):
        with pytest.raises(FileNotFoundError) as caught:
            copies.copy_model(path, tmp_path / "model")
        assert caught.value.filename == str(path)
    with pytest.raises(FileNotFoundError) as caught:
        copies.copy_file(remote / "none", tmp_path / "none")
    assert caught.value.filename == f"{remote}/none"


def test_a_vocabulary_comes_with_its_description(remote, tmp_path):
    copies.copy_vocabulary(remote / "vocab.txt", tmp_path / "words.txt")
    assert (tmp_path / "words.txt").read_text() == "vocab.txt"
    assert (tmp_path / "words.tokenizer.json").read_text() == "vocab.tokenizer.json"
    (remote / "vocab.tokenizer.json").unlink()
    copies.copy_vocabulary(remote / "vocab.txt", tmp_path / "more/words.txt")
    assert [path.name for path in (tmp_path / "more").iterdir()] == ["words.txt"]


def test_the_newest_version_of_an_export_is_copied_by_its_folder(remote, tmp_path):
    export = remote / "export"
    for name in ("2", "007", "\N{SUPERSCRIPT TWO}", "notes"):
        (export / name).mkdir()
        (export / name / "saved_model.pb").write_bytes(name.encode())
    copies.copy_export(export, tmp_path / "export")
    assert [path.name for path in (tmp_path / "export").iterdir()] == ["007"]


def test_names_of_models_are_those_of_a_remote_folder_unless_they_are_here(remote, tmp_path):
    data_dir = str(remote.parent.parent)
    assert copies.remote_model("run", data_dir) == str(remote)
    assert copies.remote_model("run", data_dir + "/") == str(remote)
    assert copies.remote_model("other", data_dir) is None
    assert copies.remote_model(str(tmp_path), data_dir) is None
    assert copies.remote_model("run", str(tmp_path)) is None
    assert copies.remote_model(str(remote), str(tmp_path)) == str(remote)
