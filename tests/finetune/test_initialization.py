"""Loading an encoder: all of it or a clear error."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from electra_tf.interop.initialization import load_encoder, read_initial
from electra_tf.model.batch_types import SpecialTokenIds
from electra_tf.model_builder import build_model
from electra_tf.training.checkpoints.checkpoint_directory import CheckpointDirectory
from electra_tf.util.errors import UserError
from finetune.config.finetuning import FinetuningConfig
from finetune.initialization import (
    check_not_own_model,
    find_checkpoint,
    initial_digest,
    load_pretrained_encoder,
)


@pytest.fixture
def num_layers() -> int:
    return 2


@pytest.fixture
def pretrained(make_config, tmp_path):
    """A checkpoint of a pre-training run in `models/m`, and its model."""
    config = make_config(model_dir=str(tmp_path / "models" / "m"))
    model = build_model(config, SpecialTokenIds(2, 3, 4))
    step = tf.Variable(0, dtype=tf.int64, trainable=False)
    checkpoints = CheckpointDirectory(config.model_dir, model, step)
    checkpoints.write_description({**vars(config)}, f"{config.data_dir}/vocab.txt")
    checkpoints.save()
    return model


def finetuning_config(tmp_path, **given) -> FinetuningConfig:
    return FinetuningConfig.create(
        data_dir=str(tmp_path), model_name="m", task_names=("cola",), **given
    )


def build_encoder(config: FinetuningConfig):
    from electra_tf.model.encoder import Encoder

    return Encoder(config.encoder, name="electra")


def test_loads_every_variable_of_the_encoder(pretrained, tmp_path):
    config = finetuning_config(tmp_path)
    encoder = build_encoder(config)
    lines = []
    path = find_checkpoint(config)
    report = load_encoder(read_initial(path), path, encoder, lines.append)
    for ours, theirs in zip(encoder.variables, pretrained.electra.variables, strict=True):
        assert np.array_equal(ours, theirs), ours.path
    # Query, key and value are one variable here and three in the authors' names.
    kernels = sum(
        variable.path.endswith("attention_qkv/kernel") for variable in encoder.variables
    )
    assert len(report.matched) == len(encoder.variables) + 4 * kernels
    assert report.missing == ()
    assert any(name.startswith("discriminator_predictions/") for name in report.unused)
    assert [line.split()[0] for line in lines[1:]] == ["matched", "missing", "unused"]


def test_positions_are_interpolated_if_told(pretrained, tmp_path):
    config = finetuning_config(tmp_path, max_seq_length=31, interpolate_positions=True)
    encoder = build_encoder(config)
    lines = []
    path = find_checkpoint(config)
    digest = load_pretrained_encoder(config, path, encoder, lines.append)
    assert lines[0] == "Position embeddings: 16, interpolated to 31"
    table = pretrained.electra.embeddings.position_embeddings.numpy()
    stretched = encoder.embeddings.position_embeddings.numpy()
    # 31 places over 16 embeddings: every other one is between two of them.
    np.testing.assert_array_equal(stretched[::2], table)
    np.testing.assert_allclose(stretched[1::2], (table[:-1] + table[1:]) / 2, rtol=1e-6)
    own = finetuning_config(tmp_path)
    assert load_pretrained_encoder(own, path, build_encoder(own), lines.append) == digest
    assert digest == initial_digest(path)


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"hidden_size": 32}, r"self/query/kernel is \(16, 16\) in the check"),
        (
            {"num_hidden_layers": 3},
            "lacks 16 variables of the model:\n  electra/encoder/layer_2/",
        ),
        (
            {"num_hidden_layers": 1},
            "16 variables are only in the checkpoint:\n  electra/encoder/",
        ),
    ],
)
def test_another_size_fails(pretrained, tmp_path, overrides, message):
    config = finetuning_config(tmp_path, model_hparam_overrides=overrides)
    path = find_checkpoint(config)
    with pytest.raises(UserError, match=message):
        load_encoder(read_initial(path), path, build_encoder(config))


def test_where_there_is_no_checkpoint(tmp_path):
    (tmp_path / "models" / "m").mkdir(parents=True)
    with pytest.raises(UserError, match="contains no checkpoint"):
        find_checkpoint(finetuning_config(tmp_path))
    with pytest.raises(UserError, match="no such checkpoint"):
        find_checkpoint(finetuning_config(tmp_path, init_checkpoint=str(tmp_path / "x")))
    assert find_checkpoint(finetuning_config(tmp_path, init_checkpoint="random")) is None


@pytest.mark.parametrize(
    ("start", "num_trials", "refused"),
    [
        ("own_1", 1, True),
        ("own_1/", 2, True),
        ("own_2/ckpt-10", 2, True),
        ("own_2/best", -1, True),
        ("own_1_fold3", 1, True),
        ("own_3", 2, False),
        ("own_1.replaced", 2, False),
        ("other_1", 1, False),
        ("random", 1, False),
    ],
)
def test_a_run_does_not_start_from_what_it_replaces(tmp_path, start, num_trials, refused):
    path = start if start == "random" else str(tmp_path / start)
    config = dataclasses.replace(
        finetuning_config(tmp_path, init_checkpoint="random"),
        model_dir=str(tmp_path / "own"),
        num_trials=num_trials,
        init_checkpoint=path,
    )
    if not refused:
        check_not_own_model(config)
        return
    with pytest.raises(UserError, match=r"--init_checkpoint=.* keeps its own models"):
        check_not_own_model(config)
