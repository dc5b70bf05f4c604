"""The command's work: detection, vocabulary, refusals before anything is written."""

import dataclasses
import json
import os
import pathlib
import shutil
import types
from typing import Any

import keras
import numpy as np
import pytest
import safetensors.numpy

from electra_tf.config.encoder import EncoderConfig
from electra_tf.interop import formats
from electra_tf.interop.conversion import convert
from electra_tf.interop.formats import (
    ConversionConfig,
    find_format,
    format_names,
    resolve_checkpoint,
    saved_hyperparameters,
)
from electra_tf.interop.initial_settings import pretraining_config
from electra_tf.interop.model_checkpoint import (
    CheckpointFormat,
    ModelCheckpoint,
    ModelDescription,
    with_hyperparameters,
)
from electra_tf.model import layers
from electra_tf.text.tokenizer_description import load_tokenizer_description
from electra_tf.training.checkpoints.checkpoint_files import checkpoint_names
from electra_tf.training.checkpoints.folder_lock import lock_model_dir
from electra_tf.util.errors import UserError
from electra_tf.util.files import read_json, to_json, write_atomically
from finetune.authors_tasks import describe_task
from tests.electra_tf.interop.models import (
    FAMILIES,
    HUGGINGFACE_DATA,
    TF1_DATA,
    assert_same_arrays,
    format_of,
    read,
)
from tests.finetune.conftest import write_model

SMALL = HUGGINGFACE_DATA / "small"


def run(source: pathlib.Path | str, target: str, output: pathlib.Path, **more) -> list[str]:
    lines: list[str] = []
    config = ConversionConfig(
        source=str(source), target_format=target, output_dir=str(output), **more
    )
    convert(config, FAMILIES, describe_task, lines.append)
    return lines


def test_all_that_is_left_out_is_said(tmp_path):
    lines = run(SMALL, "kerashub", tmp_path / "kerashub")
    assert lines[0] == f"From:   {SMALL} (huggingface)"
    assert "2 layers, 16 hidden, 4 heads, discriminator, generator" in lines[1]
    reported = [line for line in lines if line.startswith("No counterpart: ")]
    assert "No counterpart: discriminator_predictions: 4 arrays" in reported
    assert "No counterpart: generator: 32 arrays" in reported
    assert lines[-1] == f"Output: {tmp_path / 'kerashub'} (kerashub)"
    assert read(tmp_path / "kerashub", "kerashub").description.encoder.hidden_size == 16


def test_no_random_tables_are_drawn(tmp_path, monkeypatch):
    """Each would take three times the memory of the table that replaces it."""

    def refuse(*args, **kwargs):
        raise AssertionError("random weights, which are replaced")

    monkeypatch.setattr(keras.initializers.TruncatedNormal, "__call__", refuse)
    run(SMALL, "electra_tf", tmp_path / "ours")
    run(tmp_path / "ours", "tf1", tmp_path / "tf1")
    assert_same_arrays(
        read(tmp_path / "tf1", "tf1").weights, read(SMALL, "huggingface").weights
    )
    monkeypatch.undo()
    weights = layers.Linear(8, 8, EncoderConfig(), name="after").kernel.numpy()
    assert np.std(weights) > 0


def test_what_both_models_of_a_pair_lose_is_said_once(tmp_path):
    pair = shutil.copytree(SMALL, tmp_path / "pair")
    for folder in ("discriminator", "generator"):
        path = pair / folder / "tokenizer_config.json"
        path.write_bytes(to_json(read_json(path) | {"tokenize_chinese_chars": False}))
    lines = run(pair, "electra_tf", tmp_path / "there")
    assert sum("tokenize_chinese_chars" in line for line in lines) == 1


def test_a_format_that_another_checkpoint_has_is_refused(tmp_path):
    for name in ("tf1", "kerashub", "electra_tf"):
        with pytest.raises(UserError, match=f"--from_format={name}, but .* format huggingface"):
            run(SMALL, "tf1", tmp_path / "there", source_format=name)
    run(SMALL, "tf1", tmp_path / "there", source_format="huggingface")


