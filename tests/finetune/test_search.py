"""The search over a grid of hyperparameters."""

import json
import math
import pathlib
import sys

import pytest
import tensorflow as tf

from electra_tf.training.checkpoints.folder_lock import lock_model_dir
from electra_tf.training.distribution.context import create_context
from electra_tf.training.distribution.workers import Workers
from electra_tf.util.console import discard, warn_once
from electra_tf.util.errors import PreemptedError, UserError
from finetune import search as search_module
from finetune.config.finetuning import FinetuningConfig
from finetune.results.summary import DIVERGED, TrialResult
from finetune.search import search
from tests.finetune.conftest import small_settings

GRID = {"learning_rate": [1e-4, 3e-4], "max_seq_length": [8, 16]}
SCORES = {(1e-4, 8): (10.0, 30.0), (1e-4, 16): (math.nan,), (3e-4, 8): (50.0,), (3e-4, 16): ()}


@pytest.fixture
def given(finetuning_data, tmp_path) -> dict:
    settings = small_settings(finetuning_data, tmp_path)
    del settings["length_buckets"]
    return {**settings, "results_txt": str(tmp_path / "all.txt")}


@pytest.fixture
def runs(monkeypatch) -> list:
    """Replaces the runs by their scores; returns the configurations that were run."""
    configs = []

    def run(config, print_fn):
        configs.append(config)
        scores = SCORES.get((config.learning_rate, config.max_seq_length), ())
        return [TrialResult(trial=9, seed=1, status=DIVERGED)] + [
            TrialResult(
                trial=i,
                seed=i,
                metrics={"cola/dev": {"mcc": score}, "cola/heldout": {"mcc": 99.0}},
                main={"cola/dev": "mcc", "cola/heldout": "mcc"},
            )
            for i, score in enumerate(scores, start=1)
        ]

    monkeypatch.setattr(search_module, "run", run)
    return configs


def test_every_combination_is_run_and_ranked(given, runs, tmp_path, capsys):
    pytest.importorskip("optuna", reason="the extra search is not installed")
    lines: list[str] = []
    warn_once.cache_clear()
    found = search(given, GRID, lines.append)
    assert [each.score for each in found] == [50.0, 20.0, None, None]
    assert found[0].hyperparameters == {"learning_rate": 3e-4, "max_seq_length": 8}
    assert "Best: --learning_rate=0.0003 --max_seq_length=8" in lines
    assert any("| 20.00 | 0.0001 | 8 |" in line for line in lines)
    assert len(runs) == 4
    assert len({config.model_dir for config in runs}) == 4
    assert len({config.results_txt for config in runs}) == 4
    assert "--results_txt has no effect with --hparam_search" in capsys.readouterr().err
    # Other settings follow from those of the combination.
    assert {config.length_buckets[-1] for config in runs} == {8, 16}
    path = pathlib.Path(tmp_path, "results/cola_search.json")
    content = json.loads(path.read_text())["best_first"]
    assert [each["score"] for each in content] == [50.0, 20.0, None, None]
    assert [path.parent / each["results_dir"] for each in content] == [
        tmp_path / "results/cola_search" / f"run_{number}" for number in (3, 1, 2, 4)
    ]
    assert [each["unfinished"] for each in content] == [1, 1, 1, 1]
    # Diverged trials have no score, which would be told only where another one has.
    told = [line for line in lines if "leaves out 1 trials or folds that diverged" in line]
    assert len(told) == 2
    assert told[0].startswith("--learning_rate=0.0003 --max_seq_length=8: ")
    folders = _folders(runs)
    runs.clear()
    search(given, GRID, lines.append)
    assert _folders(runs) == folders


def test_a_search_in_which_no_trial_finishes_has_failed(given, runs, tmp_path):
    pytest.importorskip("optuna", reason="the extra search is not installed")
    with pytest.raises(UserError, match=r"^No trial has finished: diverged\. Reduce --lear"):
        search(given, {"learning_rate": [1.0, 2.0]}, discard)
    content = json.loads(pathlib.Path(tmp_path, "results/cola_search.json").read_text())
    assert [each["score"] for each in content["best_first"]] == [None, None]


def _folders(runs) -> dict:
    return {(each.learning_rate, each.max_seq_length): each.model_dir for each in runs}


