"""Flags of score_text.py."""

import pathlib

import pytest
from absl import flags as absl_flags

from electra_tf.inference.scoring.config import ScoringConfig
from electra_tf.util.console import warn_once
from electra_tf.util.errors import UserError
from flags import scoring
from flags.command_line import parsing


def parse(*arguments: str) -> ScoringConfig:
    flag_values = absl_flags.FlagValues()
    scoring.define_flags(flag_values)
    parsing.parse(["program", "--data-dir=d", "--model-name=m", *arguments], None, flag_values)
    return scoring.config_from_flags(flag_values)


def test_defaults_and_values():
    config = parse("--text_file=t", "--output_file=o")
    assert (config.text_file, config.output_file) == (pathlib.Path("t"), pathlib.Path("o"))
    assert (config.nbest_file, config.method, config.batch_size) == (None, "auto", 64)
    config = parse(
        "--nbest-file=n",
        "--tune-nbest-file=u",
        "--output-file=o",
        "--nbest-weight=0.5",
        "--nbest-metric=cer",
        "--method=mlm",
        "--score-batch-size=3",
        "--truncate-texts",
    )
    assert (config.nbest_weight, config.nbest_metric, config.truncate) == (0.5, "cer", True)


def test_the_home_folder_of_paths(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    hparams = '{"data_dir": "~/d", "model_name": "m", "vocab_file": "a~/v"}'
    config = parse("--text_file=t", "--output_file=~/o", "--model_dir=~/m")
    assert config.output_file == tmp_path / "o"
    assert config.model.model_dir == f"{tmp_path}/m"
    config = parse("--text_file=t", "--output_file=o", "--data_dir=~/x", f"--hparams={hparams}")
    assert config.model.data_dir == f"{tmp_path}/x"
    assert config.model.vocab_file == "a~/v"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--text_file=t"], "--output_file is required"),
        (["--output_file=o"], "one of --text_file and --nbest_file"),
        (["--output_file=o", "--text_file=t", "--nbest_file=n"], "one of --text_file"),
        (["--output_file=o", "--text_file=t", "--tune_nbest_file=n"], "--tune_nbest_file"),
        (["--output_file=o", "--nbest_file=n", "--tune_nbest_file="], "is empty: pass a path"),
        (["--output_file=o", "--text_file=t", "--method=gpt"], "--method"),
        (
            ["--output_file=o", "--text_file=t", "--strategy=multi_worker"],
            "score_text.py runs on one host: remove --strategy",
        ),
        (["--output_file=o", "--nbest_file=n", "--nbest_weight=nan"], "--nbest_weight must be"),
        (["--output_file=o", "--nbest_file=n", "--nbest_weight=-1"], "--nbest_weight must be"),
        (["--output_file=o", "--nbest_file=n", "--predict_tokens"], "needs --text_file"),
        (["--output_file=o", "--text_file=t", "--num_candidates=0"], "--num_candidates"),
    ],
)
def test_refusals(arguments, message):
    with pytest.raises(UserError, match=message):
        parse(*arguments)


def test_settings_of_lists_without_lists_are_warned_of(capsys):
    parse("--text_file=t", "--output_file=o", "--nbest_weight=2", "--nbest_metric=cer")
    warned = capsys.readouterr().err
    assert "--nbest_weight=2.0 has no effect without --nbest_file" in warned
    assert "--nbest_metric=cer has no effect without --nbest_file" in warned


def test_candidates_are_those_of_electras_predictions(capsys):
    texts = ("--text_file=t", "--output_file=o")
    assert parse(*texts, "--method=electra").num_candidates == 0
    given = ("--method=electra", "--predict_tokens")
    assert parse(*texts, *given).num_candidates == 100
    assert parse(*texts, *given, "--num_candidates=3").num_candidates == 3
    assert capsys.readouterr().err == ""
    for others in (("--method=electra",), ("--method=mlm", "--predict_tokens")):
        warn_once.cache_clear()
        parse(*texts, *others, "--num_candidates=3")
        assert "--num_candidates=3 has no effect without" in capsys.readouterr().err


def test_a_weight_that_tuning_replaces_is_warned_of(capsys):
    tuned = ("--nbest_file=n", "--tune_nbest_file=t", "--output_file=o")
    parse(*tuned)
    assert capsys.readouterr().err == ""
    parse(*tuned, "--nbest_weight=0.25")
    assert "--nbest_weight=0.25 has no effect with --tune_nbest_file" in capsys.readouterr().err