def test_a_folder_with_content_is_left_alone(tmp_path, capsys):
    (tmp_path / "mine.txt").write_text("precious")
    with pytest.raises(UserError, match="is not empty"):
        run(SMALL, "huggingface", tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]
    run(SMALL, "huggingface", tmp_path, overwrite=True)
    assert (tmp_path / "generator/model.safetensors").exists()
    assert "are not part of the new model: mine.txt" in capsys.readouterr().err
    with pytest.raises(UserError, match="is a file"):
        run(SMALL, "huggingface", tmp_path / "mine.txt")


def test_a_folder_that_is_filled_meanwhile_is_left_alone(tmp_path):
    output = tmp_path / "model"

    def convert_another(line: str) -> None:
        if line.startswith("Model:"):
            run(SMALL, "tf1", output)

    config = ConversionConfig(
        source=str(SMALL), target_format="electra_tf", output_dir=str(output)
    )
    with pytest.raises(UserError, match=f"Another program has written to --output={output}"):
        convert(config, FAMILIES, describe_task, convert_another)
    assert find_format(str(output), "--from", FAMILIES).name == "tf1"
    assert not (output / "config.json").exists()


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="needs Linux's /proc")
def test_a_folder_that_cannot_be_written_is_refused_before_the_model_is_read(tmp_path):
    with pytest.raises(UserError, match=r"^--output=/proc/x/y cannot be written: /proc: "):
        run(tmp_path / "missing", "huggingface", pathlib.Path("/proc/x/y"))


def test_a_link_to_a_folder_that_is_missing_makes_it(tmp_path):
    (tmp_path / "link").symlink_to("target")
    run(SMALL, "huggingface", tmp_path / "link")
    assert (tmp_path / "target/generator/model.safetensors").exists()


def test_a_model_is_not_overwritten_while_it_is_trained(tmp_path):
    output = tmp_path / "model"
    chief = types.SimpleNamespace(is_chief=True, count=1)
    with lock_model_dir(str(output), "--model_dir", chief):
        write_atomically(output / "config.json", "of the run")
        with pytest.raises(UserError, match=f"is training in {output} .* with --output"):
            run(SMALL, "electra_tf", output, overwrite=True)
    assert [path.name for path in output.iterdir()] == ["config.json"]
    run(SMALL, "electra_tf", output, overwrite=True)
    assert checkpoint_names(str(output))
    assert not [*tmp_path.glob("*.tmp")]