def test_threads_are_limited_for_all_combinations(given, runs, monkeypatch):
    """Before the first of them: once TensorFlow is initialized, they stay as they are."""
    pytest.importorskip("optuna", reason="the extra search is not installed")
    sizes = []
    monkeypatch.setattr(
        search_module,
        "create_context",
        lambda config, hidden_size=None: sizes.append(hidden_size) or create_context(config),
    )
    search(given, {"learning_rate": [1e-4]}, discard)
    assert sizes == [FinetuningConfig.create(**given).encoder.hidden_size]


def test_combinations_keep_their_folders_in_another_search(given, runs, tmp_path):
    """A value more, or less, would otherwise replace finished runs by each other."""
    pytest.importorskip("optuna", reason="the extra search is not installed")
    search(given, GRID, discard)
    before = _folders(runs)
    runs.clear()
    lines: list[str] = []
    grid = {"learning_rate": [2e-4, 3e-4, 1e-4], "max_seq_length": [8, 12]}
    search(given, grid, lines.append)
    left = (
        "Not ranked, from an earlier search: --learning_rate=0.0001 --max_seq_length=16 (run_2)"
    )
    assert left in lines
    content = json.loads((tmp_path / "results/cola_search.json").read_text())
    assert [*content["of_earlier_searches"]] == ["run_2", "run_4"]
    after = _folders(runs)
    assert {key: after[key] for key in before if key in after} == {
        key: before[key] for key in before if key[1] == 8
    }
    assert len({*before.values(), *after.values()}) == 8


def test_an_interrupted_search_tells_what_remains(given, runs, tmp_path, monkeypatch):
    pytest.importorskip("optuna", reason="the extra search is not installed")
    run = search_module.run

    def interrupted(config, print_fn):
        if len(runs) == 1:
            raise PreemptedError("SIGTERM")
        return run(config, print_fn)

    monkeypatch.setattr(search_module, "run", interrupted)
    with pytest.raises(PreemptedError):
        search(given, GRID, discard)
    content = json.loads((tmp_path / "results/cola_search.json").read_text())
    found = [*(each["hyperparameters"] for each in content["best_first"])]
    assert len(found) == 1
    assert len(content["remaining"]) == 3
    assert found[0] not in content["remaining"]


def test_a_second_search_in_the_folder_is_refused(given, runs, tmp_path):
    pytest.importorskip("optuna", reason="the extra search is not installed")
    workers = Workers(tf.distribute.get_strategy())
    with (
        lock_model_dir(str(tmp_path / "model_search"), "", workers),
        pytest.raises(UserError, match=r"Another program is training in .*model_search "),
    ):
        search(given, GRID)
    assert not runs


def test_a_damaged_record_of_combinations_is_refused(given, runs, tmp_path):
    pytest.importorskip("optuna", reason="the extra search is not installed")
    path = tmp_path / "model_search/combinations.json"
    path.parent.mkdir()
    path.write_text('{"combinations": 3}')
    with pytest.raises(UserError, match=r"combinations\.json: 'combinations' is 3, not a list"):
        search(given, GRID)
    assert not runs


@pytest.mark.parametrize(
    ("changes", "grid", "message"),
    [
        (
            {},
            {"max_seq_length": [16, 4]},
            r"--max_seq_length=4: --max_seq_length must be at least",
        ),
        (
            {},
            {"class_weights": ["1=2", "yes=2"]},
            "--class_weights=yes=2: .*label 'yes'",
        ),
        (
            {"strategy": "mirrored", "num_virtual_cpus": 2},
            {"train_batch_size": [8, 7]},
            "--train_batch_size=7: .* over 2 replicas",
        ),
        ({}, {"embedding_size": [8, 16]}, "--embedding_size=16: .* is larger"),
        ({}, {"num_folds": [2, 65]}, "--num_folds=65: .* at least as many examples"),
        ({"do_eval": False}, GRID, "needs training and evaluation"),
        ({"num_trials": -1}, GRID, "needs a positive --num_trials, not -1"),
        ({"write_test_outputs": True}, GRID, "remove --write_test_outputs"),
        ({"num_trials": 2, "ensemble_size": 2}, GRID, "remove --ensemble_size"),
    ],
)
def test_bad_searches_are_refused_before_any_run(given, runs, changes, grid, message):
    pytest.importorskip("optuna", reason="the extra search is not installed")
    with pytest.raises(UserError, match=rf"--hparam_search.* {message}"):
        search({**given, **changes}, grid)
    assert not runs


def test_the_extra_is_named(given, monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(
        UserError, match=r"--hparam_search needs optuna, .*electra-tf\[search\]"
    ):
        search(given, GRID)
