"""Flags of show_replaced_tokens.py."""

import pytest
from absl import flags as absl_flags

from electra_tf.util.errors import UserError
from flags import replaced_tokens
from flags.command_line import parsing


def parse(*arguments: str) -> replaced_tokens.ShowConfig:
    flag_values = absl_flags.FlagValues()
    replaced_tokens.define_flags(flag_values)
    parsing.parse(["program", "--data-dir=d", "--model-name=m", *arguments], None, flag_values)
    return replaced_tokens.config_from_flags(flag_values)


def test_reads_the_lines_with_text(tmp_path):
    path = tmp_path / "text.txt"
    path.write_bytes(b"One line.\n\n  \nAnother caf\xc3\xa9.\n")
    config = parse("--text_file", str(path), "--color")
    assert config.sentences == ("One line.", "Another café.")
    assert config.color
    assert config.model.model_name == "m"
    # Test output is no terminal.
    assert not parse("--text_file", str(path)).color


def test_refuses_a_missing_or_empty_file(tmp_path):
    with pytest.raises(UserError, match=r"--text_file=.*none.txt: No such file"):
        parse("--text_file", str(tmp_path / "none.txt"))
    (tmp_path / "empty.txt").write_text("\n")
    with pytest.raises(UserError, match="contains no text"):
        parse("--text_file", str(tmp_path / "empty.txt"))
    (tmp_path / "latin1.txt").write_bytes(b"one\ncaf\xe9\n")
    with pytest.raises(UserError, match=r"latin1.txt: line 2 is not UTF-8 \(byte 0xe9\)"):
        parse("--text_file", str(tmp_path / "latin1.txt"))


def test_a_worker_does_not_wait_for_others():
    of_run = ("--strategy=multi_worker", "--workers=a:1,b:1", "--task_index=0")
    with pytest.raises(UserError, match=r"^show_replaced_tokens\.py runs on one host"):
        parse(*of_run)
