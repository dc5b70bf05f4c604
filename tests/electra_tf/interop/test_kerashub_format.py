"""KerasHub presets: the same outputs, and the same weights and vocabulary there and back."""

import dataclasses
import json
import sys

import keras
import keras_hub
import numpy as np
import pytest

from electra_tf.interop.kerashub_format import _notes, read_kerashub_description
from electra_tf.util.errors import UserError
from tests.electra_tf.interop.huggingface.test_format import TOLERANCE, stored
from tests.electra_tf.interop.models import (
    HUGGINGFACE_DATA,
    assert_same_arrays,
    format_of,
    outputs,
    read,
)

KERASHUB = format_of("kerashub")


@pytest.mark.parametrize("size", ["small", "base"])
def test_presets_compute_the_same(size, tmp_path):
    before = read(HUGGINGFACE_DATA / size, "huggingface")
    notes = KERASHUB.write(before, str(tmp_path))
    assert "discriminator_predictions: 4 arrays" in notes
    assert any(note.startswith("hidden_act gelu:") for note in notes)
    after = read(tmp_path, "kerashub")
    assert_same_arrays(dict(after.arrays), before.part("electra/"))
    assert after.description.vocabulary == before.description.vocabulary
    assert not after.description.do_lower_case

    inputs, _ = stored(f"{size}/discriminator")
    backbone = keras_hub.models.ElectraBackbone.from_preset(str(tmp_path))
    theirs = backbone(
        {
            "token_ids": inputs["input_ids"],
            "padding_mask": inputs["attention_mask"],
            "segment_ids": inputs["token_type_ids"],
        }
    )["sequence_output"]
    ours = outputs(after, inputs)["sequence"]
    mask = inputs["attention_mask"] == 1
    assert np.abs(ours - np.asarray(theirs))[mask].max() < TOLERANCE


def test_weights_are_float32_whatever_the_policy_of_keras_is(tmp_path):
    before = read(HUGGINGFACE_DATA / "small/discriminator", "huggingface")
    policy = keras.config.dtype_policy()
    keras.config.set_dtype_policy("bfloat16")
    try:
        KERASHUB.write(before, str(tmp_path))
        after = read(tmp_path, "kerashub")
    finally:
        keras.config.set_dtype_policy(policy)
    assert_same_arrays(dict(after.arrays), before.part("electra/"))


def test_the_tokenizer_lowers_case_as_ours(tmp_path):
    before = read(HUGGINGFACE_DATA / "small/discriminator", "huggingface")
    lower = dataclasses.replace(before.description, do_lower_case=True, strip_accents=True)
    KERASHUB.write(dataclasses.replace(before, description=lower), str(tmp_path))
    tokenizer = keras_hub.models.ElectraTokenizer.from_preset(str(tmp_path))
    assert np.asarray(tokenizer("W1 ẃ2")).tolist() == [6, 7]
    description = read(tmp_path, "kerashub").description
    assert (description.do_lower_case, description.strip_accents) == (True, True)


def test_other_letters_than_ours_are_lowered_and_reported(tmp_path):
    before = read(HUGGINGFACE_DATA / "small/discriminator", "huggingface")
    assert not any("folds case" in note for note in _notes(before))
    vocabulary = before.description.vocabulary.replace(b"w1\n", b"ss\n")
    vocabulary = vocabulary.replace(b"w2\n", "\u00df\n".encode())
    described = dataclasses.replace(
        before.description, do_lower_case=True, vocabulary=vocabulary
    )
    notes = KERASHUB.write(dataclasses.replace(before, description=described), str(tmp_path))
    tokenizer = keras_hub.models.ElectraTokenizer.from_preset(str(tmp_path))
    assert np.asarray(tokenizer("\u00df")).tolist() == [6]  # the id of ss
    for said in (notes, read(tmp_path, "kerashub").notes):
        assert any(note.startswith("do_lower_case: KerasHub folds case") for note in said)


def test_without_its_tokenizer_case_is_given_or_assumed(tmp_path):
    before = read(HUGGINGFACE_DATA / "small/discriminator", "huggingface")
    KERASHUB.write(before, str(tmp_path))
    settings = KERASHUB.settings(str(tmp_path))
    assert (settings["do_lower_case"], settings["strip_accents"]) == (False, False)
    (tmp_path / "tokenizer.json").unlink()
    description = read(tmp_path, "kerashub").description
    assert not description.tokenizer_recorded
    assert (description.do_lower_case, description.strip_accents) == (True, True)
    assert "do_lower_case" not in KERASHUB.settings(str(tmp_path))


@pytest.mark.parametrize(
    ("changes", "noted"),
    [
        ({"lowercase": False, "strip_accents": True}, "strip_accents without lowercase"),
        ({"lowercase": True, "strip_accents": True}, "do_lower_case: KerasHub folds case"),
        ({"split": False}, "split False of the tokenizer: it is always True here"),
        (
            {"suffix_indicator": "@@"},
            "suffix_indicator '@@' of the tokenizer: it is always '##'",
        ),
        ({"oov_token": "w1"}, "oov_token 'w1' of the tokenizer: it is always '[UNK]' here"),
    ],
)
def test_settings_that_the_tokenizer_here_lacks_are_reported(tmp_path, changes, noted):
    KERASHUB.write(read(HUGGINGFACE_DATA / "small/discriminator", "huggingface"), str(tmp_path))
    before = read(tmp_path, "kerashub").notes
    path = tmp_path / "tokenizer.json"
    content = json.loads(path.read_text())
    content["config"] |= changes
    path.write_text(json.dumps(content))
    added = read(tmp_path, "kerashub").notes[len(before) :]
    assert [note.startswith(noted) for note in added] == [True] * bool(noted)


