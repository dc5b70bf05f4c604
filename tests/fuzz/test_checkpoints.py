"""Readers of checkpoints on files with changed bytes, and on descriptions of any content."""

import json
import pathlib
import pickle
import shutil
import zipfile

import numpy as np
import pytest
import safetensors.numpy
from hypothesis import strategies as st

from electra_tf.interop.formats import saved_hyperparameters
from electra_tf.interop.huggingface.format import HuggingFaceFormat
from electra_tf.interop.huggingface.pytorch_archive import read_pytorch_archive
from electra_tf.interop.kerashub_format import REGISTERED_NAME
from electra_tf.interop.tf1_format import read_tf1_arrays
from electra_tf.util.errors import UserError
from tests.electra_tf.interop.models import HUGGINGFACE_DATA, TF1_DATA
from tests.fuzz.inputs import json_values, outcome, tries

changes = st.lists(
    st.tuples(st.integers(0, 2**20), st.integers(0, 255)), min_size=1, max_size=4
)
cuts = st.none() | st.integers(0, 2**20)


def changed(content: bytes, replaced, cut) -> bytes:
    """Returns bytes of which some are replaced, and that may be cut."""
    result = bytearray(content)
    for position, byte in replaced:
        result[position % len(result)] = byte
    return bytes(result if cut is None else result[: cut % len(result)])


