"""Flags of the page."""

import pathlib
import subprocess
import sys

import pytest
from absl import flags as absl_flags

from electra_tf.util.errors import UserError
from flags import web_demo
from flags.command_line import parsing

ROOT = pathlib.Path(__file__).parents[2]


def parse(*arguments: str):
    flag_values = absl_flags.FlagValues()
    web_demo.define_flags(flag_values)
    parsing.parse(["program", *arguments], flag_values=flag_values)
    return web_demo.config_from_flags(flag_values)


def test_flags_become_the_configuration(tmp_path):
    config = parse(f"--tasks={tmp_path}/a,{tmp_path}/b,", "--port=0", "--max-characters", "7")
    assert config.tasks == {"a": tmp_path / "a", "b": tmp_path / "b"}
    assert (config.host, config.port, config.max_characters) == ("127.0.0.1", 0, 7)
    assert config.discriminator is None


def test_tasks_need_names_of_their_own():
    with pytest.raises(UserError, match="different names"):
        parse("--tasks=x/a,y/a")


def test_a_folder_with_a_comma_is_quoted(tmp_path):
    folder = tmp_path / "a,b"
    folder.mkdir()
    quoted = f'"{folder}"'
    with pytest.raises(UserError, match="commas separate folders; to pass this one") as error:
        parse(f"--tasks={folder}")
    assert quoted in str(error.value)
    assert parse(f"--tasks={quoted}").tasks == {"a,b": folder}


def test_empty_paths_are_refused():
    with pytest.raises(UserError, match="--discriminator is empty: pass a path"):
        parse("--tasks=a", "--discriminator=")


def test_help_does_not_wait_for_tensorflow():
    helped = subprocess.run(
        [sys.executable, "-X", "importtime", "serve_demo.py", "--help"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert helped.returncode == 0
    assert "--discriminator" in helped.stdout
    assert "| tensorflow" not in helped.stderr


def test_without_flask_the_extra_is_named():
    """The message comes before TensorFlow is loaded."""
    code = """
import sys
sys.modules["flask"] = sys.modules["tensorflow"] = None
sys.argv = ["serve_demo.py", "--tasks=exported/router"]
from flags import programs
programs.serve_demo()
"""
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert result.returncode == 1
    message = "The page needs flask, which is not installed: pip install 'electra-tf[demo]'"
    assert result.stderr == f"error: {message}\n"
