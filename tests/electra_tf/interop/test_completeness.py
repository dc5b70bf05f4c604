"""Checkpoints with arrays that are missing or left over."""

import json
import pathlib
import shutil
from collections.abc import Callable

import keras
import numpy as np
import pytest
import safetensors.numpy

from electra_tf.config.choices import OBJECTIVES
from electra_tf.interop.formats import format_names
from electra_tf.util.errors import UserError
from tests.electra_tf.interop.huggingface.test_format import finetuned
from tests.electra_tf.interop.models import (
    HUGGINGFACE_DATA,
    format_of,
    read,
    tiny_pretraining_checkpoint,
)
from tests.electra_tf.interop.test_conversion import run
from tests.electra_tf.interop.test_every_run import make_config, write_run

Tensors = dict[str, np.ndarray]
LAYER = "encoder/layer_1/output/dense/bias"


def changed(
    tmp_path: pathlib.Path, name: str, change: Callable[[Tensors], object]
) -> pathlib.Path:
    """Returns a copy of a folder of test data with other tensors."""
    folder = shutil.copytree(HUGGINGFACE_DATA / name, tmp_path / "source")
    path = next(folder.rglob("model.safetensors"))
    tensors = safetensors.numpy.load_file(path)
    change(tensors)
    safetensors.numpy.save_file(tensors, path)
    return folder


@pytest.mark.parametrize("target", format_names())
@pytest.mark.parametrize(
    ("name", "tensor", "missing"),
    [
        ("small/generator", "generator_lm_head.bias", "generator_predictions/output_bias"),
        (
            "small/discriminator",
            "discriminator_predictions.dense.bias",
            "discriminator_predictions/dense/bias",
        ),
    ],
)
def test_a_head_that_is_not_whole_is_refused(tmp_path, target, name, tensor, missing):
    source = changed(tmp_path, name, lambda tensors: tensors.pop(tensor))
    with pytest.raises(UserError, match=f"lacks 1 variables of the model:\n  {missing}"):
        run(source, target, tmp_path / "there")
    assert not (tmp_path / "there").exists()


def test_other_sizes_than_those_of_the_config_are_refused(tmp_path):
    """The converter has no flags of sizes, which the message would name."""
    source = shutil.copytree(HUGGINGFACE_DATA / "small/discriminator", tmp_path / "source")
    path = source / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "type_vocab_size": 3}))
    with pytest.raises(UserError, match="compare the sizes in its config") as error:
        run(source, "tf1", tmp_path / "there")
    assert "--model" not in str(error.value)


def test_a_conversion_does_not_depend_on_the_policy_of_keras(tmp_path):
    policy = keras.config.dtype_policy()
    keras.config.set_dtype_policy("bfloat16")
    try:
        run(HUGGINGFACE_DATA / "small", "tf1", tmp_path / "there")
    finally:
        keras.config.set_dtype_policy(policy)
    assert any((tmp_path / "there").iterdir())


def test_a_generator_that_is_not_whole_is_refused(tmp_path):
    source = shutil.copytree(HUGGINGFACE_DATA / "small", tmp_path / "source")
    path = source / "generator/model.safetensors"
    tensors = safetensors.numpy.load_file(path)
    del tensors["electra.encoder.layer.1.output.dense.bias"]
    safetensors.numpy.save_file(tensors, path)
    with pytest.raises(
        UserError, match=f"lacks 1 variables of the model:\n  generator/{LAYER}"
    ):
        run(source, "huggingface", tmp_path / "there")


@pytest.mark.parametrize("target", format_names())
def test_what_is_left_over_is_reported_and_not_written(tmp_path, target):
    def add(tensors: Tensors) -> None:
        last = tensors["electra.encoder.layer.1.output.dense.bias"]
        tensors["electra.encoder.layer.2.output.dense.bias"] = last
        tensors["electra.pooler.dense.weight"] = np.ones((3, 3), np.float32)

    source = changed(tmp_path, "small/discriminator", add)
    lines = run(source, target, tmp_path / "there")
    assert "No counterpart: electra/encoder/layer_2/output/dense/bias" in lines
    assert "No counterpart: electra/pooler/dense/kernel" in lines
    written = read(tmp_path / "there", target)
    whole = read(HUGGINGFACE_DATA / "small/discriminator", "huggingface")
    assert written.part("electra/").keys() == whole.part("electra/").keys()
    # Of an encoder with the two layers that its description has.
    assert written.description.encoder.num_hidden_layers == 2


