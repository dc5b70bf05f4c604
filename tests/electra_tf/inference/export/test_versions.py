"""Versions are written whole, once."""

import dataclasses
import os
import pathlib
from collections.abc import Callable

import numpy as np
import pytest
import tensorflow as tf
from absl import flags as absl_flags

from electra_tf.inference.export.config import FORMATS, ExportConfig
from electra_tf.inference.export.pretrained import PRETRAINED
from electra_tf.inference.export.run import (
    _warn_of_versions,
    export,
    load_servable,
    new_version,
    version_to_write,
)
from electra_tf.inference.export.servable import Servable
from electra_tf.text.text_inputs import EncoderInputs
from electra_tf.training.distribution import bfloat16
from electra_tf.util.console import warn_once
from electra_tf.util.errors import UserError
from finetune.export import FINETUNED
from flags import export as flags_of_export
from flags.command_line import parsing
from tests.finetune.conftest import write_model


def test_the_next_free_version_is_taken(tmp_path):
    assert version_to_write(tmp_path / "new", None) == 1
    for name in ("1", "7", "writing-9-1", "notes"):
        (tmp_path / name).mkdir()
    assert version_to_write(tmp_path, None) == 8
    assert version_to_write(tmp_path, 3) == 3


def test_no_version_is_overwritten(tmp_path):
    (tmp_path / "1").mkdir()
    with pytest.raises(UserError, match=r"--version=1.*the next free one, 2"):
        version_to_write(tmp_path, 1)
    (tmp_path / "file").write_text("")
    for export_dir in (tmp_path / "file", tmp_path / "file" / "x" / "y"):
        expected = f"^--export_dir={export_dir}: {tmp_path / 'file'} is a file, not a folder"
        with pytest.raises(UserError, match=expected):
            version_to_write(export_dir, None)


def write_file(export_dir, during: Callable[[], None]) -> None:
    with new_version(export_dir, 1) as folder:
        (folder / "ours").write_text("")
        during()


def test_a_version_that_appears_meanwhile_is_kept(tmp_path):
    def appear() -> None:
        (tmp_path / "1").mkdir()
        (tmp_path / "1" / "theirs").write_text("")

    with pytest.raises(
        UserError, match=r"1 cannot be created: another program .*; export again$"
    ):
        write_file(tmp_path, appear)
    assert [path.name for path in (tmp_path / "1").iterdir()] == ["theirs"]
    assert [path.name for path in tmp_path.iterdir()] == ["1"]


def test_a_failed_export_leaves_nothing(tmp_path):
    full = tf.errors.ResourceExhaustedError(None, None, "No space left on device")
    for error, raised, message in (
        (KeyError("x"), KeyError, "x"),
        (full, UserError, f"^--export_dir={tmp_path} cannot be written: No space left"),
        (OSError(28, "No space left"), OSError, f"No space left: '{tmp_path}'"),
        (OSError("not a model"), OSError, "^not a model$"),
    ):

        def fail(error=error) -> None:
            raise error

        with pytest.raises(raised, match=message):
            write_file(tmp_path, fail)
        assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="needs Linux's /proc")
def test_a_folder_that_cannot_be_written_is_refused_before_the_model_is_loaded(pretrained_dir):
    said: list[str] = []
    config = ExportConfig(model_dir=pretrained_dir, export_dir=pathlib.Path("/proc/x/y"))
    with pytest.raises(UserError, match=r"^--export_dir=/proc/x/y cannot be written: /proc: "):
        export(config, [PRETRAINED], said.append)
    assert said == []


def test_the_precision_of_an_export_is_that_of_its_flag(pretrained_dir, tmp_path):
    inputs = EncoderInputs(*(tf.constant([row]) for row in ([2, 9, 3], [1, 1, 1], [0, 0, 0])))
    found, said = [], []
    for precision in ("float32", "mixed_bfloat16"):
        config = ExportConfig(
            model_dir=pretrained_dir, export_dir=tmp_path, precision=precision
        )
        servable = load_servable(config, [PRETRAINED], said.append)
        found.append(servable.predict(inputs)["replaced_probability"].numpy())
    assert 0 < np.abs(found[1] - found[0]).max() < 0.02
    assert said[-1].endswith("mixed_bfloat16")


