"""Flags of run_finetuning.py: the authors' commands, lists, and what is refused."""

import json
import re

import pytest
from absl import flags as absl_flags

from electra_tf.util.errors import UserError
from flags import finetuning
from flags.command_line import parsing
from flags.finetuning import RETIRED


def config_of(*arguments: str):
    flag_values = absl_flags.FlagValues()
    finetuning.define_flags(flag_values)
    parsing.parse(["run_finetuning.py", *arguments], None, flag_values)
    return finetuning.config_from_flags(flag_values)


def test_the_authors_commands():
    config = config_of(
        "--data-dir",
        "data",
        "--model-name",
        "electra_base",
        "--hparams",
        '{"model_size": "base", "task_names": ["mnli", "cola"], "num_trials": 3}',
    )
    assert config.task_names == ("mnli", "cola")
    assert (config.model_size, config.num_trials) == ("base", 3)
    assert config.init_checkpoint == "data/models/electra_base"


def test_null_and_endless_trials_mean_what_they_mean_to_the_authors():
    given = '{"init_checkpoint": null, "embedding_size": null, "num_trials": -1}'
    config = config_of("--data-dir=d", "--model-name=m", "--hparams", given)
    assert (config.init_checkpoint, config.num_trials) == ("random", -1)
    assert config.embedding_size == 256


@pytest.mark.parametrize(
    "name",
    [
        "do_train", "do_eval", "keep_all_models", "use_tfrecords_if_existing",
        "double_unordered", "answerable_classifier", "answerable_uses_start_logits",
        "joint_prediction", "do_lower_case",
    ],
)  # fmt: skip
def test_a_null_is_false_to_the_authors(name):
    assert getattr(config_of("--data-dir=d", "--model-name=m"), name) is True
    given = json.dumps({name: None})
    config = config_of("--data-dir=d", "--model-name=m", "--hparams", given)
    assert getattr(config, name) is False


def test_hparams_from_a_file_and_a_flag_over_it(tmp_path):
    path = tmp_path / "hparams.json"
    path.write_text(
        json.dumps({"task_names": ["rte"], "learning_rate": 3e-4, "use_tpu": False})
    )
    config = config_of(
        "--data-dir=d", "--model-name=m", f"--hparams={path}", "--learning-rate=1e-5"
    )
    assert (config.task_names, config.learning_rate) == (("rte",), 1e-5)


@pytest.mark.parametrize("names", ["cola,rte", "cola, rte", '["cola", "rte"]'])
def test_lists(names):
    config = config_of("--data-dir=d", "--model-name=m", f"--task_names={names}")
    assert config.task_names == ("cola", "rte")


def test_lists_of_numbers():
    config = config_of(
        "--data-dir=d", "--model-name=m", "--task_names=cola", "--length_buckets=20,40"
    )
    assert config.length_buckets == (20, 40, 128)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--hparams={'a'}"], "not valid JSON"),
        (["--use_tpu", "--strategy=mirrored"], "--use_tpu and --strategy=mirrored"),
        (['--hparams={"learning_rat": 1}'], "Did you mean 'learning_rate'"),
        (["--length_buckets=20,x"], "--length_buckets must be a list of whole numbers"),
        (['--hparams={"task_names": 3}'], "task_names in --hparams must be a list of names"),
    ],
)
def test_what_is_refused(arguments, message):
    with pytest.raises(UserError, match=message):
        config_of("--data-dir=d", "--model-name=m", *arguments)


def grid_of(text: str):
    flag_values = absl_flags.FlagValues()
    finetuning.define_flags(flag_values)
    parsing.parse(["run_finetuning.py", f"--hparam_search={text}"], None, flag_values)
    return finetuning.search_grid(flag_values)


def test_a_grid_has_values_of_the_types_of_hyperparameters():
    grid = grid_of('{"learning_rate": [1, 1e-4], "keep_best": ["true"], "optimizer": ["lamb"]}')
    assert grid == {"learning_rate": [1.0, 1e-4], "keep_best": [True], "optimizer": ["lamb"]}
    assert isinstance(grid["learning_rate"][0], float)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "--hparam_search is not valid JSON"),
        ("{}", "--hparam_search must be a JSON object such as .*, not {}"),
        ('{"learning_rat": [1]}', "'learning_rat' .* changes scores.* mean 'learning_rate'"),
        ('{"data_dir": ["a"]}', "'data_dir' in --hparam_search is not a hyperparameter that"),
        ('{"own_task_metric": ["f1"]}', "own_task_metric in --hparam_search changes what is"),
        ('{"num_folds": [2, 3]}', "num_folds in --hparam_search changes what is scored"),
        ('{"learning_rate": 1}', "learning_rate in --hparam_search must be a list of values"),
        ('{"learning_rate": []}', "learning_rate in --hparam_search must be a list of values"),
        ('{"learning_rate": ["a"]}', "learning_rate in --hparam_search must be a number"),
        ('{"optimizer": ["sgd"]}', "optimizer in --hparam_search must be one of adam, lamb"),
        ('{"length_buckets": [[8]]}', "length_buckets in --hparam_search cannot be listed"),
        ('{"seed": [1, 1]}', "seed in --hparam_search lists a value twice"),
    ],
)
def test_bad_grids_are_refused(text, message):
    with pytest.raises(UserError, match=message):
        grid_of(text)


def test_settings_that_are_gone_are_ignored_unless_they_ask_for_something():
    (name, reason), *_ = RETIRED.items()
    required = ("--data-dir=d", "--model-name=m", "--hparams")
    assert config_of(*required, json.dumps({name: False})) == config_of(*required, "{}")
    with pytest.raises(UserError, match=re.escape(f"{name} in --hparams: {reason}")):
        config_of(*required, json.dumps({name: True}))
