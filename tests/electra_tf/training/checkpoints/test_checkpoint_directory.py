"""What a run's checkpoints contain, and the checkpoints of other models."""

import hashlib
import json
import pathlib

import keras
import numpy as np
import pytest
import tensorflow as tf

from electra_tf.training.checkpoints import checkpoint_directory
from electra_tf.training.checkpoints.checkpoint_directory import (
    CheckpointDirectory,
    describe_differences,
)
from electra_tf.util.errors import UserError


class Model(keras.Model):
    """Tables of given shapes by name."""

    def __init__(self, **shapes) -> None:
        super().__init__(name="model")
        for name, shape in shapes.items():
            setattr(self, name, self.add_weight(shape=shape, name=name, initializer="zeros"))
        self.built = True


def directory(folder: pathlib.Path, model: Model, step: int = 0, **options):
    variable = tf.Variable(step, dtype=tf.int64, trainable=False)
    return CheckpointDirectory(str(folder), model, variable, **options), variable


@pytest.fixture
def vocab_file(tmp_path) -> pathlib.Path:
    path = tmp_path / "words.txt"
    path.write_text("[PAD]\n[UNK]\n")
    return path


def test_differences_name_both_shapes():
    saved = {"a": [1, 2], "b": [3], "same": (4, 5)}
    wanted = {"a": [2, 2], "c": [7], "same": [4, 5]}
    assert describe_differences(saved, wanted) == [
        "a: [1, 2] in the checkpoint, [2, 2] in the model",
        "b: [3] only in the checkpoint",
        "c: [7] only in the model",
    ]


def test_a_checkpoint_of_another_model_is_refused_with_its_differences(tmp_path, vocab_file):
    folder = tmp_path / "run"
    shapes = {f"table_{i:02d}": (2, 3) for i in range(25)}
    saving, _ = directory(folder, Model(**shapes), 3)
    saving.write_description({"do_lower_case": True}, vocab_file)
    saving.save()
    assert saving.latest == f"{folder}/ckpt-3"

    def message(count: int) -> str:
        changed = dict.fromkeys([*shapes][:count], (2, 4))
        loading, _ = directory(folder, Model(**shapes | changed))
        with pytest.raises(UserError) as error:
            loading.restore_latest()
        assert loading.latest is None
        return str(error.value)

    lines = message(1).splitlines()
    assert lines[0].startswith(f"The checkpoint {folder}/ckpt-3 belongs to a different model")
    assert f"{folder}/config.json" in lines[0]
    assert lines[1:] == ["  model/table_00: [2, 3] in the checkpoint, [2, 4] in the model"]
    assert len(message(20).splitlines()) == 1 + 20
    lines = message(23).splitlines()
    assert len(lines) == 1 + 20 + 1
    assert lines[-1] == "  … and 3 more"


def test_a_part_of_a_model_ignores_the_rest(tmp_path, vocab_file):
    folder = tmp_path / "run"
    model = Model(a=(2,), b=(3,))
    model.a.assign([1.0, 2.0])
    optimizer = keras.optimizers.SGD(momentum=0.9)
    optimizer.build(model.trainable_variables)
    saving, _ = directory(folder, model, 5, optimizer=optimizer)
    saving.write_description({}, vocab_file)
    saving.save()
    part = Model(a=(2,))
    whole, _ = directory(folder, part)
    with pytest.raises(UserError, match=r"model/b: \[3\] only in the checkpoint"):
        whole.restore_latest()
    partial, step = directory(folder, part, partial=True)
    assert partial.restore_latest()
    assert partial.latest == f"{folder}/ckpt-5"
    assert int(step) == 5
    np.testing.assert_array_equal(part.a, [1.0, 2.0])
    more, _ = directory(folder, Model(a=(2,), c=(1,)), partial=True)
    with pytest.raises(UserError, match=r"model/c: \[1\] only in the model"):
        more.restore_latest()


def test_a_checkpoint_without_a_description_is_restored_or_named(tmp_path):
    saving, _ = directory(tmp_path, Model(a=(2,)), 1)
    saving.save()
    same, _ = directory(tmp_path, Model(a=(2,)))
    same.restore(f"{tmp_path}/ckpt-1")
    assert same.latest == f"{tmp_path}/ckpt-1"
    other, _ = directory(tmp_path, Model(a=(3,)))
    with pytest.raises(
        UserError, match=f"^The checkpoint {tmp_path}/ckpt-1 cannot be restored"
    ):
        other.restore(f"{tmp_path}/ckpt-1")