def test_a_missing_segment_is_reported_both_ways(tmp_path):
    checkpoint = read(HUGGINGFACE_DATA / "small/discriminator", "huggingface")
    encoder = dataclasses.replace(checkpoint.description.encoder, type_vocab_size=1)
    name = "electra/embeddings/token_type_embeddings"
    arrays = {**checkpoint.arrays, name: checkpoint.arrays[name][:1]}
    description = dataclasses.replace(checkpoint.description, encoder=encoder)
    checkpoint = dataclasses.replace(checkpoint, description=description, arrays=arrays)
    written = KERASHUB.write(checkpoint, str(tmp_path))
    for notes in (written, read(tmp_path, "kerashub").notes):
        (note,) = (note for note in notes if note.startswith("type_vocab_size 1: here, tokens"))
        assert note.endswith("; KerasHub fails for them")


@pytest.mark.parametrize("activation", ["relu", "tanh", "linear"])
def test_another_activation_is_refused(tmp_path, activation):
    checkpoint = read(HUGGINGFACE_DATA / "small/discriminator", "huggingface")
    encoder = dataclasses.replace(checkpoint.description.encoder, hidden_act=activation)
    description = dataclasses.replace(checkpoint.description, encoder=encoder)
    checkpoint = dataclasses.replace(checkpoint, description=description)
    with pytest.raises(UserError, match=f"computes GELU, .* hidden_act {activation}"):
        KERASHUB.write(checkpoint, str(tmp_path / "x"))


def test_weights_that_kerashub_lacks_are_refused(tmp_path):
    """Its variables are set by name, so others would be lost in silence."""
    checkpoint = read(HUGGINGFACE_DATA / "small", "huggingface")
    gate = {"electra/encoder/layer_0/gate/kernel": np.ones([2, 2], np.float32)}
    checkpoint = dataclasses.replace(checkpoint, arrays={**checkpoint.arrays, **gate})
    with pytest.raises(UserError, match="no counterpart of electra/encoder/layer_0/gate/ker"):
        KERASHUB.write(checkpoint, str(tmp_path / "x"))
    assert not (tmp_path / "x").exists()


def test_another_epsilon_is_refused(tmp_path):
    checkpoint = read(HUGGINGFACE_DATA / "gelu_new", "huggingface")
    with pytest.raises(UserError, match="1e-12, but this model has 1e-05"):
        KERASHUB.write(checkpoint, str(tmp_path / "x"))
    assert not (tmp_path / "x").exists()


def test_without_kerashub_the_extra_is_named(monkeypatch, tmp_path):
    checkpoint = read(HUGGINGFACE_DATA / "small", "huggingface")
    KERASHUB.write(checkpoint, str(tmp_path / "preset"))
    monkeypatch.setitem(sys.modules, "keras_hub", None)
    with pytest.raises(UserError, match=r"needs keras_hub.*electra-tf\[kerashub\]"):
        KERASHUB.write(checkpoint, str(tmp_path / "x"))
    with pytest.raises(UserError, match=r"needs keras_hub.*electra-tf\[kerashub\]"):
        KERASHUB.read(str(tmp_path / "preset"))
    assert not (tmp_path / "x").exists()


def test_damaged_weights_are_refused(tmp_path):
    """KerasHub raises errors of h5py, or only warns that weights remain random."""
    before = read(HUGGINGFACE_DATA / "small/discriminator", "huggingface")
    KERASHUB.write(before, str(tmp_path))
    path = tmp_path / "model.weights.h5"
    whole = path.read_bytes()
    names = [b"HEAP", b"TREE", b"SNOD"]
    for name in names:
        path.write_bytes(whole.replace(name, b"XXXX"))
        with pytest.raises(UserError, match="cannot be loaded by KerasHub"):
            KERASHUB.read(str(tmp_path))


def test_what_a_preset_does_not_hold_is_named():
    before = read(HUGGINGFACE_DATA / "small/discriminator", "huggingface")
    encoder = dataclasses.replace(
        before.description.encoder, hidden_act="gelu_tanh", attention_probs_dropout_prob=0.3
    )
    described = dataclasses.replace(before.description, encoder=encoder)
    name = next(iter(before.arrays))
    arrays = {**before.arrays, f"{name}/adam_m": before.arrays[name]}
    notes = _notes(dataclasses.replace(before, description=described, arrays=arrays, step=7))
    assert "attention_probs_dropout_prob: KerasHub has one rate for all dropouts" in notes
    assert "1 optimizer moments" in notes
    assert "the step (7)" in notes
    assert not any(note.startswith("hidden_act") for note in notes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"hidden_dim": None}, "the config lacks hidden_dim"),
        ({"num_heads": 3}, r"hidden_size .* num_attention_heads"),
    ],
)
def test_a_preset_without_its_sizes_is_refused(tmp_path, changes, message):
    KERASHUB.write(read(HUGGINGFACE_DATA / "small", "huggingface"), str(tmp_path))
    path = tmp_path / "config.json"
    content = json.loads(path.read_text())
    content["config"] = {
        name: value
        for name, value in (content["config"] | changes).items()
        if value is not None
    }
    path.write_text(json.dumps(content))
    with pytest.raises(UserError, match=f"^{path}: .*{message}"):
        read_kerashub_description(str(tmp_path))