# Fields of an encoder that the shapes of its weights tell.
IN_SHAPES = {
    "embedding_size",
    "hidden_size",
    "intermediate_size",
    "max_position_embeddings",
    "num_hidden_layers",
    "type_vocab_size",
    "vocab_size",
}
# Other values of other fields, by type.
OTHERS = {int: lambda x: x // 2, float: lambda x: x / 2, bool: lambda x: not x}
# A preset has weights, so it has no use for the range that they were drawn from.
NOT_IN_A_FORMAT = {("kerashub", "initializer_range")}


@pytest.mark.parametrize("target", format_names())
@pytest.mark.parametrize(
    "field",
    [field for field in dataclasses.fields(EncoderConfig) if field.name not in IN_SHAPES],
    ids=lambda field: field.name,
)
def test_a_field_of_the_encoder_is_converted_or_reported_or_refused(tmp_path, field, target):
    """A new one has to be in the `write` and `read` of each format, too."""
    before = read(SMALL / "discriminator", "huggingface")
    value = getattr(before.description.encoder, field.name)
    changed = "relu" if field.type is str else OTHERS[field.type](value)
    encoder = dataclasses.replace(before.description.encoder, **{field.name: changed})
    description = dataclasses.replace(before.description, encoder=encoder)
    checkpoint = with_hyperparameters(
        dataclasses.replace(before, description=description), FAMILIES
    )
    try:
        notes = format_of(target).write(checkpoint, str(tmp_path))
    except UserError as error:
        refusal = str(error)
        assert str(changed) in refusal
        return
    if not any(note.startswith(field.name) for note in notes):
        found = getattr(read(tmp_path, target).description.encoder, field.name)
        assert found == changed or (target, field.name) in NOT_IN_A_FORMAT


@pytest.mark.parametrize("target", format_names())
def test_what_is_converted_is_never_overwritten(tmp_path, target):
    folder = tmp_path / "model"
    shutil.copytree(SMALL / "discriminator", folder)
    before = {path: path.read_bytes() for path in folder.iterdir()}
    with pytest.raises(UserError, match=f"--output={folder}/../model is the folder of --from"):
        run(folder, target, folder / "../model", overwrite=True)
    assert {path: path.read_bytes() for path in folder.iterdir()} == before


@pytest.mark.parametrize("is_above", [True, False])
def test_what_is_converted_is_not_overwritten_below_or_above_it(tmp_path, is_above):
    pair = tmp_path / "pair"
    if is_above:
        run(SMALL, "electra_tf", pair / "discriminator")
    else:
        shutil.copytree(SMALL, pair)
    before = {path: path.read_bytes() for path in pair.rglob("*") if path.is_file()}
    source, output = (pair / "discriminator", pair) if is_above else (pair, pair / "generator")
    with pytest.raises(UserError, match=f"^--output={output}: files of --from={source} would"):
        run(source, "huggingface", output, overwrite=True)
    assert before == {path: path.read_bytes() for path in pair.rglob("*") if path.is_file()}
    # Elsewhere below it, there is nothing of it.
    for _ in range(2):
        run(source, "tf1", source / "converted", overwrite=True)


def test_files_of_before_in_folders_that_are_written_are_named(tmp_path, capsys):
    run(SMALL, "huggingface", tmp_path)
    (tmp_path / "generator" / "old.txt").touch()
    run(SMALL, "huggingface", tmp_path, overwrite=True)
    assert "not part of the new model: generator/old.txt" in capsys.readouterr().err


def test_an_overwritten_checkpoint_is_gone_even_if_its_step_was_later(tmp_path, capsys):
    run(SMALL, "electra_tf", tmp_path / "first")
    for path in (tmp_path / "first").glob("ckpt-0.*"):
        path.rename(path.with_name(path.name.replace("ckpt-0", "ckpt-9")))
    (tmp_path / "first" / "ckpt-9.manifest.json").unlink()
    lines = run(SMALL, "electra_tf", tmp_path / "first", overwrite=True)
    assert lines[-1] == f"Output: {tmp_path / 'first'} (electra_tf)"
    assert "not part of the new model" not in capsys.readouterr().err
    assert read(tmp_path / "first", "electra_tf").path == str(tmp_path / "first" / "ckpt-0")


def test_rows_without_a_token_get_unused_ones(tmp_path):
    source = tmp_path / "source"
    shutil.copytree(SMALL / "discriminator", source)
    tokens = (source / "vocab.txt").read_text().splitlines()
    (source / "vocab.txt").write_text("\n".join(tokens[:-2]))
    lines = run(source, "electra_tf", tmp_path / "ours")
    assert any("2 embeddings have no token" in line for line in lines)
    written = (tmp_path / "ours/vocab.txt").read_text().splitlines()
    assert written == [*tokens[:-2], "[unused_row_46]", "[unused_row_47]"]
    (source / "vocab.txt").write_text("\n".join([*tokens, "more"]))
    with pytest.raises(UserError, match="49 tokens, but the model has 48 embeddings"):
        run(source, "electra_tf", tmp_path / "again")


@pytest.mark.parametrize("target", format_names())
def test_every_line_of_a_vocabulary_is_a_token_of_its_own(tmp_path, target):
    source = tmp_path / "source"
    shutil.copytree(SMALL / "discriminator", source)
    tokens = (source / "vocab.txt").read_text().splitlines()
    tokens[8], tokens[9] = tokens[20], "\u3000"
    (source / "vocab.txt").write_text("\n".join([*tokens, "", ""]))
    lines = run(source, target, tmp_path / "there")
    (said,) = [line for line in lines if "of the vocabulary" in line]
    assert "2 lines of the vocabulary are empty or repeated later" in said
    tokens[8:10] = "[unused_row_8]", "[unused_row_9]"
    written = read(tmp_path / "there", target).description.vocabulary
    assert written.decode() == "".join(f"{token}\n" for token in tokens)


@pytest.mark.parametrize("target", format_names())
@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (b"w7", "é".encode("latin-1"), "line 13 is not UTF-8"),
        (b"[PAD]", b"<pad>", r"lacks the special token \[PAD\]"),
    ],
)
def test_a_vocabulary_that_no_program_can_use_is_refused(tmp_path, target, old, new, said):
    source = tmp_path / "source"
    shutil.copytree(SMALL / "discriminator", source)
    content = (source / "vocab.txt").read_bytes()
    (source / "vocab.txt").write_bytes(content.replace(old + b"\n", new + b"\n"))
    message = rf"{said}.*\. Pass (the model.s vocabulary|another file) with --vocab_file"
    with pytest.raises(UserError, match=message):
        run(source, target, tmp_path / "there")
    assert not (tmp_path / "there").exists()


