"""Our checkpoints as a format: pre-training with moments, encoders, fine-tuned models."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from electra_tf.interop.formats import find_format
from electra_tf.interop.model_checkpoint import find_family, with_hyperparameters
from electra_tf.model.batch_types import SpecialTokenIds
from electra_tf.model_builder import build_model
from electra_tf.pretraining_optimizer import create_optimizer
from electra_tf.training.checkpoints.checkpoint_directory import CheckpointDirectory
from electra_tf.util.errors import UserError
from tests.electra_tf.interop.huggingface.test_format import finetuned
from tests.electra_tf.interop.models import (
    HUGGINGFACE_DATA,
    assert_same_arrays,
    format_of,
    load_model,
    read,
    tiny_pretraining_checkpoint,
)

OURS = format_of("electra_tf")


def test_training_goes_on_from_what_is_written(make_config, tmp_path):
    """The moments must be those of the right variables, in the training's own optimizer."""
    checkpoint = tiny_pretraining_checkpoint(make_config, slots=True)
    config = make_config()
    OURS.write(checkpoint, config.model_dir)
    assert_same_arrays(dict(read(config.model_dir, "electra_tf").arrays), checkpoint.arrays)

    model = build_model(config, SpecialTokenIds(2, 3, 4))
    optimizer = create_optimizer(config, model)
    optimizer.build(model.trainable_variables)
    step = tf.Variable(0, dtype=tf.int64, trainable=False)
    assert CheckpointDirectory(config.model_dir, model, step, optimizer).restore_latest()
    assert int(step) == int(optimizer.iterations) == 7
    kernel = model.electra.encoder_layers[1].qkv.kernel
    (index,) = [i for i, v in enumerate(model.trainable_variables) if v is kernel]
    name = "electra/encoder/layer_1/attention/self/key/kernel/adam_m"
    value = optimizer.adam_m[index].numpy()[:, 16:32]
    np.testing.assert_array_equal(value, checkpoint.arrays[name])


def test_a_model_trained_in_kernels_of_half_precision_is_read(make_config, tmp_path):
    """Its weights are float32, without these kernels; its settings stay those of the run."""
    settings = {"triton_kernels": True, "jit_compile": True, "precision": "mixed_bfloat16"}
    checkpoint = tiny_pretraining_checkpoint(make_config)
    run = {**checkpoint.description.hyperparameters, **settings}
    described = dataclasses.replace(checkpoint.description, hyperparameters=run)
    OURS.write(dataclasses.replace(checkpoint, description=described), str(tmp_path / "run"))
    found = read(tmp_path / "run", "electra_tf")
    assert_same_arrays(dict(found.arrays), checkpoint.arrays)
    assert settings.items() <= found.description.hyperparameters.items()


def test_an_unknown_format_is_named():
    with pytest.raises(UserError, match=r"'hugingface' is no.*Did you mean 'huggingface'"):
        format_of("hugingface")


def test_a_loaded_model_masks_by_the_tokens_of_its_vocabulary(make_config, capsys):
    checkpoint = tiny_pretraining_checkpoint(make_config)
    tokens = checkpoint.description.vocabulary.decode().split()
    model = load_model(checkpoint).model
    assert model.special == SpecialTokenIds(
        *(tokens.index(token) for token in ("[CLS]", "[SEP]", "[MASK]"))
    )
    assert len(set(model.special)) == 3
    description = dataclasses.replace(checkpoint.description, vocabulary=b"a\nb\n")
    with pytest.raises(UserError, match="lacks the special tokens"):
        load_model(dataclasses.replace(checkpoint, description=description))
    assert not capsys.readouterr().err
    description = dataclasses.replace(description, vocabulary=None)
    load_model(dataclasses.replace(checkpoint, description=description))
    assert "no vocabulary, so the ids of [CLS], [SEP] and [MASK] are" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("kind", "units"), [("classification", 3), ("tagging", 4), ("regression", 1)]
)
def test_finetuned_models_survive_a_round_trip(kind, units, tmp_path):
    before = finetuned(kind, units=units)
    assert OURS.write(before, str(tmp_path)) == []
    after = read(tmp_path, "electra_tf")
    (task,) = after.description.tasks
    known = {"has_pairs", "level", "min_label", "max_label", "max_seq_length"}
    assert set(task.settings) <= known
    assert (dataclasses.replace(task, settings={}),) == before.description.tasks
    assert_same_arrays(dict(after.arrays), dict(before.arrays))


