"""The authors' checkpoints: real ones of their code, and round trips with moments."""

import json
import shutil

import numpy as np
import pytest
import tensorflow as tf

from electra_tf.errors import UserError
from electra_tf.interop.formats import FORMATS
from electra_tf.interop.own_hyperparameters import own_hyperparameters
from tests.electra_tf.interop.models import (
    TF1_DATA,
    assert_same_arrays,
    outputs,
    read,
    tiny_pretraining_checkpoint,
)

TF1 = FORMATS["tf1"]


@pytest.mark.parametrize("name", ["default", "tied_all", "untied_embeddings"])
def test_sizes_follow_from_the_shapes(name):
    checkpoint = TF1.read(str(TF1_DATA / f"pretraining/ckpt_{name}"))
    recorded = json.loads((TF1_DATA / "pretraining/forward_config.json").read_text())
    hparams = recorded["default"]["config"]
    encoder = checkpoint.description.encoder
    sizes = hparams["model_hparam_overrides"]
    for field in ("hidden_size", "num_hidden_layers", "intermediate_size"):
        assert getattr(encoder, field) == sizes[field]
    assert encoder.vocab_size == hparams["vocab_size"]
    assert encoder.embedding_size == hparams["embedding_size"]
    assert checkpoint.has_discriminator
    assert checkpoint.has_generator_encoder == (name != "tied_all")
    own = name == "untied_embeddings"
    assert bool(checkpoint.part("generator/embeddings/")) == own
    assert "global_step" not in checkpoint.arrays


def test_released_checkpoints_become_ours_and_come_back(tmp_path):
    """Released ones lie in a folder with several files and their own vocabulary."""
    released = tmp_path / "electra_small"
    released.mkdir()
    for path in (TF1_DATA / "pretraining").glob("ckpt_default.*"):
        shutil.copy(path, released)
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"] + [f"w{i}" for i in range(695)]
    (released / "vocab.txt").write_text("".join(f"{token}\n" for token in tokens))
    before = read(released, "tf1")
    FORMATS["electra_tf"].write(before, str(tmp_path / "ours"))
    ours = read(tmp_path / "ours", "electra_tf")
    assert_same_arrays(dict(ours.arrays), dict(before.arrays))
    assert ours.step == before.step
    TF1.write(ours, str(tmp_path / "back"))
    after = read(tmp_path / "back", "tf1")
    assert_same_arrays(dict(after.arrays), dict(before.arrays))
    assert after.description.generator == before.description.generator
    assert after.description.vocabulary == before.description.vocabulary


def test_moments_and_step_have_the_authors_names(make_config, tmp_path):
    before = tiny_pretraining_checkpoint(make_config, slots=True)
    assert TF1.write(before, str(tmp_path / "tf1")) == []
    prefix = tf.train.latest_checkpoint(str(tmp_path / "tf1"))
    reader = tf.train.load_checkpoint(prefix)
    assert reader.get_tensor("global_step") == 7
    assert reader.get_tensor("global_step").dtype == np.int64
    name = "electra/encoder/layer_1/attention/self/key/kernel/adam_v"
    np.testing.assert_array_equal(reader.get_tensor(name), before.arrays[name])
    after = read(tmp_path / "tf1", "tf1")
    assert_same_arrays(dict(after.arrays), dict(before.arrays))
    assert own_hyperparameters(after) == own_hyperparameters(before)


def test_finetuned_models_of_the_authors(tmp_path):
    checkpoint = TF1.read(str(TF1_DATA / "finetuning/heads/qa_joint_cls/model.ckpt"))
    (task,) = checkpoint.description.tasks
    assert (task.name, task.kind) == ("squad", "qa")
    settings = own_hyperparameters(checkpoint)
    assert settings["joint_prediction"]
    assert settings["answerable_classifier"]
    checkpoint = TF1.read(str(TF1_DATA / "finetuning/heads/multi/model.ckpt"))
    kinds = {task.name: task.kind for task in checkpoint.description.tasks}
    assert kinds["sts"] == "regression"
    assert kinds["chunk"] == "tagging"
    inputs = {
        "input_ids": np.full((1, 8), 5),
        "attention_mask": np.ones((1, 8)),
        "token_type_ids": np.zeros((1, 8)),
    }
    assert set(outputs(checkpoint, inputs)) == {"sequence", *kinds}


def test_another_checkpoint_of_tensorflow(tmp_path):
    tf.train.Checkpoint(v=tf.Variable(1.0)).save(str(tmp_path / "other"))
    with pytest.raises(UserError, match="no checkpoint of the authors' code"):
        TF1.read(str(tmp_path))