def test_a_vocabulary_of_other_tokens_is_warned_of(tmp_path, capsys):
    lines = (SMALL / "discriminator/vocab.txt").read_text().splitlines()
    vocab_file = tmp_path / "other.txt"
    vocab_file.write_text("\n".join([*lines[:6], lines[7], lines[6], *lines[8:]]))
    run(SMALL, "electra_tf", tmp_path / "ours", vocab_file=str(vocab_file))
    said = f"--vocab_file={vocab_file} is not the vocabulary of {SMALL}: 2 of "
    assert said in capsys.readouterr().err
    run(SMALL, "tf1", tmp_path / "tf1", vocab_file=str(SMALL / "generator/vocab.txt"))
    assert not capsys.readouterr().err


def test_the_authors_checkpoints_need_a_vocabulary(tmp_path):
    source = TF1_DATA / "finetuning/heads/multi/model.ckpt"
    with pytest.raises(UserError, match="pass --vocab_file"):
        run(source, "huggingface", tmp_path / "there")
    assert not (tmp_path / "there").exists()
    size = read(source, "tf1").description.encoder.vocab_size
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tokens = [*special, *(f"w{i}" for i in range(size - len(special)))]
    (tmp_path / "v.txt").write_text("".join(f"{token}\n" for token in tokens))
    more = {"vocab_file": str(tmp_path / "v.txt")}
    with pytest.raises(UserError, match="pass --num_attention_heads"):
        run(source, "huggingface", tmp_path / "there", **more)
    more["num_attention_heads"] = 5
    with pytest.raises(UserError, match="--num_attention_heads=5 does not divide the hidden"):
        run(source, "huggingface", tmp_path / "there", **more)
    more["num_attention_heads"] = 4
    run(source, "huggingface", tmp_path / "there", **more)
    config = json.loads((tmp_path / "there/sts/config.json").read_text())
    assert config["num_attention_heads"] == 4
    with pytest.raises(UserError, match="--num_attention_heads is for checkpoints of the auth"):
        run(SMALL, "tf1", tmp_path / "more", **more)
    # One folder a task, as a Hugging Face model has one head.
    assert (tmp_path / "there/sts/model.safetensors").exists()
    assert (tmp_path / "there/chunk/vocab.txt").read_text().splitlines() == tokens


@pytest.mark.parametrize("target", ["huggingface", "kerashub"])
def test_other_programs_get_tokens_without_whitespace(tmp_path, target):
    source = tmp_path / "source"
    shutil.copytree(SMALL / "discriminator", source)
    tokens = (source / "vocab.txt").read_text().splitlines()
    (source / "vocab.txt").write_bytes("".join(f"{token} \r\n" for token in tokens).encode())
    run(source, target, tmp_path / "there")
    (written,) = (tmp_path / "there").rglob("vocab*.txt")
    assert written.read_bytes() == "".join(f"{token}\n" for token in tokens).encode()


