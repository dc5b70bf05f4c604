"""TensorFlow reads what is in folders whose names look like patterns."""

import pathlib
import tempfile

import pytest
import tensorflow as tf

from electra_tf.training.checkpoints.checkpoint_files import read_shapes, read_tensors
from electra_tf.util.plain_paths import plain_path

NAMES = ["run [2]", "a*b", "what?", "back\\slash"]


@pytest.mark.parametrize("name", NAMES)
def test_checkpoints_and_saved_models_are_read(tmp_path: pathlib.Path, name: str) -> None:
    folder = tmp_path / name
    module = tf.Module()
    module.v = tf.Variable(3.0)
    checkpoint = tf.train.Checkpoint(v=module.v)
    prefix = checkpoint.write(f"{folder}/ckpt-1")
    key = "v/.ATTRIBUTES/VARIABLE_VALUE"
    assert dict(read_tensors(prefix))[key] == 3
    assert key in read_shapes(prefix)
    module.v.assign(4.0)
    with plain_path(prefix) as path:
        checkpoint.read(path)
    assert float(module.v) == 3
    tf.saved_model.save(module, f"{folder}/exported")
    with plain_path(folder / "exported") as path:
        loaded = tf.saved_model.load(path)
    assert not pathlib.Path(path).exists()
    assert float(loaded.v) == 3


def test_a_folder_of_temporary_files_may_look_like_a_pattern(tmp_path, monkeypatch) -> None:
    temporary = tmp_path / "job[2]"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    (temporary / "model.txt").write_text("found")
    with plain_path(temporary) as path:
        assert tf.io.gfile.glob(f"{path}/*.txt") == [f"{path}/model.txt"]


def test_other_paths_are_yielded_as_they_are() -> None:
    with plain_path("runs/a, b/ckpt-1") as path:
        assert path == "runs/a, b/ckpt-1"


def test_remote_paths_are_left_as_they_are():
    with plain_path("gs://bucket/run [2]/ckpt-3") as path:
        assert path == "gs://bucket/run [2]/ckpt-3"


def test_only_the_files_of_a_checkpoint_are_linked(tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "run [2]"
    folder.mkdir()
    for name in ("ckpt-1.index", "ckpt-1.data-0", "ckpt-10.index", "config.json"):
        (folder / name).write_text(name)
    with plain_path(folder / "ckpt-1") as path:
        found = {each.name: each.read_text() for each in pathlib.Path(path).parent.iterdir()}
    assert found == {"linked.index": "ckpt-1.index", "linked.data-0": "ckpt-1.data-0"}
