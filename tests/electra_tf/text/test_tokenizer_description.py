"""Tests of the description of a tokenizer that lies beside its vocabulary."""

import json

import pytest

from electra_tf.interop.initial_settings import pretraining_config
from electra_tf.text.tokenizer_description import (
    TokenizerDescription,
    description_file,
    hash_vocabulary,
    load_tokenizer_description,
    tokenizer_settings,
    warn_of_unknown_words,
    write_tokenizer_description,
)
from electra_tf.util.console import warn_once
from electra_tf.util.errors import UserError
from finetune.config.finetuning import FinetuningConfig
from tests.conftest import tiny_settings
from tests.finetune.conftest import write_model


def describe(vocab_file, **settings) -> TokenizerDescription:
    description = TokenizerDescription(vocab_sha256=hash_vocabulary(vocab_file), **settings)
    write_tokenizer_description(vocab_file, description)
    return description


@pytest.fixture
def vocab_file(tmp_path, tiny_data):
    path = tmp_path / "data/vocab.txt"
    path.parent.mkdir()
    path.write_bytes((tiny_data / "vocab.txt").read_bytes())
    return path


def test_settings_are_read_and_contradictions_refused(vocab_file):
    assert tokenizer_settings({}, vocab_file) == {"do_lower_case": True, "strip_accents": True}
    given = {"do_lower_case": True, "strip_accents": False}
    assert tokenizer_settings(given, vocab_file) == given
    records = TokenizerDescription(vocab_sha256="", do_lower_case=False)
    cased = {"do_lower_case": False, "strip_accents": False}
    assert tokenizer_settings({}, vocab_file, records=records) == cased
    assert tokenizer_settings(given, vocab_file, records=records) == given
    description = describe(vocab_file, strip_accents=False)
    assert load_tokenizer_description(vocab_file) == description
    assert tokenizer_settings({}, vocab_file) == given
    with pytest.raises(
        UserError, match=r"--strip_accents is true, but .*vocab\.tokenizer\.json says .* false"
    ):
        tokenizer_settings({"strip_accents": True}, vocab_file)
    flags = {"do_lower_case": "--no-case"}
    with pytest.raises(UserError, match="--no-case is false, but"):
        tokenizer_settings({"do_lower_case": False}, vocab_file, flags=flags)
    describe(vocab_file, do_lower_case=False)
    # Accents are not stripped from text that is not lowercased, whatever is asked for.
    assert tokenizer_settings({"strip_accents": True}, vocab_file) == {
        "do_lower_case": False,
        "strip_accents": False,
    }


def test_a_cased_vocabulary_is_not_lowercased_silently(vocab_file, capsys):
    with vocab_file.open("a") as file:
        file.write("W1\n[unused_Entry]\n")
    tokenizer_settings({}, vocab_file)
    assert "1 of the 36 entries" in (error := capsys.readouterr().err)
    assert "such as 'W1', but text is lowercased: pass --do_lower_case=false" in error
    for given in (True, False):
        tokenizer_settings({"do_lower_case": given}, vocab_file)
        # Lowercased records of a cased vocabulary were a mistake, too.
        warn_once.cache_clear()
        records = TokenizerDescription(vocab_sha256="", do_lower_case=given)
        tokenizer_settings({}, vocab_file, records=records)
        assert ("1 of the 36 entries" in capsys.readouterr().err) is given
    describe(vocab_file)
    tokenizer_settings({}, vocab_file)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("settings", "given", "warned"),
    [
        ({"do_lower_case": False}, {}, "do_lower_case is true"),
        ({"do_lower_case": False}, {"do_lower_case": True}, "do_lower_case is true"),
        ({"do_lower_case": True}, {"do_lower_case": False}, "do_lower_case is false"),
        ({"strip_accents": False}, {}, "strip_accents is true"),
        ({"do_lower_case": True}, {"strip_accents": False}, "strip_accents is false"),
        ({"do_lower_case": True, "strip_accents": None}, {}, None),
        ({"do_lower_case": False}, {"do_lower_case": False}, None),
        ({"model_max_length": 512}, {"strip_accents": False}, None),
    ],
)
def test_other_settings_than_those_of_a_hugging_face_folder_are_warned_of(
    vocab_file, settings, given, warned, capsys
):
    vocab_file.with_name("tokenizer_config.json").write_text(json.dumps(settings))
    tokenizer_settings(given, vocab_file)
    error = capsys.readouterr().err
    if warned is None:
        assert error == ""
    else:
        assert f"--{warned}, but tokenizer_config.json beside {vocab_file} says" in error
    describe(vocab_file)
    tokenizer_settings({}, vocab_file)
    assert capsys.readouterr().err == ""
    description_file(vocab_file).unlink()
    vocab_file.with_name("tokenizer_config.json").write_text('{"do_lower_case": 1}')
    with pytest.raises(UserError, match=r"tokenizer_config\.json: do_lower_case must be true"):
        tokenizer_settings({}, vocab_file)