def test_only_a_saved_model_has_the_precision_of_training(
    tiny_data, tmp_path, monkeypatch, capsys
):
    (tmp_path / "cpuinfo").write_text("flags\t\t: fpu avx512f\n")
    monkeypatch.setattr(bfloat16, "_CPU_INFO", tmp_path / "cpuinfo")
    model = tmp_path / "models" / "m"
    write_model(model, tiny_data, precision="mixed_bfloat16")
    said = []
    for name in FORMATS:
        config = ExportConfig(model_dir=str(model), export_dir=tmp_path, format=name)
        warn_once.cache_clear()
        load_servable(config, [PRETRAINED], said.append)
        warning = capsys.readouterr().err
        assert ("no instructions for bfloat16" in warning) == (name == "saved_model")
    assert [line.rpartition(", ")[2] for line in said] == [
        "mixed_bfloat16" if name == "saved_model" else "float32" for name in FORMATS
    ]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"component": "discriminater"}, "Did you mean 'discriminator'"),
        ({"max_seq_length": 17}, "exceeds the model's 16 position embeddings"),
        ({"model_dir": "nowhere"}, "--model_dir=nowhere contains no config.json"),
    ],
)
def test_bad_input_is_refused_before_anything_is_written(
    pretrained_dir, tmp_path, given, message
):
    config = {"model_dir": pretrained_dir, "export_dir": tmp_path / "x", **given}
    with pytest.raises(UserError, match=message):
        export(ExportConfig(**config), [PRETRAINED], lambda line: None)
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"version": 0}, "--version must be at least 1"),
        ({"max_seq_length": 3}, "--max_seq_length must be at least 8"),
        ({"format": "pickle"}, "--format must be one of"),
        ({"format": "litert", "precision": "mixed_bfloat16"}, "only --precision=float32"),
    ],
)
def test_values_that_cannot_be(tmp_path, given, message):
    with pytest.raises(UserError, match=message):
        ExportConfig(model_dir="m", export_dir=tmp_path, **given)


def test_folders_may_be_strings_or_paths(tmp_path):
    config = ExportConfig(model_dir=tmp_path / "m", export_dir=str(tmp_path / "x"))
    assert config.model_dir == str(tmp_path / "m")
    assert config.export_dir == tmp_path / "x"


def write_size(servable: Servable, directory: pathlib.Path, model_name: str) -> None:
    """Stands for a format of its own."""
    text = f"{model_name}: {servable.vocabulary.size} tokens"
    (directory / "size.txt").write_text(text)


def test_a_new_format_is_a_function_and_a_line(
    pretrained_dir, tiny_data, tmp_path, monkeypatch, capsys
):
    monkeypatch.setitem(FORMATS, "size", f"{__name__}:write_size")
    flag_values = absl_flags.FlagValues()
    flags_of_export.define_flags(flag_values)
    folder = tmp_path / "served"
    given = [f"--model_dir={pretrained_dir}", f"--export_dir={folder}", "--format=size"]
    parsing.parse(["program", *given], flag_values=flag_values)
    config = flags_of_export.config_from_flags(flag_values)
    lines: list[str] = []
    assert export(config, [PRETRAINED], lines.append) == folder / "1"
    count = len((tiny_data / "vocab.txt").read_text().splitlines())
    assert (folder / "1" / "size.txt").read_text() == f"served: {count} tokens"
    assert lines[-1].startswith(f"Written: {folder / '1' / 'size.txt'}")
    # A server looks for the highest version, and for a SavedModel.
    assert "warning" not in capsys.readouterr().err
    (folder / "8").mkdir()
    (folder / "8" / "saved_model.pb").write_text("")
    export(dataclasses.replace(config, version=2, top_k=4), [PRETRAINED], lines.append)
    warnings = capsys.readouterr().err
    assert f"{folder} has the version 8: servers load the highest one" in warnings
    assert f"{folder} has SavedModels and versions of other formats" in warnings
    assert "--top_k=4 has no effect without --component=generator" in warnings


def test_versions_whose_content_is_elsewhere_are_not_called_of_another_format(tmp_path, capsys):
    """Those of a remote folder, of which the names alone are here."""
    for version in ("1", "2"):
        (tmp_path / version).mkdir()
    (tmp_path / "2" / "saved_model.pb").write_text("")
    _warn_of_versions(tmp_path, 2)
    assert capsys.readouterr().err == ""


def test_a_model_that_no_loader_knows_is_refused(pretrained_dir, tmp_path):
    config = ExportConfig(model_dir=pretrained_dir, export_dir=tmp_path / "x")
    with pytest.raises(UserError, match="does not describe an exportable model"):
        export(config, [FINETUNED], lambda line: None)
