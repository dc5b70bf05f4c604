"""Folders that differ from those that transformers writes today."""

import json
import pathlib
import shutil
from typing import Any

import pytest

from electra_tf.util.errors import UserError
from tests.electra_tf.interop.huggingface.test_format import HUGGINGFACE
from tests.electra_tf.interop.models import HUGGINGFACE_DATA, own_hyperparameters, read


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
    assert "the exact GELU there, but the head here gelu_tanh" in note
    (note,) = HUGGINGFACE.write(read(folder, "huggingface"), str(tmp_path / "there"))
    assert "the exact GELU there" in note


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
