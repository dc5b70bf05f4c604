"""Tests of the flags of `convert_checkpoint.py`."""

import pathlib
import re
import subprocess
import sys

import pytest
from absl import flags as absl_flags

from electra_tf.interop.formats import ConversionConfig
from electra_tf.util.errors import UserError
from flags import conversion
from flags.command_line import parsing

ROOT = pathlib.Path(__file__).parents[2]


def parse(*arguments: str) -> ConversionConfig:
    flag_values = absl_flags.FlagValues()
    conversion.define_flags(flag_values)
    required = ["x", "--from", "there", "--output", "here"]
    parsing.parse([*required, *arguments], None, flag_values)
    return conversion.config_from_flags(flag_values)


def test_flags():
    config = parse("--to-format", "tf1", "--from_format=huggingface", "--vocab-file", "v.txt")
    assert config == ConversionConfig(
        source="there",
        source_format="huggingface",
        target_format="tf1",
        output_dir="here",
        vocab_file="v.txt",
        overwrite=False,
    )
    config = parse("--to-format", "tf1", "--do_lower_case=false", "--nostrip_accents")
    assert (config.do_lower_case, config.strip_accents) == (False, False)


def test_a_format_that_is_not_known():
    with pytest.raises(UserError, match="electra_tf\\|huggingface\\|kerashub\\|tf1"):
        parse("--to_format=onnx")
    for name in ("from", "output", "vocab_file"):
        with pytest.raises(UserError, match=f"--{name} is empty: pass a path"):
            parse("--from=a", "--to_format=electra_tf", "--output=b", f"--{name}=")
    with pytest.raises(UserError, match="to_format"):
        parse()


def test_errors_come_quickly_and_without_a_traceback(tmp_path):
    command = [sys.executable, "-X", "importtime", "convert_checkpoint.py", "--help"]
    helped = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert "--to_format" in helped.stdout
    assert not re.search(r"\|\s+(tensorflow|keras)", helped.stderr)
    arguments = ["--from", str(tmp_path), "--to_format=tf1", "--output", str(tmp_path / "o")]
    result = subprocess.run(
        [sys.executable, "convert_checkpoint.py", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert result.returncode == 1
    assert result.stderr.startswith(
        f"error: --from: the folder {tmp_path} contains no checkpoint"
    )
