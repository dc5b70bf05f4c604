"""Tests of the flags of the corpus builders: the authors' spellings among them."""

import pathlib

import pytest
from absl import flags as absl_flags

from electra_tf.util.errors import UserError
from flags import corpus
from flags.command_line import parsing

REQUIRED = ["program", "--corpus-dir", "text", "--vocab-file", "v.txt", "--output-dir", "out"]


def parse(*arguments: str):
    flag_values = absl_flags.FlagValues()
    corpus.define_corpus_flags(flag_values)
    rest = parsing.parse([*REQUIRED, *arguments], corpus.ALIASES, flag_values)
    assert rest == ["program"]
    return corpus.corpus_build_config(flag_values)


def test_defaults_are_the_authors():
    config = parse()
    assert (config.corpus_dir, config.vocab_file) == (
        pathlib.Path("text"),
        pathlib.Path("v.txt"),
    )
    assert config.output_dir == pathlib.Path("out")
    assert (config.max_seq_length, config.num_processes) == (128, 1)
    assert config.blanks_separate_docs
    # As the vocabulary's description says.
    assert config.do_lower_case is None
    assert config.strip_accents is None
    assert not config.overwrite
    assert not config.is_openwebtext


@pytest.mark.parametrize(
    "arguments",
    [
        ["--blanks-separate-docs", "False"],
        ["--blanks-separate-docs=false"],
        ["--blanks_separate_docs", "0"],
        ["--blanks-separate-docs", ""],
        ["--noblanks-separate-docs"],
    ],
)
def test_blanks_separate_docs_can_be_false(arguments):
    assert not parse(*arguments).blanks_separate_docs
    assert not parse(*arguments, "--max-seq-length", "64").blanks_separate_docs


def test_a_remote_corpus_dir_is_refused():
    message = "--corpus-dir: gs://bucket/x is on a remote file system"
    with pytest.raises(UserError, match=message):
        parse("--corpus-dir", "gs://bucket/x")
    config = parse("--vocab-file", "gs://bucket/x", "--output-dir", "gs://bucket/y/")
    assert (str(config.vocab_file), str(config.output_dir)) == (
        "gs://bucket/x",
        "gs://bucket/y",
    )


def test_negations_have_the_authors_names():
    config = parse("--no-lower-case", "--no-strip-accents")
    assert config.do_lower_case is False
    assert config.strip_accents is False
    assert parse("--do-lower-case", "--do-strip-accents").do_lower_case
    assert parse("--blanks-separate-docs", "--overwrite").overwrite


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--max-seq-length", "4"], "max_seq_length=4: 4 is not an integer in the range"),
        (["--num-processes", "0"], "num_processes=0"),
        (
            ["--pipeline_options=--a='b"],
            "--pipeline_options cannot be split into options: No closing quotation",
        ),
        (["--corpus-dir="], "--corpus-dir is empty: pass a path"),
        (["--output-dir="], "--output-dir is empty: pass a path"),
        (["--vocab-file="], "--vocab-file is empty: pass a path"),
        (["--max-seq-len", "64"], "Unknown flag --max_seq_len. Did you mean 'max_seq_length'?"),
    ],
)
def test_wrong_values_are_refused(arguments, message):
    with pytest.raises(UserError) as error:
        parse(*arguments)
    assert message in str(error.value)


def test_an_empty_data_directory_is_not_the_current_one():
    flag_values = absl_flags.FlagValues()
    corpus.define_openwebtext_flags(flag_values)
    parsing.parse(["program", "--data-dir="], corpus.ALIASES, flag_values)
    with pytest.raises(UserError, match="--data-dir is empty: pass a path"):
        corpus.openwebtext_build_config(flag_values)


def test_openwebtext_lies_below_the_data_directory():
    flag_values = absl_flags.FlagValues()
    corpus.define_openwebtext_flags(flag_values)
    arguments = ["program", "--data-dir", "data", "--num-processes", "5", "--no-lower-case"]
    parsing.parse(arguments, corpus.ALIASES, flag_values)
    config = corpus.openwebtext_build_config(flag_values)
    assert config.corpus_dir == pathlib.Path("data/openwebtext")
    assert config.vocab_file == pathlib.Path("data/vocab.txt")
    assert config.output_dir == pathlib.Path("data/pretrain_tfrecords")
    assert (config.num_processes, config.do_lower_case) == (5, False)
    assert config.is_openwebtext
    assert not config.blanks_separate_docs


def test_a_value_that_looks_like_flags_is_left_alone():
    arguments = ["--more-flags", "--learning-rate 5e-4", "--x-y=-1 -2"]
    assert parsing.normalize_arguments(arguments) == [
        "--more_flags",
        "--learning-rate 5e-4",
        "--x_y=-1 -2",
    ]


def test_the_corpus_is_one_of_two_flags():
    def text_settings(*arguments: str):
        flag_values = absl_flags.FlagValues()
        corpus.define_text_flags(flag_values)
        parsing.parse(["program", *arguments], corpus.ALIASES, flag_values)
        return corpus.text_settings(flag_values)

    settings = text_settings("--input", "a.jsonl, b/*.parquet", "--text-field=body")
    assert settings["corpus_dir"] is None
    assert settings["inputs"] == ("a.jsonl", "b/*.parquet")
    assert (settings["text_field"], settings["text_column"]) == ("body", "text")
    for arguments in ([], ["--input=a", "--corpus-dir=b"]):
        with pytest.raises(UserError, match="exactly one of --input and --corpus-dir"):
            text_settings(*arguments)


@pytest.mark.parametrize(
    ("arguments", "warning"),
    [
        (
            ["--input=a.jsonl", "--input", "b.jsonl"],
            "--input is given 2 times, but only the last value is used: a.jsonl is not read. "
            "To read all, separate them with commas: --input=a.jsonl,b.jsonl",
        ),
        (["--input", "a.jsonl", "--input=a.jsonl"], ""),
        (["--input=a.jsonl", "--seed=1", "--seed=2"], ""),
    ],
)
def test_files_of_a_flag_that_is_given_again_are_told(arguments, warning, capsys):
    flag_values = absl_flags.FlagValues()
    corpus.define_corpus_flags(flag_values)
    required = ["program", "--vocab-file=v.txt", "--output-dir=o"]
    parsing.parse([*required, *arguments], corpus.ALIASES, flag_values)
    assert capsys.readouterr().err == (f"warning: {warning}\n" if warning else "")
