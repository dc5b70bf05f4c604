"""What a run takes from the checkpoint that it starts from."""

import shutil

import pytest

from electra_tf.interop import initial_settings as module
from electra_tf.interop.initial_settings import initial_settings, pretraining_config
from electra_tf.util.console import warn_once
from tests.electra_tf.interop.models import HUGGINGFACE_DATA


@pytest.mark.parametrize(
    ("given", "saved", "warned"),
    [
        ({"do_lower_case": True}, {"do_lower_case": False}, "--do_lower_case=true contradicts"),
        ({"strip_accents": True}, {"strip_accents": False}, "--strip_accents=true contradicts"),
        ({"do_lower_case": True}, {"do_lower_case": True}, ""),
        ({"do_lower_case": True}, {}, ""),  # not recorded
        ({"strip_accents": True}, {"do_lower_case": False, "strip_accents": False}, ""),
    ],
)
def test_flags_that_contradict_the_tokenizer_of_the_checkpoint_are_warned_of(
    tmp_path, monkeypatch, capsys, given, saved, warned
):
    """Formats without a description of the tokenizer, such as Hugging Face's, refuse none."""
    warn_once.cache_clear()
    monkeypatch.setattr(module, "find_format", lambda *_: None)
    monkeypatch.setattr(module, "saved_hyperparameters", lambda *_, **__: saved)
    monkeypatch.setattr(module, "resolve_checkpoint", lambda path, _: path)
    given = {"data_dir": str(tmp_path), "init_checkpoint": "cased", **given}
    initial_settings(given, str(tmp_path / "run"))
    error = capsys.readouterr().err
    assert (warned in error) if warned else not error


def test_a_vocabulary_of_another_tokenizer_hides_no_contradiction(
    tmp_path, monkeypatch, capsys
):
    """Only that of the checkpoint's own folder tells what its tokenizer_config.json says."""
    warn_once.cache_clear()
    saved = {"do_lower_case": True}
    monkeypatch.setattr(module, "find_format", lambda *_: None)
    monkeypatch.setattr(module, "saved_hyperparameters", lambda *_, **__: saved)
    monkeypatch.setattr(module, "resolve_checkpoint", lambda path, _: path)
    vocabulary = HUGGINGFACE_DATA / "small/discriminator/vocab.txt"
    assert module.huggingface_settings(vocabulary)
    given = {"data_dir": str(tmp_path), "init_checkpoint": "ours", "do_lower_case": False}
    initial_settings({**given, "vocab_file": str(vocabulary)}, str(tmp_path / "run"))
    assert "--do_lower_case=false contradicts ours" in capsys.readouterr().err


def test_a_tokenizer_beside_the_vocabulary_is_told_of_once(tmp_path, tiny_data, capsys):
    warn_once.cache_clear()
    folder = shutil.copytree(HUGGINGFACE_DATA / "small/discriminator", tmp_path / "cased")
    pretraining_config(
        data_dir=str(tmp_path),
        model_name="run",
        init_checkpoint=str(folder),
        do_lower_case=True,
        max_seq_length=16,
    )
    (line,) = capsys.readouterr().err.splitlines()
    assert f"--do_lower_case is true, but tokenizer_config.json beside {folder}" in line
