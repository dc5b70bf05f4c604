"""Folders that differ from those that transformers writes today."""

import json
import pathlib
import shutil
from typing import Any

import numpy as np
import pytest
import safetensors.numpy

from electra_tf.util.errors import UserError
from tests.electra_tf.interop.huggingface.test_format import HUGGINGFACE
from tests.electra_tf.interop.models import (
    HUGGINGFACE_DATA,
    assert_same_arrays,
    own_hyperparameters,
    read,
)


def copied(tmp_path: pathlib.Path, name: str = "small/discriminator") -> pathlib.Path:
    """Returns a copy of a folder of test data."""
    return shutil.copytree(HUGGINGFACE_DATA / name, tmp_path / "model")


def change_json(path: pathlib.Path, **changes: Any) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def test_null_is_what_is_left_out(tmp_path):
    folder = copied(tmp_path)
    before = read(folder, "huggingface")
    nulls = ("position_embedding_type", "is_decoder", "add_cross_attention", "summary_type")
    change_json(folder / "config.json", **dict.fromkeys(nulls))
    assert read(folder, "huggingface").description == before.description


def test_the_exact_gelu_of_masked_language_models_is_reported(tmp_path):
    folder = copied(tmp_path, "small/generator")
    assert read(folder, "huggingface").notes == ()
    change_json(folder / "config.json", hidden_act="gelu_new")
    (note,) = read(folder, "huggingface").notes
    assert "the exact GELU, but the head here applies gelu_tanh" in note
    (note,) = HUGGINGFACE.write(read(folder, "huggingface"), str(tmp_path / "there"))
    assert "the exact GELU, but the head here" in note


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("gelu_python", "gelu"),
        ("gelu_python_tanh", "gelu_tanh"),
        ("gelu_accurate", "gelu_tanh"),
        ("gelu_fast", "gelu_tanh"),
    ],
)
def test_the_other_names_of_both_gelus(tmp_path, theirs, ours):
    folder = copied(tmp_path)
    change_json(folder / "config.json", hidden_act=theirs)
    assert read(folder, "huggingface").description.encoder.hidden_act == ours


def test_a_tensor_under_two_names_is_refused(tmp_path):
    folder = copied(tmp_path)
    path = folder / "model.safetensors"
    tensors = safetensors.numpy.load_file(path)
    tensors["electra.embeddings.LayerNorm.gamma"] = tensors[
        "electra.embeddings.LayerNorm.weight"
    ]
    safetensors.numpy.save_file(tensors, path)
    with pytest.raises(UserError, match=r"LayerNorm\.(gamma|weight), which are names of"):
        read(folder, "huggingface")


@pytest.mark.parametrize("change", [{"layer_norm_eps": 1e-5}, {"hidden_act": "relu"}])
def test_a_generator_that_computes_otherwise_is_refused(tmp_path, change):
    folder = copied(tmp_path, "small")
    change_json(folder / "generator/config.json", **change)
    checkpoint = read(folder, "huggingface")
    with pytest.raises(UserError, match=r"discriminator's activation.* is .* instead of "):
        own_hyperparameters(checkpoint)
    # Each of two folders has its own configuration there.
    HUGGINGFACE.write(checkpoint, str(tmp_path / "there"))
    config = json.loads((tmp_path / "there/generator/config.json").read_text())
    assert config.items() >= change.items()


def test_a_pair_has_one_vocabulary(tmp_path):
    folder = copied(tmp_path, "small")
    change_json(folder / "generator/tokenizer_config.json", do_lower_case=True)
    assert (
        "do_lower_case True of the generator's tokenizer" in read(folder, "huggingface").notes
    )
    tokens = (folder / "generator/vocab.txt").read_text().splitlines()
    (folder / "generator/vocab.txt").write_text("\r\n".join(tokens))
    read(folder, "huggingface")
    tokens[7], tokens[8] = tokens[8], tokens[7]
    (folder / "generator/vocab.txt").write_text("\n".join(tokens))
    with pytest.raises(UserError, match="vocabularies of discriminator and generator differ"):
        read(folder, "huggingface")


@pytest.mark.parametrize(
    ("copied_folder", "replaced", "said"),
    [
        ("discriminator", "generator", r"model.generator is no generator: it has no head"),
        ("generator", "discriminator", r"model.discriminator is a generator: it has the head"),
    ],
)
def test_a_pair_is_of_two_kinds(tmp_path, copied_folder, replaced, said):
    folder = copied(tmp_path, "small")
    shutil.rmtree(folder / replaced)
    shutil.copytree(folder / copied_folder, folder / replaced)
    with pytest.raises(UserError, match=said):
        read(folder, "huggingface")