def authors_model(folder: pathlib.Path) -> pathlib.Path:
    """Writes a checkpoint of the authors' code; returns its folder."""
    run(SMALL, "tf1", folder)
    (folder / "electra_tf.json").unlink()  # theirs have none
    return folder


@pytest.mark.parametrize("target", ["electra_tf", "huggingface", "tf1"])
def test_case_and_accents_of_the_authors_checkpoints_are_given(tmp_path, target):
    source = authors_model(tmp_path / "theirs")
    more = {"num_attention_heads": 4}
    lines = run(source, target, tmp_path / "assumed", **more)
    assert "Text:   lowercased, accents are stripped" in lines
    lines = run(source, target, tmp_path / "cased", **more, do_lower_case=False)
    assert "Text:   case and accents are kept" in lines
    assert read(tmp_path / "cased", target).description.do_lower_case is False
    lines = run(source, target, tmp_path / "accents", **more, strip_accents=False)
    assert "Text:   lowercased, accents are kept" in lines
    description = read(tmp_path / "accents", target).description
    assert (description.do_lower_case, description.strip_accents) == (True, False)
    # Once recorded, it cannot be said otherwise.
    with pytest.raises(UserError, match=r"--strip_accents is true, but .* records that it"):
        run(tmp_path / "accents", "tf1", tmp_path / "more", strip_accents=True)


def test_a_cased_vocabulary_of_unknown_casing_is_warned_of(tmp_path, capsys):
    """Also that of a pair, which is in its folders."""
    pair = tmp_path / "pair"
    shutil.copytree(SMALL, pair)
    for folder in (pair / "discriminator", pair / "generator"):
        (folder / "tokenizer_config.json").unlink()
        vocabulary = (folder / "vocab.txt").read_text()
        (folder / "vocab.txt").write_text(vocabulary.replace("w", "W"))
    run(pair, "tf1", tmp_path / "ours")
    said = capsys.readouterr().err
    assert f"entries of {pair}/discriminator/vocab.txt have capitals" in said
    assert "pass --do_lower_case=false if the vocabulary is cased" in said
    run(pair, "tf1", tmp_path / "cased", do_lower_case=False)
    assert "capitals" not in capsys.readouterr().err


def test_stripped_accents_of_cased_text_are_warned_of(tmp_path, capsys):
    source = authors_model(tmp_path / "theirs")
    more = {"num_attention_heads": 4, "do_lower_case": False}
    run(source, "tf1", tmp_path / "cased", **more)
    assert "--strip_accents" not in capsys.readouterr().err
    run(source, "tf1", tmp_path / "stripped", **more, strip_accents=True)
    assert "--strip_accents has no effect with" in capsys.readouterr().err


def test_a_converted_checkpoint_describes_its_tokenizer(tmp_path):
    source = authors_model(tmp_path / "theirs")
    more = {"num_attention_heads": 4, "strip_accents": False}
    run(source, "electra_tf", tmp_path / "ours", **more)
    described = load_tokenizer_description(tmp_path / "ours" / "vocab.txt")
    assert (described.do_lower_case, described.strip_accents) == (True, False)
    # It is found beside a vocabulary, too.
    more = {"num_attention_heads": 4, "vocab_file": str(tmp_path / "ours" / "vocab.txt")}
    lines = run(source, "huggingface", tmp_path / "huggingface", **more)
    assert "Text:   lowercased, accents are kept" in lines
    with pytest.raises(UserError, match=r"--do_lower_case is false, but .*\.tokenizer"):
        run(source, "tf1", tmp_path / "there", **more, do_lower_case=False)
    more = {"vocab_file": str(tmp_path / "ours" / "vocab.txt")}
    with pytest.raises(UserError, match=r"do_lower_case of --from is false, but .*tokenizer"):
        run(SMALL, "tf1", tmp_path / "there", **more)
    assert not (tmp_path / "there").exists()


