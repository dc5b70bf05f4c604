"""Flags of run_pretraining.py: the authors' spellings, precedence, refusals."""

import dataclasses
import json
import pathlib

import pytest
from absl import flags as absl_flags

from electra_tf.config.pretraining import PretrainingConfig
from electra_tf.text.tokenizer_description import (
    TokenizerDescription,
    hash_vocabulary,
    write_tokenizer_description,
)
from electra_tf.util.errors import UserError
from flags import pretraining
from flags.command_line import parsing
from pretrain_data.records.manifest import find_tokenizer, mark_unfinished, write_manifest
from tests.faults.build_writer import write_shards


def parse(*arguments: str) -> PretrainingConfig:
    flag_values = absl_flags.FlagValues()
    pretraining.define_flags(flag_values)
    parsing.parse(["program", *arguments], None, flag_values)
    return pretraining.config_from_flags(flag_values)


REQUIRED = ("--data-dir", "data", "--model-name", "small")


def test_the_authors_command():
    config = parse(
        *REQUIRED,
        "--hparams",
        '{"model_size": "base", "learning_rate": 2e-4, "use_tpu": false, "tpu_name": null, '
        '"model_hparam_overrides": {"num_hidden_layers": 6}, "num_train_steps": 766000.0}',
    )
    assert config.model_name == "small"
    assert config.model_size == "base"
    assert config.learning_rate == 2e-4
    assert config.num_train_steps == 766000
    assert isinstance(config.num_train_steps, int)
    assert config.model_hparam_overrides == {"num_hidden_layers": 6}


def test_the_help_names_defaults_except_empty_ones():
    flag_values = absl_flags.FlagValues()
    pretraining.define_flags(flag_values)
    assert flag_values["seed"].help.endswith(" Default: 42.")
    for name in ("allow_changed_settings", "length_curriculum", "eval_tfrecords"):
        assert "Default:" not in flag_values[name].help


def test_null_means_what_it_means_to_the_authors():
    config = parse(
        *REQUIRED, "--hparams", '{"keep_checkpoint_max": null, "embedding_size": null}'
    )
    assert config.keep_checkpoint_max == 0  # keeps all
    assert config.embedding_size == 256  # the hidden size, also of small
    config = parse(*REQUIRED, "--hparams", '{"do_train": null, "do_eval": true}')
    assert not config.do_train
    config = parse(*REQUIRED, "--hparams", '{"electra_objective": null}')
    assert config.objective == "mlm"
    config = parse(*REQUIRED, "--hparams", '{"untied_generator": null, "debug": null}')
    assert config.embedding_sharing == "all"
    config = parse(*REQUIRED, "--hparams", '{"learning_rate": null, "vocab_file": null}')
    assert config == parse(*REQUIRED)


def write_cased(folder: pathlib.Path, is_cased: bool) -> None:
    folder.mkdir()
    manifest = write_shards(folder, version=1)
    write_manifest(dataclasses.replace(manifest, do_lower_case=not is_cased), folder)


def test_the_tokenizer_is_that_of_the_records(tmp_path):
    """The authors build cased records by a flag, and pre-train without one."""
    for folder in ("pretrain_tfrecords", "records_48"):
        write_cased(tmp_path / folder, is_cased=True)
    given = ["--data-dir", str(tmp_path), "--model-name", "small"]
    assert not parse(*given).do_lower_case
    # What is given counts; whoever reads the records says that they are others.
    assert parse(*given, "--do_lower_case").do_lower_case
    given += ["--max_seq_length=48", f"--pretrain_tfrecords={tmp_path}/records_{{length}}/a*"]
    assert not parse(*given).do_lower_case
    vocab_file = tmp_path / "vocab.txt"
    vocab_file.write_text("")
    description = TokenizerDescription(
        vocab_sha256=hash_vocabulary(vocab_file), strip_accents=False
    )
    write_tokenizer_description(vocab_file, description)
    assert (parse(*given).do_lower_case, parse(*given).strip_accents) == (True, False)


def test_records_that_differ_or_are_damaged_have_no_tokenizer(tmp_path):
    folders = [tmp_path / name for name in "abc"]
    for folder, is_cased in zip(folders, (True, False, False), strict=True):
        write_cased(folder, is_cased)
    patterns = [f"{folder}/*" for folder in folders]
    assert find_tokenizer(",".join(patterns)) is None
    assert find_tokenizer(",".join(patterns[1:])).do_lower_case
    mark_unfinished(folders[0])
    assert find_tokenizer(patterns[0]) is None
    assert find_tokenizer(f"{tmp_path}/d/*") is None


def test_hparams_from_a_file_and_flags_over_them(tmp_path):
    path = tmp_path / "hparams.json"
    path.write_text(json.dumps({"learning_rate": 1, "train_batch_size": 4, "debug": True}))
    config = parse(*REQUIRED, f"--hparams={path}", "--train_batch_size=6", "--seed", "3")
    assert (config.learning_rate, config.train_batch_size, config.seed) == (1.0, 6, 3)
    assert config.num_train_steps == 20


def test_values_of_hparams_that_a_recipe_overrides_are_warned_of(tmp_path, capsys, monkeypatch):
    recipe = tmp_path / "recipe.flags"
    recipe.write_text("--learning_rate=2e-4\n--train_batch_size=8\n--seed=3\n--debug\n")
    arguments = [
        *REQUIRED,
        f"--flagfile={recipe}",
        '--hparams={"learning_rate": 0.001, "train_batch_size": 4, "seed": 3, "debug": 0}',
        "--train-batch-size=6",
        "--nodebug",
    ]
    monkeypatch.setattr("sys.argv", ["program", *arguments])
    config = parse(*arguments)
    assert (config.learning_rate, config.train_batch_size) == (2e-4, 6)
    (warning,) = capsys.readouterr().err.splitlines()
    assert warning == (
        "warning: learning_rate of --hparams (0.001) is overridden by --learning_rate of the "
        "--flagfile (0.0002): pass --learning_rate after it"
    )


