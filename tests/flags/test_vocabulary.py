"""Tests of the flags of the vocabulary's training."""

import pathlib
import subprocess
import sys

import pytest
from absl import flags as absl_flags

from electra_tf.util.console import warn_once
from electra_tf.util.errors import UserError
from flags import corpus, vocabulary
from flags.command_line import parsing

ROOT = pathlib.Path(__file__).parents[2]
REQUIRED = ["program", "--corpus-dir", "text", "--output-file", "v.txt", "--vocab-size", "100"]


def parse(*arguments: str):
    flag_values = absl_flags.FlagValues()
    vocabulary.define_flags(flag_values)
    assert parsing.parse([*REQUIRED, *arguments], corpus.ALIASES, flag_values) == ["program"]
    return vocabulary.config_from_flags(flag_values)


def test_defaults():
    config = parse()
    assert (config.corpus_dir, config.output_file, config.vocab_size) == (
        pathlib.Path("text"),
        pathlib.Path("v.txt"),
        100,
    )
    assert (config.do_lower_case, config.strip_accents, config.overwrite) == (True, True, False)


def test_inputs_of_the_report_are_separated_by_commas():
    config = parse("--report", "a.txt, b/*.gz", "--compare_with", "other.txt")
    assert config.report == ("a.txt", "b/*.gz")
    assert config.compare_with == pathlib.Path("other.txt")
    assert parse("--num_processes=3").num_processes == 3


def test_stripped_accents_of_cased_text_are_warned_of(capsys):
    warn_once.cache_clear()
    parse("--no-lower-case")
    parse("--do-strip-accents")
    assert not capsys.readouterr().err
    parse("--no-lower-case", "--do-strip-accents")
    assert "--do-strip-accents has no effect with --do_lower_case=" in capsys.readouterr().err


def test_negations_are_those_of_the_records():
    config = parse("--no-lower-case", "--no-strip-accents", "--overwrite")
    assert (config.do_lower_case, config.strip_accents, config.overwrite) == (
        False,
        False,
        True,
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--vocab-size", "31"],
            "vocab_size=31: 31 is not integer >= 32",
        ),
        (["--compare_with", "other.txt"], "--compare_with needs --report"),
        (["--report=", "--compare_with", "other.txt"], "--report is empty: pass a path"),
        (["--report=,", "--compare_with", "other.txt"], "--report names no file"),
        (["--character_coverage=nan"], "--character_coverage must be from 0.5 to 1, not nan"),
        (["--output-file="], "--output-file is empty: pass a path"),
        (["--vocab-sice", "64"], "Unknown flag --vocab_sice. Did you mean 'vocab_size'?"),
    ],
)
def test_wrong_values_are_refused(arguments, message):
    with pytest.raises(UserError) as error:
        parse(*arguments)
    assert message in str(error.value)


def test_help_does_not_wait_for_tensorflow():
    helped = subprocess.run(
        [sys.executable, "-X", "importtime", "build_vocabulary.py", "--help"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert helped.returncode == 0
    assert "--vocab_size" in helped.stdout
    assert "| tensorflow" not in helped.stderr