@pytest.mark.parametrize("generator_hidden_size", [0.5, 1.0])
def test_an_objective_that_nothing_tells_is_refused(tmp_path, tiny_data, generator_hidden_size):
    """A generator as wide as the model would become the head of a masked language model."""
    overrides = {"num_attention_heads": 1, "intermediate_size": 64}
    write_model(
        tmp_path / "model",
        tiny_data,
        objective="replace_mlm",
        generator_hidden_size=generator_hidden_size,
        model_hparam_overrides=overrides,
    )
    run(tmp_path / "model", "tf1", tmp_path / "tf1")
    run(tmp_path / "tf1", "electra_tf", tmp_path / "ours")
    (tmp_path / "tf1" / "electra_tf.json").unlink()
    with pytest.raises(UserError, match=r"Restore electra_tf\.json beside the checkpoint"):
        run(tmp_path / "tf1", "electra_tf", tmp_path / "there", num_attention_heads=1)


def test_an_encoder_that_is_not_whole_is_refused(tmp_path):
    source = tmp_path / "source"
    shutil.copytree(SMALL / "discriminator", source)
    tensors = safetensors.numpy.load_file(source / "model.safetensors")
    del tensors["electra.encoder.layer.1.output.dense.bias"]
    safetensors.numpy.save_file(tensors, source / "model.safetensors")
    with pytest.raises(UserError, match="lacks 1 variables of the model:\n  electra/encoder/"):
        run(source, "tf1", tmp_path / "there")
    assert not (tmp_path / "there").exists()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_numbers_that_are_not_finite_are_warned_of(tmp_path, dtype, capsys):
    source = tmp_path / "source"
    shutil.copytree(SMALL / "discriminator", source)
    tensors = safetensors.numpy.load_file(source / "model.safetensors")
    name = "electra.encoder.layer.1.output.dense.bias"
    tensors[name] = np.array([np.nan, *tensors[name][1:]], tensors[name].dtype).astype(dtype)
    safetensors.numpy.save_file(tensors, source / "model.safetensors")
    run(source, "tf1", tmp_path / "there")
    warned = capsys.readouterr().err
    assert (
        f"warning: {source} has numbers that are not finite (NaN or infinity) in 1 of" in warned
    )
    assert "such as electra/encoder/layer_1/output/dense/bias:" in warned
    run(SMALL / "discriminator", "tf1", tmp_path / "whole")
    assert "finite" not in capsys.readouterr().err


def test_arrays_that_are_no_numbers_are_converted_or_left_out(tmp_path):
    run(SMALL, "tf1", tmp_path / "whole")
    checkpoint = read(tmp_path / "whole", "tf1")
    state = np.array([b"position"], object)
    more = dataclasses.replace(checkpoint, arrays={**checkpoint.arrays, "reader": state})
    format_of("tf1").write(more, str(tmp_path / "more"))
    run(tmp_path / "more", "tf1", tmp_path / "again")
    assert read(tmp_path / "again", "tf1").arrays["reader"].tolist() == [b"position"]
    assert "No counterpart: reader" in run(tmp_path / "more", "electra_tf", tmp_path / "ours")


def test_a_head_that_is_not_whole_is_refused(tmp_path):
    run(SMALL / "discriminator", "tf1", tmp_path / "tf1")
    checkpoint = read(tmp_path / "tf1", "tf1")
    kernel = {"task_specific/cola/dense/kernel": np.zeros((16, 2), np.float32)}
    half = dataclasses.replace(checkpoint, arrays={**checkpoint.arrays, **kernel})
    format_of("tf1").write(half, str(tmp_path / "half"))
    (tmp_path / "half/electra_tf.json").unlink()  # the authors' code writes none
    for target in ("electra_tf", "huggingface"):
        with pytest.raises(UserError, match=r"cola has dense/kernel, but .* have dense/bias"):
            run(tmp_path / "half", target, tmp_path / target, num_attention_heads=4)