def test_an_output_layer_of_its_own_is_reported(tmp_path):
    folder = copied(tmp_path, "small/generator")
    tied = read(folder, "huggingface")
    path = folder / "model.safetensors"
    tensors = safetensors.numpy.load_file(path)
    embeddings = tensors["electra.embeddings.word_embeddings.weight"]
    for layer, notes in ((embeddings.copy(), 0), (embeddings + 1, 1)):
        safetensors.numpy.save_file({**tensors, "generator_lm_head.weight": layer}, path)
        found = read(folder, "huggingface")
        assert len(found.notes) - len(tied.notes) == notes
        assert_same_arrays(dict(found.arrays), dict(tied.arrays))
    assert found.notes[-1].startswith("generator_lm_head.weight: differs from the token")


def test_weights_under_other_names_are_refused(tmp_path):
    folder = copied(tmp_path)
    path = folder / "model.safetensors"
    tensors = safetensors.numpy.load_file(path)
    safetensors.numpy.save_file({f"module.{k}": v for k, v in tensors.items()}, path)
    expected = rf"{folder}: the weights have no electra\.emb.*, but module\.discriminator_pred"
    with pytest.raises(UserError, match=expected):
        read(folder, "huggingface")


def test_weights_without_the_head_of_their_class_are_reported(tmp_path):
    folder = copied(tmp_path)
    path = folder / "model.safetensors"
    tensors = safetensors.numpy.load_file(path)
    encoder = {k: v for k, v in tensors.items() if k.startswith("electra.")}
    assert encoder.keys() < tensors.keys()
    safetensors.numpy.save_file(encoder, path)
    (note,) = read(folder, "huggingface").notes
    assert note == (
        "config.json names ElectraForPreTraining, but the weights are those of an encoder"
    )
    for architectures in (["ElectraModel"], [], None):
        change_json(folder / "config.json", architectures=architectures)
        assert read(folder, "huggingface").notes == ()


def test_a_vocabulary_inside_of_the_tokenizer_has_to_be_converted(tmp_path):
    folder = copied(tmp_path)
    tokens = (folder / "vocab.txt").read_text().splitlines()
    (folder / "vocab.txt").unlink()
    model = {"type": "WordPiece", "vocab": {token: i for i, token in enumerate(tokens)}}
    normalizer = {"type": "BertNormalizer", "lowercase": True}
    content = json.dumps({"model": model, "normalizer": normalizer})
    (folder / "tokenizer.json").write_text(content)
    with pytest.raises(UserError, match=r"is inside its tokenizer\.json: convert the model"):
        HUGGINGFACE.settings(str(folder))
    settings = HUGGINGFACE.settings(str(folder), needs_vocabulary=False)
    assert settings["do_lower_case"] is False  # of its tokenizer_config.json


def shard(folder: pathlib.Path) -> None:
    """Divides the weights of a folder into two files and an index."""
    tensors = safetensors.numpy.load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    places = {name: f"part{i % 2}.safetensors" for i, name in enumerate(tensors)}
    for file in set(places.values()):
        part = {name: value for name, value in tensors.items() if places[name] == file}
        safetensors.numpy.save_file(part, folder / file)
    index = {"metadata": {}, "weight_map": places}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


def test_a_whole_file_is_taken_before_shards_and_those_before_pytorch_files(tmp_path):
    folder = copied(tmp_path)
    whole = read(folder, "huggingface")
    tensors = safetensors.numpy.load_file(folder / "model.safetensors")
    (folder / "pytorch_model.bin").write_bytes(b"an older conversion")
    shard(folder)
    assert_same_arrays(dict(read(folder, "huggingface").arrays), dict(whole.arrays))
    # An index that an earlier conversion has left is not read.
    doubled = {name: 2 * value for name, value in tensors.items()}
    safetensors.numpy.save_file(doubled, folder / "model.safetensors")
    name = "electra/embeddings/word_embeddings"
    value = read(folder, "huggingface").arrays[name]
    np.testing.assert_array_equal(value, 2 * whole.arrays[name])


@pytest.mark.parametrize("name", ["model.safetensors", "pytorch_model.bin"])
def test_a_pointer_of_git_lfs_is_not_taken_for_a_damaged_file(tmp_path, name):
    folder = copied(tmp_path)
    (folder / "model.safetensors").unlink()
    (folder / name).write_text("version https://git-lfs.github.com/spec/v1\nsize 54\n")
    with pytest.raises(UserError, match=rf"{name} has no weights: it is a Git LFS pointer"):
        read(folder, "huggingface")


