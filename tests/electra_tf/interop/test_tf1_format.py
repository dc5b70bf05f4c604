"""The authors' checkpoints: real ones of their code, and round trips with moments."""

import contextlib
import dataclasses
import json
import shutil

import numpy as np
import pytest
import tensorflow as tf

from electra_tf.interop.conversion import with_kinds
from electra_tf.util.errors import UserError
from finetune.authors_tasks import describe_task
from tests.electra_tf.interop.models import (
    HUGGINGFACE_DATA,
    TF1_DATA,
    assert_same_arrays,
    format_of,
    load_model,
    own_hyperparameters,
    read,
    tiny_pretraining_checkpoint,
)
from tests.mutations import changed_values

TF1 = format_of("tf1")


@pytest.mark.parametrize(
    ("name", "recorded"),
    [
        ("default", "default"),
        ("tied_all", "tied_all"),
        ("untied_embeddings", "untied_generator_embeddings"),
    ],
)
def test_sizes_follow_from_the_shapes(name, recorded):
    checkpoint = TF1.read(str(TF1_DATA / f"pretraining/ckpt_{name}"))
    configs = json.loads((TF1_DATA / "pretraining/forward_config.json").read_text())[recorded]
    encoder = dataclasses.asdict(checkpoint.description.encoder)
    for field, value in configs["bert_config"].items():
        # The authors' rule is 64 units a head, from which these small models depart.
        assert encoder[field] == (1 if field == "num_attention_heads" else value), field
    if name != "tied_all":
        generator = dataclasses.asdict(checkpoint.description.generator)
        for field, value in configs["generator_config"].items():
            assert generator[field] == value, field
    assert checkpoint.has_discriminator
    assert checkpoint.has_generator_encoder == (name != "tied_all")
    own = name == "untied_embeddings"
    assert bool(checkpoint.part("generator/embeddings/")) == own
    assert "global_step" not in checkpoint.arrays


@pytest.mark.parametrize("name", ["electric", "electric_untied_embeddings"])
def test_electric_becomes_ours_and_comes_back(tmp_path, name):
    before = TF1.read(str(TF1_DATA / f"pretraining/ckpt_{name}"))
    assert before.description.generator.hidden_size == 16
    vocabulary = "".join(
        f"{token}\n" for token in ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    ) + "".join(f"w{i}\n" for i in range(695))
    before = dataclasses.replace(
        before,
        description=dataclasses.replace(before.description, vocabulary=vocabulary.encode()),
    )
    format_of("electra_tf").write(before, str(tmp_path / "ours"))
    ours = read(tmp_path / "ours", "electra_tf")
    assert ours.description.hyperparameters["objective"] == "electric"
    TF1.write(ours, str(tmp_path / "theirs"))
    assert_same_arrays(read(tmp_path / "theirs", "tf1").arrays, before.arrays)


def test_released_checkpoints_become_ours_and_come_back(tmp_path):
    """Released ones lie in a folder with several files and their own vocabulary."""
    released = tmp_path / "electra_small"
    released.mkdir()
    for path in (TF1_DATA / "pretraining").glob("ckpt_default.*"):
        shutil.copy(path, released)
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"] + [f"w{i}" for i in range(695)]
    (released / "vocab.txt").write_text("".join(f"{token}\n" for token in tokens))
    before = read(released, "tf1")
    format_of("electra_tf").write(before, str(tmp_path / "ours"))
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
    as_json = json.loads(json.dumps(own_hyperparameters(before)))
    assert own_hyperparameters(after) == as_json


def test_float64_variables_are_rounded_with_a_note(make_config, tmp_path):
    before = tiny_pretraining_checkpoint(make_config)
    assert TF1.write(before, str(tmp_path / "single")) == []
    assert TF1.read(str(tmp_path / "single")).notes == ()
    name = "discriminator_predictions/dense/kernel"
    value = before.arrays[name].astype(np.float64) + 1e-12
    doubled = dataclasses.replace(before, arrays={**before.arrays, name: value})
    TF1.write(doubled, str(tmp_path / "double"))
    after = TF1.read(str(tmp_path / "double"))
    assert after.notes == ("the precision of float64 variables (1): rounded to float32",)
    assert_same_arrays(dict(after.arrays), {**before.arrays, name: value.astype(np.float32)})