def test_layers_of_question_answering_follow_from_the_weights(tmp_path):
    layers = {
        "dense": (16, 1),
        "qa_hidden": (32, 512),
        "dense_1": (512, 1),
        "dense_2": (32, 512),
        "dense_3": (512, 1),
    }
    before = finetuned("qa", layers=layers)
    OURS.write(before, str(tmp_path))
    assert_same_arrays(dict(read(tmp_path, "electra_tf").arrays), dict(before.arrays))


def test_missing_moments_are_reported(make_config, tmp_path):
    checkpoint = tiny_pretraining_checkpoint(make_config, slots=True)
    lost = "electra/embeddings/word_embeddings/adam_m"
    arrays = {name: value for name, value in checkpoint.arrays.items() if name != lost}
    notes = OURS.write(dataclasses.replace(checkpoint, arrays=arrays), str(tmp_path))
    assert notes == ["1 optimizer moments are missing"]
    assert read(tmp_path, "electra_tf").slots == {}


def test_a_generator_of_another_shape_is_refused(make_config):
    checkpoint = tiny_pretraining_checkpoint(make_config)
    generator = dataclasses.replace(checkpoint.description.generator, num_attention_heads=2)
    description = dataclasses.replace(
        checkpoint.description, generator=generator, hyperparameters={}
    )
    with pytest.raises(UserError, match="num_attention_heads is 2 instead of 1"):
        load_model(dataclasses.replace(checkpoint, description=description))


def test_only_folders_of_ours_are_recognized(make_config, tmp_path):
    assert not OURS.recognizes(str(tmp_path))
    OURS.write(tiny_pretraining_checkpoint(make_config), str(tmp_path))
    assert OURS.recognizes(str(tmp_path))
    assert OURS.recognizes(str(tmp_path / "ckpt-0"))
    assert OURS.recognizes(str(tmp_path / "ckpt-0.index"))
    assert not OURS.recognizes(str(tmp_path / "ckpt-1"))


def test_paths_of_pathlib_are_read(make_config, tmp_path):
    written = tiny_pretraining_checkpoint(make_config)
    OURS.write(written, str(tmp_path))
    found = find_format(tmp_path, "path", OURS.families).read(tmp_path)
    assert_same_arrays(found.arrays, written.arrays)
    assert isinstance(found.path, str)
    with pytest.raises(UserError, match=f"^path: no such checkpoint: {tmp_path}/none"):
        find_format(tmp_path / "none", "path")
    step = tf.Variable(1, dtype=tf.int64)
    checkpoints = CheckpointDirectory(tmp_path, load_model(written).model, step)
    assert checkpoints.restore_latest()


def test_folders_of_no_family_or_without_a_checkpoint_are_named(make_config, tmp_path):
    with pytest.raises(UserError, match=f"^{tmp_path} is not a model of this project: it has"):
        OURS.read(str(tmp_path))
    with pytest.raises(
        UserError, match=r"^the checkpoint describes no model that this program"
    ):
        find_family({}, OURS.families)
    other = tmp_path / "other"
    other.mkdir()
    (other / "config.json").write_text('{"hyperparameters": {"color": "red"}, "variables": {}}')
    with pytest.raises(UserError, match=rf"^{other}/config\.json describes no model that this"):
        OURS.read(str(other))
    encoder = read(HUGGINGFACE_DATA / "small/discriminator", "huggingface")
    with pytest.raises(
        UserError, match=r"^No model of this project has the heads of the checkpoint: no task$"
    ):
        with_hyperparameters(encoder, ())
    checkpoint = tiny_pretraining_checkpoint(make_config)
    OURS.write(checkpoint, str(tmp_path / "run"))
    for path in (tmp_path / "run").glob("ckpt-*"):
        path.unlink()
    with pytest.raises(UserError, match=f"^The folder {tmp_path}/run contains no checkpoint$"):
        OURS.read(str(tmp_path / "run"))
