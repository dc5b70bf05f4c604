"""`config.json` of this version and of older ones."""

import json
import pathlib

import pytest

from electra_tf.config.saved_config import CONFIG_VERSION, load_saved_config
from electra_tf.interop.native_models import saved_encoder
from electra_tf.text.tokenizer_description import hash_vocabulary
from electra_tf.util.errors import UserError


def write(folder: pathlib.Path, overrides: dict, **more) -> None:
    hyperparameters = {
        "model_size": "base",
        "model_hparam_overrides": overrides,
        "embedding_size": 48,
        "vocab_size": 40,
    }
    content = {"hyperparameters": hyperparameters, "variables": {}, **more}
    (folder / "config.json").write_text(json.dumps(content))


def test_an_overridden_width_of_an_older_version_keeps_its_shape(tmp_path):
    write(tmp_path, {"hidden_size": 48})
    values = load_saved_config(tmp_path).hyperparameters
    encoder = saved_encoder(values)
    assert (encoder.num_attention_heads, encoder.intermediate_size) == (12, 3072)
    assert "version" not in values
    write(tmp_path, {"hidden_size": 48, "intermediate_size": 96})
    encoder = saved_encoder(load_saved_config(tmp_path).hyperparameters)
    assert (encoder.num_attention_heads, encoder.intermediate_size) == (12, 96)


def test_in_this_version_they_follow_from_the_width(tmp_path):
    write(tmp_path, {"hidden_size": 48}, version=CONFIG_VERSION)
    encoder = saved_encoder(load_saved_config(tmp_path).hyperparameters)
    assert (encoder.num_attention_heads, encoder.intermediate_size) == (1, 192)


@pytest.mark.parametrize(
    "content",
    ["", "[]", "{}", '{"hyperparameters": 1}', '"a"', pytest.param("[" * 100_000, id="nested")],
)
def test_what_describes_no_run_is_named(tmp_path, content):
    (tmp_path / "config.json").write_text(content)
    with pytest.raises(UserError, match=f"^{tmp_path}/config.json does not describe a run"):
        load_saved_config(str(tmp_path))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model_size": "huge"}, "model_size must be one of .*base.* not 'huge'"),
        ({"vocab_size": "40"}, "vocab_size must be a whole number, not '40'"),
        ({"model_hparam_overrides": 1.5}, "model_hparam_overrides must be a JSON object"),
        ({"num_train_steps": [5]}, "num_train_steps must be a whole number"),
        ({"warmup_proportion": "0.1"}, "warmup_proportion must be a number"),
    ],
)
def test_a_value_that_is_damaged_is_named(tmp_path, changes, message):
    write(tmp_path, {})
    path = tmp_path / "config.json"
    content = json.loads(path.read_text())
    content["hyperparameters"] |= changes
    path.write_text(json.dumps(content))
    with pytest.raises(UserError, match=f"^{path}:? {message}"):
        load_saved_config(tmp_path)


def test_another_vocabulary_than_that_of_the_model_is_warned_of(tmp_path, capsys):
    vocabulary = tmp_path / "vocab.txt"
    vocabulary.write_text("[PAD]\na\nb\n")
    for recorded in ({}, {"tokenizer": {"vocab_sha256": hash_vocabulary(vocabulary)}}):
        write(tmp_path, {}, **recorded)
        load_saved_config(tmp_path)
    assert not capsys.readouterr().err
    vocabulary.write_text("[PAD]\nb\na\n")
    load_saved_config(tmp_path)
    message = f"{vocabulary} is not the vocabulary that {tmp_path}/config.json was written with"
    assert message in capsys.readouterr().err
    vocabulary.unlink()
    load_saved_config(tmp_path)
    assert not capsys.readouterr().err


def test_a_model_of_another_format_is_to_be_converted(tmp_path):
    (tmp_path / "config.json").write_text('{"model_type": "electra"}')
    with pytest.raises(UserError, match=r"of this project\. Convert .* --to_format electra_tf"):
        load_saved_config(tmp_path)


def test_a_newer_version_is_refused(tmp_path):
    write(tmp_path, {}, version=CONFIG_VERSION + 1)
    with pytest.raises(UserError, match="written by a newer version of this program"):
        load_saved_config(tmp_path)


@pytest.mark.parametrize("name", ["../../x", "/tmp/x", "a/b", "..", 3])
def test_names_of_tasks_that_lead_to_other_folders_are_refused(tmp_path, name):
    content = {"hyperparameters": {"task_names": ["cola", name]}, "variables": {}}
    (tmp_path / "config.json").write_text(json.dumps(content))
    with pytest.raises(UserError, match=r"config\.json names the task .* without folders"):
        load_saved_config(tmp_path)