def arrays_or_error(result) -> None:
    assert isinstance(result, UserError) or all(
        isinstance(value, np.ndarray | np.generic) for value in result.values()
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> pathlib.Path:
    return tmp_path_factory.mktemp("damaged")


@tries(150, replaced=changes, cut=cuts, in_pickle=st.booleans())
def test_pytorch_archives(folder, replaced, cut, in_pickle):
    source = HUGGINGFACE_DATA / "pytorch_bin/pytorch_model.bin"
    path = folder / "pytorch_model.bin"
    if not in_pickle:
        path.write_bytes(changed(source.read_bytes(), replaced, cut))
    else:  # with the right checksums of zip
        with zipfile.ZipFile(source) as old, zipfile.ZipFile(path, "w") as new:
            for name in old.namelist():
                content = old.read(name)
                if name.endswith("data.pkl"):
                    content = changed(content, replaced, cut)
                new.writestr(name, content)
    arrays_or_error(outcome(read_pytorch_archive, str(path)))


class Evil:
    """A pickle of it calls a function."""

    def __init__(self, function, *arguments):
        self.called = function, arguments

    def __reduce__(self):
        return self.called


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize(
    "evil",
    [
        Evil(exec, "raise SystemExit('called')"),
        Evil(pathlib.Path.touch, pathlib.Path("called")),
        Evil(getattr, {}, "update"),
        Evil(np.lib.stride_tricks.as_strided, np.zeros(1), (10**9,)),
    ],
)
def test_pickles_of_strangers_are_not_loaded(tmp_path, protocol, evil, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with zipfile.ZipFile("a.bin", "w") as archive:
        archive.writestr("a/data.pkl", pickle.dumps({"x": evil}, protocol))
    assert "it refers to" in str(outcome(read_pytorch_archive, "a.bin"))
    assert [path.name for path in tmp_path.iterdir()] == ["a.bin"]


@tries(150, replaced=changes, cut=cuts, in_header=st.booleans())
def test_safetensors(folder, replaced, cut, in_header):
    source = HUGGINGFACE_DATA / "gelu_new"
    target = folder / "safetensors"
    if not target.exists():
        shutil.copytree(source, target)
    content = (source / "model.safetensors").read_bytes()
    if in_header:
        size = 8 + int.from_bytes(content[:8], "little")
        content = changed(content[:size], replaced, None) + content[size:]
    else:
        content = changed(content, replaced, cut)
    (target / "model.safetensors").write_bytes(content)
    result = outcome(HuggingFaceFormat().read, str(target))
    arrays_or_error(result if isinstance(result, UserError) else result.arrays)


@pytest.mark.parametrize(
    "tensors",
    [
        {},
        {"x": np.zeros(0, np.float32)},
        {"electra.embeddings.word_embeddings.weight": np.zeros((2, 2), np.int8)},
        {"electra.encoder.layer.99999999999999999999.x": np.zeros(3, np.float32)},
        {"electra.embeddings.word_embeddings.weight": np.zeros((), np.float64)},
    ],
    ids=lambda tensors: next(iter(tensors), "none"),
)
def test_safetensors_of_other_tensors(tmp_path, tensors):
    target = tmp_path / "model"
    shutil.copytree(HUGGINGFACE_DATA / "gelu_new", target)
    safetensors.numpy.save_file(tensors, target / "model.safetensors")
    result = outcome(HuggingFaceFormat().read, str(target))
    arrays_or_error(result if isinstance(result, UserError) else result.arrays)


@tries(120, replaced=changes, cut=cuts, of_index=st.booleans())
def test_tf1_checkpoints(folder, replaced, cut, of_index):
    name = "ckpt_tied_all"
    suffixes = (".index", ".data-00000-of-00001")
    for suffix in suffixes:
        content = (TF1_DATA / "pretraining" / f"{name}{suffix}").read_bytes()
        if of_index == (suffix == ".index"):
            content = changed(content, replaced, cut)
        (folder / f"{name}{suffix}").write_bytes(content)
    arrays_or_error(outcome(read_tf1_arrays, str(folder / name)))


HUGGINGFACE_KEYS = (
    *("vocab_size", "embedding_size", "hidden_size", "num_hidden_layers", "hidden_act"),
    *(
        "num_attention_heads",
        "layer_norm_eps",
        "initializer_range",
        "architectures",
        "id2label",
    ),
)
KERASHUB_KEYS = (
    *("vocab_size", "embedding_dim", "hidden_dim", "num_layers", "num_heads", "dropout"),
    *("intermediate_dim", "max_sequence_length", "num_segments"),
)
TOKENIZER = st.dictionaries(
    st.sampled_from(
        ["do_lower_case", "strip_accents", "normalizer", "model", "config", "lowercase"]
    ),
    json_values,
    max_size=3,
)


def write_json(path: pathlib.Path, content) -> None:
    path.write_text(json.dumps(content), encoding="utf-8")


def check_settings(result) -> None:
    """Settings have the types of hyperparameters; those of a tokenizer may be unknown."""
    if isinstance(result, UserError):
        return
    known = {"do_lower_case", "strip_accents"} & result.keys()
    assert len(known) in (0, 2)
    for name in known:
        assert isinstance(result[name], bool), result
    assert all(type(result[name]) is int for name in ("vocab_size", "embedding_size"))


@tries(
    150,
    config=st.dictionaries(st.sampled_from(HUGGINGFACE_KEYS), json_values, max_size=3),
    tokenizer=TOKENIZER | json_values,
    fast=TOKENIZER | json_values,
)
def test_descriptions_of_huggingface(folder, config, tokenizer, fast):
    target = folder / "huggingface"
    target.mkdir(exist_ok=True)
    write_json(target / "config.json", {"model_type": "electra", **config})
    write_json(target / "tokenizer_config.json", tokenizer)
    write_json(target / "tokenizer.json", fast)
    check_settings(outcome(saved_hyperparameters, str(target), needs_vocabulary=False))


@tries(
    150,
    config=st.fixed_dictionaries(
        {}, optional={key: st.integers(1, 64) | json_values for key in KERASHUB_KEYS}
    )
    | st.fixed_dictionaries({key: st.integers(1, 64) for key in KERASHUB_KEYS[:5]})
    | json_values,
    tokenizer=TOKENIZER | json_values,
)
def test_descriptions_of_kerashub(folder, config, tokenizer):
    target = folder / "kerashub"
    target.mkdir(exist_ok=True)
    write_json(target / "config.json", {"registered_name": REGISTERED_NAME, "config": config})
    write_json(target / "tokenizer.json", tokenizer)
    check_settings(outcome(saved_hyperparameters, str(target)))


RUN_KEYS = (
    *("model_size", "model_hparam_overrides", "embedding_size", "task_names", "vocab_size"),
    *("do_lower_case", "version", "labels", "tasks"),
)
RUNS = st.dictionaries(
    st.sampled_from(["hyperparameters", "variables", "version", "tokenizer"]),
    st.dictionaries(st.sampled_from(RUN_KEYS), json_values, max_size=3) | json_values,
)


@tries(150, content=RUNS | json_values)
def test_descriptions_of_runs(folder, content):
    target = folder / "run"
    target.mkdir(exist_ok=True)
    write_json(target / "config.json", content)
    outcome(saved_hyperparameters, str(target))