def test_a_label_of_several_outputs_is_warned_of(tmp_path, capsys):
    source = tmp_path / "source"
    shutil.copytree(HUGGINGFACE_DATA / "token_classification", source)
    config = read_json(source / "config.json")
    labels = dict.fromkeys(config["id2label"], "good")
    write_atomically(source / "config.json", to_json({**config, "id2label": labels}))
    run(source, "electra_tf", tmp_path / "there")
    assert "has several outputs of the label 'good'" in capsys.readouterr().err


def test_what_is_no_checkpoint(tmp_path):
    with pytest.raises(UserError, match="contains no checkpoint"):
        find_format(str(tmp_path), "--from")
    with pytest.raises(UserError, match=r"no such checkpoint: .*/x \(neither .*/x\.index"):
        find_format(str(tmp_path / "x"), "--from")


@pytest.mark.parametrize("name", ["model.ckpt.data-00000-of-00001", "model.ckpt.meta"])
def test_another_file_of_a_checkpoint_hints_at_it(tmp_path, name):
    for source in (TF1_DATA / "finetuning/heads/multi").glob("model.ckpt*"):
        shutil.copy(source, tmp_path)
    (tmp_path / name).touch()
    with pytest.raises(
        UserError, match=rf"no such checkpoint: .*: pass {tmp_path}/model\.ckpt$"
    ):
        find_format(str(tmp_path / name), "--from")
    (tmp_path / "checkpoint").touch()
    with pytest.raises(
        UserError, match=f"no such checkpoint: .*: pass the folder, {tmp_path}$"
    ):
        find_format(str(tmp_path / "checkpoint"), "--from")


def test_a_folder_of_models_hints_at_them(tmp_path):
    for name in ("sst", "mnli"):
        shutil.copytree(SMALL / "discriminator", tmp_path / name)
    (tmp_path / "other").mkdir()
    hint = f"Its subfolders do: pass one of {tmp_path}/mnli, {tmp_path}/sst$"
    with pytest.raises(UserError, match=hint):
        find_format(str(tmp_path), "--from")


def test_a_name_is_that_of_a_model_of_ours(tmp_path):
    model = tmp_path / "models" / "mine"
    model.mkdir(parents=True)
    assert resolve_checkpoint("mine", str(tmp_path)) == str(model)
    assert resolve_checkpoint(str(SMALL), str(tmp_path)) == str(SMALL)
    assert resolve_checkpoint("absent", str(tmp_path)) == "absent"


@pytest.mark.parametrize("target", ["huggingface", "kerashub"])
def test_settings_of_a_tokenizer_that_are_not_recorded_are_not_told(tmp_path, target):
    run(SMALL / "discriminator", target, tmp_path)
    for path in tmp_path.glob("tokenizer*.json"):
        path.unlink()
    settings = saved_hyperparameters(str(tmp_path))
    assert "vocab_file" in settings
    assert not {"do_lower_case", "strip_accents"} & settings.keys()


def test_settings_are_known_without_weights(tmp_path):
    for name in ("config.json", "vocab.txt", "tokenizer_config.json"):
        shutil.copy(SMALL / "discriminator" / name, tmp_path)
    settings = saved_hyperparameters(str(tmp_path))
    assert settings["embedding_size"] == 8
    assert settings["model_hparam_overrides"]["num_hidden_layers"] == 2
    assert settings["do_lower_case"] is False
    assert settings["vocab_file"] == str(tmp_path / "vocab.txt")
    run(SMALL, "kerashub", tmp_path / "kerashub")
    settings = saved_hyperparameters(str(tmp_path / "kerashub"))
    assert settings["vocab_size"] == 48
    assert pathlib.Path(settings["vocab_file"]).name == "vocabulary.txt"