def test_finetuned_models_of_the_authors():
    checkpoint = TF1.read(str(TF1_DATA / "finetuning/heads/qa_joint_cls/model.ckpt"))
    assert checkpoint.description.tasks[0].kind is None
    checkpoint = with_kinds(checkpoint, describe_task)
    (task,) = checkpoint.description.tasks
    assert (task.name, task.kind) == ("squad", "qa")
    settings = own_hyperparameters(checkpoint)
    assert settings["joint_prediction"]
    assert settings["answerable_classifier"]
    checkpoint = TF1.read(str(TF1_DATA / "finetuning/heads/multi/model.ckpt"))
    checkpoint = with_kinds(checkpoint, describe_task)
    kinds = {task.name: task.kind for task in checkpoint.description.tasks}
    assert kinds["sts"] == "regression"
    assert kinds["chunk"] == "tagging"
    model = load_model(checkpoint).model
    assert model.head("squad").joint_prediction
    kernel = model.head("chunk").dense.kernel.numpy()
    np.testing.assert_array_equal(kernel, checkpoint.arrays["task_specific/chunk/dense/kernel"])


def test_another_checkpoint_of_tensorflow(tmp_path):
    tf.train.Checkpoint(v=tf.Variable(1.0)).save(str(tmp_path / "other"))
    said = r"not a checkpoint of the authors' code.* of TensorFlow 2.* needs its config\.json"
    with pytest.raises(UserError, match=said):
        TF1.read(str(tmp_path))


@pytest.mark.parametrize(
    ("model", "tokenizer", "shape", "noted"),
    [
        ("gelu_new", {}, {}, ["layer_norm_epsilon 1e-05", "hidden_act gelu_tanh"]),
        ("small/discriminator", {}, {}, []),
        ("small/discriminator", {}, {"hidden_act": "relu"}, ["hidden_act relu"]),
        ("small/discriminator", {"do_lower_case": True}, {}, ["strip_accents false"]),
        ("small/discriminator", {"do_lower_case": True, "strip_accents": True}, {}, []),
    ],
)
def test_what_the_authors_code_computes_otherwise_is_reported(
    tmp_path, model, tokenizer, shape, noted
):
    checkpoint = read(HUGGINGFACE_DATA / model, "huggingface")
    encoder = dataclasses.replace(checkpoint.description.encoder, **shape)
    description = dataclasses.replace(checkpoint.description, encoder=encoder, **tokenizer)
    checkpoint = dataclasses.replace(checkpoint, description=description)
    notes = TF1.write(checkpoint, str(tmp_path))
    assert [note.partition(":")[0] for note in notes] == noted
    assert read(tmp_path, "tf1").description.encoder == description.encoder


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"version": "2"}, "version must be a whole number, not '2'"),
        ({"do_lower_case": "false"}, "do_lower_case must be true or false, not 'false'"),
        ({"model_hparam_overrides": 1.5}, "model_hparam_overrides must be a JSON object"),
        ({"model_hparam_overrides": {"hidden_act": "x"}}, "model_hparam_overrides: hidden_act"),
        ({"tasks": {"names": 1}}, "tasks of 'names' must be a JSON object, not 1"),
        ({"labels": {"names": "O"}}, "labels of 'names' must be a list, not 'O'"),
    ],
)
def test_a_damaged_description_is_refused(tmp_path, changes, said):
    TF1.write(read(HUGGINGFACE_DATA / "token_classification", "huggingface"), str(tmp_path))
    path = tmp_path / "electra_tf.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    for act in (TF1.read, TF1.settings):
        with pytest.raises(UserError, match=f"electra_tf.json: {said}"):
            act(str(tmp_path))


def test_any_value_of_a_description_is_read_or_refused(tmp_path):
    TF1.write(read(HUGGINGFACE_DATA / "token_classification", "huggingface"), str(tmp_path))
    path = tmp_path / "electra_tf.json"
    for changed in changed_values(path.read_text()):
        path.write_text(changed)
        with contextlib.suppress(UserError):
            TF1.read(str(tmp_path))


def test_a_full_disk_is_named(tmp_path, monkeypatch):
    def fail(**_: object) -> None:
        raise tf.errors.ResourceExhaustedError(None, None, "No space left on device")

    checkpoint = read(HUGGINGFACE_DATA / "small", "huggingface")
    monkeypatch.setattr(tf.raw_ops, "SaveV2", fail)
    with pytest.raises(UserError, match=f"^{tmp_path}/out cannot be written: .*No space left"):
        TF1.write(checkpoint, str(tmp_path / "out"))