@pytest.mark.parametrize("entry", ["\u0915\u0941", "##\u304c", "\ud55c\uad6d", "d\u1ea5u"])
def test_accents_of_a_vocabulary_are_not_stripped_silently(vocab_file, entry, capsys):
    with vocab_file.open("a", encoding="utf-8") as file:
        file.write(f"{entry}\n")
    tokenizer_settings({"do_lower_case": True}, vocab_file)
    error = capsys.readouterr().err
    assert f"such as {entry!r}, but accents are stripped from text: pass --strip_acc" in error
    for given in ({"do_lower_case": False}, {"strip_accents": True}, {"strip_accents": False}):
        tokenizer_settings(given, vocab_file)
    describe(vocab_file)
    tokenizer_settings({}, vocab_file)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(("num_unknown", "warns"), [(0, False), (5, False), (6, True)])
def test_many_unknown_words_are_warned_of(num_unknown, warns, capsys):
    warn_of_unknown_words(f"text {num_unknown}", num_unknown, 100, "vocab.txt")
    error = capsys.readouterr().err
    assert ("6.0% of the words of text 6 are unknown" in error) == warns
    assert ("vocab.txt" in error) == warns


def test_damaged_and_foreign_descriptions_are_refused(vocab_file):
    content = describe(vocab_file).to_dict()
    path = description_file(vocab_file)
    for damaged, message in [
        ("{", "cannot be read as JSON"),
        ('{"do_lower_case": true, "do_lower_case": false}', "duplicate key 'do_lower_case'"),
        ({**content, "do_lower_case": "no"}, "does not describe a tokenizer"),
        ({"vocab_sha256": ""}, "does not describe a tokenizer"),
        ({**content, "tokenize_chinese_chars": False}, "only True is supported"),
        ({**content, "special_tokens": ["<s>"]}, "special_tokens is"),
    ]:
        path.write_text(damaged if isinstance(damaged, str) else json.dumps(damaged))
        with pytest.raises(UserError, match=message):
            load_tokenizer_description(vocab_file)
    describe(vocab_file)
    vocab_file.write_text(vocab_file.read_text() + "one more\n")
    with pytest.raises(UserError, match=r"vocab.* has been replaced"):
        load_tokenizer_description(vocab_file)


def test_pretraining_takes_them_and_its_model_keeps_them(vocab_file, tiny_data, tmp_path):
    describe(vocab_file, strip_accents=False)
    settings = tiny_settings(tiny_data, tmp_path) | {"vocab_file": str(vocab_file)}
    config = pretraining_config(**settings)
    assert (config.do_lower_case, config.strip_accents) == (True, False)
    with pytest.raises(UserError, match="--strip_accents is true"):
        pretraining_config(**settings, strip_accents=True)

    model_dir = tmp_path / "data/models/m"
    write_model(model_dir, tiny_data, strip_accents=False)
    content = json.loads((model_dir / "config.json").read_text())
    assert content["tokenizer"]["strip_accents"] is False
    assert load_tokenizer_description(model_dir / "vocab.txt").to_dict() == content["tokenizer"]
    # Evaluation and scoring of the run; the vocabulary in DATA_DIR has no description.
    settings = tiny_settings(tiny_data, tmp_path) | {"model_dir": str(model_dir)}
    assert not pretraining_config(**settings).strip_accents
    with pytest.raises(UserError, match="--strip_accents is true"):
        pretraining_config(**settings, strip_accents=True)
    vocab_file.write_text(vocab_file.read_text().replace("w1\n", "other\n"))
    description_file(vocab_file).unlink()
    with pytest.raises(UserError, match="is not the model's vocabulary"):
        pretraining_config(**settings, vocab_file=str(vocab_file))
    # Only training compares the vocabulary with its record.
    evaluation = {"do_train": False, "allow_changed_settings": ("seed",)}
    with pytest.raises(UserError, match="is not the model's vocabulary"):
        pretraining_config(**settings, **evaluation, vocab_file=str(vocab_file))
    # A run from its weights, and fine-tuning.
    settings = tiny_settings(tiny_data, tmp_path) | {"init_checkpoint": str(model_dir)}
    assert not pretraining_config(**settings).strip_accents
    finetuning = {"data_dir": str(tmp_path / "data"), "model_name": "m"}
    assert not FinetuningConfig.create(**finetuning).strip_accents
    with pytest.raises(UserError, match="--strip_accents is true"):
        FinetuningConfig.create(**finetuning, strip_accents=True)
    with pytest.raises(UserError, match="is not the model's vocabulary"):
        FinetuningConfig.create(**finetuning, vocab_file=str(vocab_file))


def test_the_first_difference_is_named(vocab_file, tmp_path):
    ours = describe(vocab_file)
    assert ours.difference(ours) is None
    other = describe(vocab_file, strip_accents=False)
    assert ours.difference(other) == "strip_accents is true, not false"
    vocab_file.write_text("[PAD]\n")
    assert ours.difference(describe(vocab_file)) == "the vocabularies differ"
    assert hash_vocabulary(tmp_path / "none.txt") is None