class ArchiveFormat(CheckpointFormat):
    """Stands for a format of its own: a NumPy archive that describes its encoder."""

    name = "archive"

    def recognizes(self, path: str) -> bool:
        return os.path.exists(os.path.join(path, "arrays.npz"))

    def read(self, path: str) -> ModelCheckpoint:
        encoder = EncoderConfig(**read_json(os.path.join(path, "encoder.json")))
        description = ModelDescription(encoder=encoder, do_lower_case=False)
        return ModelCheckpoint(
            description=description, arrays=dict(np.load(os.path.join(path, "arrays.npz")))
        )

    def write(self, checkpoint: ModelCheckpoint, directory: str) -> list[str]:
        os.makedirs(directory)
        np.savez(os.path.join(directory, "arrays.npz"), **checkpoint.part("electra/"))
        content = to_json(dataclasses.asdict(checkpoint.description.encoder))
        write_atomically(os.path.join(directory, "encoder.json"), content)
        return ["everything but the encoder"]

    def settings(self, path: str, *, needs_vocabulary: bool = True) -> dict[str, Any] | None:
        return self.read(path).description.model_settings() if self.recognizes(path) else None


def test_a_new_format_is_a_class_and_an_entry(tmp_path, monkeypatch):
    monkeypatch.setattr(formats, "FORMATS", (*formats.FORMATS, ArchiveFormat))
    assert format_names() == ("electra_tf", "huggingface", "kerashub", "tf1", "archive")
    folder = tmp_path / "archive"
    lines = run(SMALL, "archive", folder)
    assert "No counterpart: everything but the encoder" in lines
    # It is found by its files, describes itself, and is read.
    assert find_format(str(folder), "--from").name == "archive"
    assert saved_hyperparameters(str(folder))["embedding_size"] == 8
    vocab_file = str(SMALL / "discriminator" / "vocab.txt")
    lines = run(folder, "electra_tf", tmp_path / "ours", vocab_file=vocab_file)
    assert lines[0] == f"From:   {folder} (archive)"
    ours, before = read(tmp_path / "ours", "electra_tf"), read(SMALL, "huggingface")
    assert_same_arrays(dict(ours.arrays), before.part("electra/"))
    assert not ours.description.do_lower_case
    config = pretraining_config(
        data_dir=str(tmp_path),
        model_name="m",
        init_checkpoint=str(folder),
        vocab_file=vocab_file,
        max_seq_length=16,
    )
    assert config.model_hparam_overrides["hidden_size"] == 16


@pytest.mark.parametrize("target", format_names())
@pytest.mark.parametrize("earlier", [*format_names(), "huggingface pair"])
def test_a_folder_of_another_conversion_is_never_read_instead(tmp_path, earlier, target):
    pair = earlier == "huggingface pair"
    source = SMALL if pair else HUGGINGFACE_DATA / "base/discriminator"
    run(source, earlier.split()[0], tmp_path / "there")
    files = {path: path.read_bytes() for path in (tmp_path / "there").rglob("*.*")}
    refusal = ""
    try:
        run(SMALL / "discriminator", target, tmp_path / "there", overwrite=True)
    except UserError as error:
        refusal = str(error)
    if refusal:
        assert earlier != target
        assert "would be read instead of the new ones" in refusal
        assert files == {path: path.read_bytes() for path in files}
    else:
        ours = read(tmp_path / "there", target)
        assert ours.description.encoder.hidden_size == 16
        assert not ours.has_masked_lm


def test_the_tokenizer_of_another_model_is_not_left_beside_a_vocabulary(tmp_path):
    run(SMALL, "huggingface", tmp_path)
    run(SMALL, "huggingface", tmp_path, overwrite=True)
    (tmp_path / "discriminator/tokenizer.json").write_text("{}")
    before = (tmp_path / "generator/config.json").stat().st_mtime_ns
    with pytest.raises(
        UserError, match=r"another model.* new ones: .*tor/tokenizer\.json\. Del"
    ):
        run(SMALL, "huggingface", tmp_path, overwrite=True)
    assert (tmp_path / "generator/config.json").stat().st_mtime_ns == before