def test_a_checkpoint_without_moments_is_no_run_to_resume(tmp_path, vocab_file):
    saving, _ = directory(tmp_path, Model(a=(2,)), 1)
    saving.write_description({}, vocab_file)
    saving.save()
    model = Model(a=(2,), generator=(2,))
    optimizer = keras.optimizers.SGD()
    optimizer.build(model.trainable_variables)
    resuming, _ = directory(tmp_path, model, optimizer=optimizer)
    message = f"ckpt-1 has no state of an optimizer.*--init_checkpoint={tmp_path}$"
    with pytest.raises(UserError, match=message):
        resuming.restore_latest()


def test_long_errors_of_tensorflow_are_cut(tmp_path, monkeypatch):
    saving, _ = directory(tmp_path, Model(a=(2,)), 1)
    saving.save()

    def fail(_: str) -> None:
        raise ValueError("x" * 400 + "y" * 200)

    monkeypatch.setattr(saving._checkpoint, "restore", fail)
    with pytest.raises(UserError, match=r"ckpt-1 cannot be restored: x{400}y{100}$"):
        saving.restore(saving.latest)


def test_only_so_many_are_kept(tmp_path):
    saving, step = directory(tmp_path, Model(a=(2,)), keep_checkpoint_max=2)
    assert not saving.restore_latest()
    assert not saving.resume()
    assert saving.latest is None
    for number in (1, 2, 3):
        step.assign(number)
        saving.save()
    assert sorted(path.name for path in tmp_path.glob("*.index")) == [
        "ckpt-2.index",
        "ckpt-3.index",
    ]
    saving, step = directory(tmp_path / "default", Model(a=(2,)))
    for number in range(7):
        step.assign(number)
        saving.save()
    assert len([*(tmp_path / "default").glob("*.index")]) == 5


def test_the_description_has_shapes_and_the_vocabulary(tmp_path, vocab_file):
    saving, _ = directory(tmp_path / "run", Model(a=(2, 1)))
    saving.write_description({"do_lower_case": False, "seed": 3}, vocab_file)
    content = json.loads((tmp_path / "run/config.json").read_text())
    assert content["variables"] == {"model/a": [2, 1]}
    assert content["hyperparameters"] == {"do_lower_case": False, "seed": 3}
    assert content["tokenizer"]["do_lower_case"] is False
    digest = hashlib.sha256(vocab_file.read_bytes()).hexdigest()
    assert content["tokenizer"]["vocab_sha256"] == digest
    assert (tmp_path / "run/vocab.txt").read_text() == "[PAD]\n[UNK]\n"
    assert (tmp_path / "run/vocab.tokenizer.json").exists()
    # Of a run that goes on, the vocabulary is its own.
    saving.write_description({"do_lower_case": True}, tmp_path / "run/vocab.txt")
    assert (tmp_path / "run/vocab.txt").read_text() == "[PAD]\n[UNK]\n"
    content = json.loads((tmp_path / "run/config.json").read_text())
    assert content["tokenizer"]["strip_accents"] is True


class OtherWorker:
    """Stands for one of two workers that is not the chief."""

    is_chief = False

    def __init__(self) -> None:
        self.barriers, self.compared = 0, []

    def barrier(self) -> None:
        self.barriers += 1

    def require_same(self, value: int, problem: str) -> None:
        self.compared.append(value)
        assert "--model_dir" in problem


def test_only_the_chief_writes_and_all_compare_what_they_see(tmp_path, vocab_file):
    worker = OtherWorker()
    folder = tmp_path / "run"
    other, step = directory(folder, Model(a=(2,)), 4, workers=worker)
    other.write_description({}, vocab_file)
    other.save()
    assert not folder.exists()
    assert worker.barriers == 1
    assert other.latest == f"{folder}/ckpt-4"
    assert not other.restore_latest()
    chief, _ = directory(folder, Model(a=(2,)), 6)
    chief.save()
    assert other.resume()
    assert int(step) == 6
    assert worker.compared == [-1, 6]


def test_a_save_or_a_resume_that_fails_names_the_folder_and_what_is_kept(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device", "x")

    saving, step = directory(tmp_path, Model(a=(2,)), 1)
    with monkeypatch.context() as patched:
        patched.setattr(checkpoint_directory, "whole_checkpoint", full)
        with pytest.raises(UserError, match=r"ckpt-1 cannot be written: [^;]*No space[^;]*$"):
            saving.save()
    saving.save()
    step.assign(2)
    monkeypatch.setattr(checkpoint_directory, "keep_newest", full)
    with pytest.raises(UserError, match=f"ckpt-2 cannot.*; the last one is {tmp_path}/ckpt-1$"):
        saving.save()
    with pytest.raises(UserError, match=f"^{tmp_path} cannot be written: .*No space left"):
        saving.resume()