@pytest.mark.parametrize(
    "spelling", [["--electra-objective", "False"], ["--noelectra_objective"]]
)
def test_booleans_take_values_as_the_authors_wrote_them(spelling):
    assert not parse(*REQUIRED, *spelling).electra_objective


def test_workers_may_have_addresses_in_ipv6():
    addresses = "[::1]:2222,[fe80::1]:2223"
    of_worker = ("--strategy=multi_worker", "--task_index=1")
    config = parse(*REQUIRED, *of_worker, f"--workers={addresses}")
    assert config.workers == ("[::1]:2222", "[fe80::1]:2223")
    as_json = json.dumps(addresses.split(","))
    assert parse(*REQUIRED, *of_worker, "--workers", as_json).workers == config.workers


def test_every_hyperparameter_of_the_authors_is_known():
    # The attributes of configure_pretraining.py's PretrainingConfig.
    # fmt: off
    names = {
        "debug", "do_train", "do_eval", "electra_objective", "electric_objective",
        "gen_weight", "disc_weight", "mask_prob", "learning_rate", "lr_decay_power",
        "weight_decay_rate", "num_warmup_steps", "num_train_steps",
        "iterations_per_loop", "save_checkpoints_steps", "keep_checkpoint_max",
        "model_size", "model_hparam_overrides", "embedding_size", "vocab_size",
        "do_lower_case", "uniform_generator", "two_tower_generator",
        "untied_generator_embeddings", "untied_generator", "generator_layers",
        "generator_hidden_size", "disallow_correct", "temperature", "max_seq_length",
        "train_batch_size", "eval_batch_size", "max_predictions_per_seq", "use_tpu",
        "num_tpu_cores", "tpu_job_name", "tpu_name", "tpu_zone", "gcp_project",
        "pretrain_tfrecords", "vocab_file", "model_name", "model_dir", "results_txt",
        "results_pkl", "num_eval_steps",
    }
    # fmt: on
    assert names <= set(PretrainingConfig.__dataclass_fields__)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--learning_rat=1"], "Unknown flag --learning_rat.*learning_rate"),
        (["--hparams", '{"learning_rat": 1}'], "'learning_rat' in --hparams.*learning_rate"),
        (
            ["--hparams", '{"learning_rate": "x"}'],
            "learning_rate in --hparams must be a number",
        ),
        (["--hparams", '{"debug": "maybe"}'], "debug in --hparams must be true or false"),
        (["--hparams", '{"num_train_steps": 1.5}'], "must be a whole number"),
        (["--hparams", '{"num_train_steps": 1e30}'], "a whole number from -9.* not 1e.30"),
        (["--hparams", '{"learning_rate": NaN}'], "learning_rate in --hparams .* not nan"),
        (["--hparams", '{"vocab_file": 3}'], "vocab_file in --hparams must be a string, not 3"),
        (
            ["--hparams", '{"model_hparam_overrides": [1]}'],
            "model_hparam_overrides in --hparams must be a JSON object",
        ),
        (["--model_hparam_overrides", '{"hidden_size": null}'], "hidden_size must be a whole"),
        (["--hparams", '{"model_hparam_overrides": {"hidden_size": "64"}}'], "not '64'"),
        (
            ["--model_hparam_overrides", '{"embedding_size": 64}'],
            "cannot be set .*: pass --embedding_size",
        ),
        (["--hparams", '{"iterations_per_loop": true}'], "must be a whole number, not True"),
        (["--hparams", "{broken"], "--hparams is not valid JSON"),
        (["--hparams", "[1]"], "must be a JSON object"),
        (["--hparams", "none.json"], "no such file"),
        (["--hparams", "gs://a/b.json"], "--hparams=gs://a/b.json must be on this machine"),
        (["--hparams", '{"tpu_name": "t"}'], "--tpu_name needs --strategy=tpu"),
        (["--electric_objective", "--objective=mlm"], "--objective=mlm and --electric_obj"),
        (["--objective=elektra"], "objective"),
        (["--num_train_steps=many"], "num_train_steps"),
        (["--model_size=huge"], "model_size"),
        (["--model_hparam_overrides={"], "--model_hparam_overrides is not valid JSON"),
    ],
)
def test_refusals(arguments, message):
    with pytest.raises(UserError, match=message):
        parse(*REQUIRED, *arguments)


def test_negative_numbers_are_values_and_all_after_two_dashes_is():
    normalize = parsing.normalize_arguments
    assert normalize(["--a-b", "-1", "-1e3,-2", "--c-d=x-y"]) == [
        "--a_b",
        "-1",
        "-1e3,-2",
        "--c_d=x-y",
    ]
    assert normalize(["--a-b", "--", "--c-d"]) == ["--a_b", "--", "--c-d"]
    assert normalize(["--a-b", "-", "--c-d"]) == ["--a_b", "-", "--c_d"]  # standard output


def test_a_comment_behind_a_value_of_a_flag_file_is_warned_of(tmp_path, capsys):
    recipe = tmp_path / "own.flags"
    recipe.write_text("# comment\n--vocab_file=own#1.txt\n")
    parse(*REQUIRED, f"--flagfile={recipe}")
    assert capsys.readouterr().err == ""
    recipe.write_text("--vocab_file=own.txt  # mine\n")
    assert parse(*REQUIRED, f"--flagfile={recipe}").vocab_file == "own.txt  # mine"
    warning = "--vocab_file=own.txt  # mine: the # and the text after it are part of the value"
    assert warning in capsys.readouterr().err