def test_arrays_of_other_optimizers_are_no_weights(tmp_path):
    run(HUGGINGFACE_DATA / "small", "tf1", tmp_path / "tf1")
    checkpoint = read(tmp_path / "tf1", "tf1")
    other = {
        f"electra/{LAYER}/ExponentialMovingAverage": checkpoint.arrays[f"electra/{LAYER}"],
        "beta1_power": np.float32(0.9),
    }
    checkpoint.arrays.update(other)
    shutil.rmtree(tmp_path / "tf1")
    format_of("tf1").write(checkpoint, str(tmp_path / "tf1"))
    lines = run(tmp_path / "tf1", "huggingface", tmp_path / "there")
    assert f"No counterpart: electra/{LAYER}/ExponentialMovingAverage" in lines
    assert "No counterpart: beta1_power: 1 arrays" in lines
    for part in ("discriminator", "generator"):
        path = f"{part}/model.safetensors"
        names = safetensors.numpy.load_file(tmp_path / "there" / path).keys()
        expected = safetensors.numpy.load_file(HUGGINGFACE_DATA / "small" / path).keys()
        assert names == expected - {"generator_lm_head.weight"}


def test_a_head_of_another_kind_is_named():
    head = finetuned("qa", layers={"dense": (16, 3)})
    with pytest.raises(
        UserError, match="has dense/bias, dense/kernel, but heads of the kind qa"
    ):
        format_of("huggingface").write(head, "/nowhere")


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_every_encoder_of_a_run_is_written_or_reported(objective, tmp_path):
    words = [f"w{i}" for i in range(100)]
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words]
    vocab_file = tmp_path / "vocab.txt"
    config = make_config(objective, "adam", "float32", vocab_file, str(tmp_path / "run"))
    vocab_file.write_text("".join(f"{t}\n" for t in vocabulary[: config.vocab_size]))
    write_run(config)
    lines = run(config.model_dir, "huggingface", tmp_path / "there")
    before = format_of("electra_tf").read(config.model_dir)
    reported = {line.split(": ")[1] for line in lines if line.startswith("No counterpart")}
    folders = {path.parent.name for path in (tmp_path / "there").rglob("config.json")}
    scopes = {
        "electra": {"discriminator", "encoder", "there"},
        "generator": {"generator"},
        "discriminator_predictions": {"discriminator", "there"},
        "generator_predictions": {"generator", "there"},
    }
    for scope in {name.split("/")[0] for name in before.weights}:
        assert scope in reported or scopes[scope] & folders, (scope, folders, reported)
    energies = [line for line in lines if "Electric's energies" in line]
    assert len(energies) == (objective == "electric")
    biased = [line for line in lines if "has trained it on masked tokens alone" in line]
    assert len(biased) == (objective == "electra_15")
    main = tmp_path / "there"
    for name in ("discriminator", "encoder"):
        main = tmp_path / "there" / name if name in folders else main
    after = read(main, "huggingface")
    table = "electra/embeddings/word_embeddings"
    np.testing.assert_array_equal(after.arrays[table], before.arrays[table])
    assert after.part("electra/").keys() == before.part("electra/").keys()


@pytest.mark.parametrize("sharing", ["none", "token", "gdes", "es"])
def test_generators_have_their_embeddings(sharing, make_config, tmp_path):
    before = tiny_pretraining_checkpoint(make_config, embedding_sharing=sharing)
    format_of("huggingface").write(before, str(tmp_path / "there"))
    generator = read(tmp_path / "there/generator", "huggingface")
    for name in ("word_embeddings", "position_embeddings", "LayerNorm/gamma"):
        own = f"generator/embeddings/{name}"
        expected = before.arrays.get(own, before.arrays[f"electra/embeddings/{name}"])
        value = generator.arrays[f"electra/embeddings/{name}"]
        np.testing.assert_array_equal(value, expected)