def test_shards_of_pytorch_files(tmp_path):
    folder = copied(tmp_path, "pytorch_bin")
    whole = read(folder, "huggingface")
    (folder / "pytorch_model.bin").rename(folder / "pytorch_model-00001-of-00001.bin")
    index = folder / "pytorch_model.bin.index.json"
    places = dict.fromkeys(("a", "b"), "pytorch_model-00001-of-00001.bin")
    index.write_text(json.dumps({"weight_map": places}))
    assert_same_arrays(dict(read(folder, "huggingface").arrays), dict(whole.arrays))
    index.write_text(json.dumps({"weight_map": places | {"c": "pytorch_model-2.bin"}}))
    with pytest.raises(UserError, match=r"bin\.index\.json names files that are missing: .*-2"):
        read(folder, "huggingface")


@pytest.mark.parametrize("weight_map", [5, ["a"], {"a": 5}, {"a": ["b"]}, {"a": None}])
def test_an_index_of_other_values_is_refused(tmp_path, weight_map):
    folder = copied(tmp_path)
    (folder / "model.safetensors").unlink()
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": weight_map}))
    with pytest.raises(UserError, match=r"model\.safetensors\.index\.json"):
        read(folder, "huggingface")


QUERY = "electra.encoder.layer.0.attention.self.query"


def change_tensors(folder: pathlib.Path, **changes: np.ndarray) -> None:
    """Replaces tensors of a folder, or adds them."""
    path = folder / "model.safetensors"
    safetensors.numpy.save_file({**safetensors.numpy.load_file(path), **changes}, path)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.bool_])
def test_quantized_weights_are_refused(tmp_path, dtype):
    """Without its scales, a quantized layer would be another one of the right shape."""
    folder = copied(tmp_path)
    change_tensors(folder, **{f"{QUERY}.weight": np.ones([16, 16], dtype)})
    with pytest.raises(UserError, match=rf"1 tensors are quantized, such as {QUERY}\.weight"):
        read(folder, "huggingface")


def test_floats_of_8_bits_are_refused(tmp_path):
    folder = copied(tmp_path)
    path = folder / "model.safetensors"
    header = b'{"x":{"dtype":"F8_E4M3","shape":[2],"data_offsets":[0,2]}}'
    path.write_bytes(len(header).to_bytes(8, "little") + header + bytes(2))
    with pytest.raises(UserError, match=r"model\.safetensors has tensors of a type other than"):
        read(folder, "huggingface")


def test_other_tensors_of_a_layer_are_not_its_bias(tmp_path):
    folder = copied(tmp_path)
    before = read(folder, "huggingface")
    change_tensors(folder, **{f"{QUERY}.weight_g": np.ones([16], np.float32)})
    arrays = dict(read(folder, "huggingface").arrays)
    added = arrays.pop("electra/encoder/layer_0/attention/self/query/weight_g")
    np.testing.assert_array_equal(added, np.ones([16]))
    assert_same_arrays(arrays, dict(before.arrays))


@pytest.mark.parametrize(
    ("name", "changes", "said"),
    [
        (
            "token_classification",
            {"classifier.weight": np.ones([2, 16], np.float32)},
            r"the head has weights \(2, 16\) and biases \(3,\)",
        ),
        (
            "token_classification",
            {"classifier.weight": np.ones([3, 8], np.float32)},
            r"the head has weights \(3, 8\) .* hidden_size in config.json is 16",
        ),
        (
            "question_answering",
            {
                "qa_outputs.weight": np.ones([3, 16], np.float32),
                "qa_outputs.bias": np.ones([3], np.float32),
            },
            r"qa_outputs must have two outputs, but its weights are \(3, 16\)",
        ),
    ],
)
def test_heads_of_other_shapes_are_refused(tmp_path, name, changes, said):
    folder = copied(tmp_path, name)
    change_tensors(folder, **changes)
    with pytest.raises(UserError, match=said):
        read(folder, "huggingface")


@pytest.mark.parametrize("ids", [("0", "2", "5"), ("-1", "0", "1"), ("1", "2", "3")])
def test_ids_of_labels_are_numbers_from_zero(tmp_path, ids):
    folder = copied(tmp_path, "token_classification")
    change_json(folder / "config.json", id2label=dict.fromkeys(reversed(ids), "X"))
    with pytest.raises(UserError, match="id2label must have a label for each id from 0, not"):
        read(folder, "huggingface")


def test_a_missing_segment_is_reported_both_ways(tmp_path):
    folder = copied(tmp_path)
    name = "electra.embeddings.token_type_embeddings.weight"
    first = safetensors.numpy.load_file(folder / "model.safetensors")[name][:1]
    change_tensors(folder, **{name: np.ascontiguousarray(first)})
    change_json(folder / "config.json", type_vocab_size=1)
    checkpoint = read(folder, "huggingface")
    for notes in (checkpoint.notes, HUGGINGFACE.write(checkpoint, str(tmp_path / "there"))):
        assert [note.startswith("type_vocab_size 1: here, tokens of") for note in notes] == [1]
