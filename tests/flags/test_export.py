"""Flags of the export."""

import pathlib
import subprocess
import sys

import pytest
from absl import flags as absl_flags

from electra_tf.inference.export.config import ExportConfig
from electra_tf.util.errors import UserError
from flags import export
from flags.command_line import parsing

ROOT = pathlib.Path(__file__).parents[2]


def parse(*arguments: str) -> ExportConfig:
    flag_values = absl_flags.FlagValues()
    export.define_flags(flag_values)
    parsing.parse(["program", *arguments], flag_values=flag_values)
    return export.config_from_flags(flag_values)


def test_flags_become_the_configuration(tmp_path):
    given = ("--model-dir", "m", "--export-dir", str(tmp_path))
    assert parse(*given) == ExportConfig(model_dir="m", export_dir=tmp_path)
    config = parse(*given, "--component=generator", "--version=3", "--top_k=2")
    assert (config.component, config.version, config.top_k) == ("generator", 3, 2)


def test_wrong_flags():
    with pytest.raises(UserError, match="Did you mean 'export_dir'"):
        parse("--model_dir=m", "--export_dirr=x")
    with pytest.raises(UserError, match="format"):
        parse("--model_dir=m", "--export_dir=x", "--format=pickle")


@pytest.mark.parametrize("name", ["model_dir", "export_dir"])
def test_an_empty_folder_is_not_the_current_one(name):
    given = {"model_dir": "m", "export_dir": "x", name: ""}
    with pytest.raises(UserError, match=f"^--{name} is empty: pass a folder"):
        parse(*(f"--{flag}={value}" for flag, value in given.items()))


def test_help_does_not_wait_for_tensorflow():
    helped = subprocess.run(
        [sys.executable, "-X", "importtime", "export_saved_model.py", "--help"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert helped.returncode == 0
    assert "--component" in helped.stdout
    assert "| tensorflow" not in helped.stderr
