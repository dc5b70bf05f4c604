"""Ensembles of trials: the mean of what their models predict."""

import json
import math
import pathlib
import pickle

import numpy as np
import pytest
import scipy.special

from electra_tf.util.console import discard, warn_once
from electra_tf.util.errors import UserError
from finetune import run as finetune_run
from finetune.ensemble import make_ensemble, rank_trials
from finetune.results.ensemble_scores import read_ensemble
from finetune.results.report_runs import read_finetuning_run
from finetune.results.result_files import json_path, write_results
from finetune.results.summary import TrialResult
from finetune.tasks.averages import mean_of_numbers, mean_of_sigmoid, mean_of_softmax
from finetune.trials.trial_runs import TrialRun


def test_the_best_trials_predict_together(make_finetuning_config, tmp_path):
    unlabeled = tmp_path / "new.tsv"
    unlabeled.write_text("index\tsentence\n0\tw1 w2\n1\tw20 w23\n2\tw3 w30 w5\n")
    config = make_finetuning_config(
        num_trials=3,
        num_train_epochs=1,
        ensemble_size=2,
        do_predict=True,
        predict_file=str(unlabeled),
        write_test_outputs=True,
    )
    said: list[str] = []
    results = finetune_run.run(config, said.append)

    scores = [result.metrics["cola/dev"]["mcc"] for result in results]
    best = sorted(sorted(range(3), key=lambda i: -scores[i])[:2])
    written = json.loads(pathlib.Path(config.results_dir, "cola_ensemble.json").read_text())
    assert written["trials"] == [i + 1 for i in best]
    assert written["main"] == {"cola/dev": "mcc"}
    assert set(written["metrics"]["cola/dev"]) == {"mcc", "accuracy"}
    numbers = ", ".join(str(i + 1) for i in best)
    assert f"\nEnsemble of trials {numbers}" in said
    (table,) = read_finetuning_run(json_path(config.results_dir, "cola")).tables
    assert table.rows[-1][0] == f"ensemble of trials {numbers}"
    mcc = written["metrics"]["cola/dev"]["mcc"]
    assert table.rows[-1][list(table.header).index("mcc")] == f"{mcc:.2f}"

    folder = pathlib.Path(config.results_dir, "test_predictions")
    names = ("1", "2", "3", "ensemble")
    logits = {
        name: pickle.loads((folder / f"cola_test_{name}_predictions.pkl").read_bytes())
        for name in names
    }
    for example, found in logits["ensemble"].items():
        each = [scipy.special.softmax(logits[names[i]][example]) for i in best]
        np.testing.assert_allclose(scipy.special.softmax(found), np.mean(each, 0), rtol=1e-5)
    predictions = pathlib.Path(config.results_dir, "cola_predictions.jsonl").read_text()
    assert len(predictions.splitlines()) == 3
    # The scores of an ensemble go with those of its trials.
    changed = make_finetuning_config(num_trials=1, num_train_epochs=1)
    finetune_run.run(changed, discard)
    assert not pathlib.Path(config.results_dir, "cola_ensemble.json").exists()


def test_tasks_of_other_kinds_are_averaged(make_finetuning_config, tmp_path):
    """Tags, whose outputs are those of tokens, and numbers; of tasks that train together."""
    rows = "".join(f"w{i % 30},w{i % 7},{i % 5}\n" for i in range(20))
    path = tmp_path / "similar.csv"
    path.write_text(f"text_a,text_b,label\n{rows}")
    columns = {"text_a": "text_a", "text_b": "text_b", "label": "label"}
    spec = {"name": "near", "kind": "regression", "columns": columns}
    config = make_finetuning_config(
        task_names=("chunk", "near"),
        task_spec=json.dumps({**spec, "files": {"train": str(path), "dev": str(path)}}),
        num_trials=2,
        num_train_epochs=1,
        ensemble_size=2,
    )
    said: list[str] = []
    results = finetune_run.run(config, said.append)
    path = pathlib.Path(config.results_dir, "chunk,near_ensemble.json")
    metrics = json.loads(path.read_text())["metrics"]
    # Errors of scaled labels are small: as precise as those of the trials.
    of_ensemble = said[said.index("\nEnsemble of trials 1, 2") :]
    (line,) = (each for each in of_ensemble if each.startswith("near/dev: "))
    assert line.endswith(f"mse {metrics['near/dev']['mse']:.4f}")
    assert metrics.keys() == results[0].metrics.keys() == {"chunk/dev", "near/dev"}
    assert all(
        metrics[key].keys() == results[0].metrics[key].keys() - {"loss"} for key in metrics
    )


def test_answers_to_questions_are_not_averaged(make_finetuning_config, tmp_path):
    folder = tmp_path / "raw" / "squadv1"
    folder.mkdir(parents=True)
    answers = [{"text": "w2", "answer_start": 3}]
    question = {"id": "q", "question": "w1", "answers": answers}
    paragraph = {"context": "w1 w2 w3", "qas": [question]}
    content = json.dumps({"data": [{"title": "t", "paragraphs": [paragraph]}]})
    for split in ("train", "dev"):
        (folder / f"{split}.json").write_text(content)
    config = make_finetuning_config(
        task_names=("squadv1",),
        raw_data_dir=str(tmp_path / "raw"),
        num_trials=2,
        ensemble_size=2,
    )
    with pytest.raises(UserError, match=r"--ensemble_size=2: answers of qa tasks, such as sq"):
        finetune_run.run(config, discard)
    assert not pathlib.Path(config.model_dir + "_1").exists()


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"ensemble_size": 0}, "--ensemble_size must be positive"),
        ({"num_trials": 2}, "--ensemble_size=3 needs as many trials, not --num_trials=2"),
        ({"num_trials": -1}, "--ensemble_size=3 needs as many trials"),
        ({"num_folds": 2}, "--ensemble_size=3: the models of --num_folds"),
        ({"do_eval": False}, "--ensemble_size=3 needs --do_eval"),
        ({"keep_all_models": False}, "needs the models of all trials"),
    ],
)
def test_trials_that_make_no_ensemble_are_refused(make_finetuning_config, overrides, message):
    with pytest.raises(UserError, match=message):
        make_finetuning_config(**{"num_trials": 3, "ensemble_size": 3, **overrides})


def test_the_best_trials_are_those_of_the_best_mean_over_tasks():
    runs = [TrialRun(number, number, f"m_{number}") for number in (1, 2, 3)]
    main = {"a/dev": "f1", "a/later": "f1", "b/dev": "mcc"}
    scores = ((90.0, 0.0, 10.0), (40.0, 0.0, 80.0), (50.0, 99.0, math.nan))
    results = [
        TrialResult(
            trial=run.number,
            seed=run.seed,
            metrics={key: {main[key]: s} for key, s in zip(main, of_run, strict=True)},
            main=main,
        )
        for run, of_run in zip(runs, scores, strict=True)
    ]
    assert [trial.run.number for trial in rank_trials(runs, results)] == [2, 1, 3]


def test_results_that_fewer_trials_replace_are_warned_of(make_finetuning_config, capsys):
    trials = [TrialResult(trial=number, seed=number) for number in (1, 2, 3)]
    config = make_finetuning_config(num_trials=1)
    write_results(
        trials, model_name="m", tasks_label=config.tasks_label, results_dir=config.results_dir
    )
    for num_trials, warned in ((3, False), (1, True)):
        warn_once.cache_clear()
        finetune_run._warn_of_replaced_results(make_finetuning_config(num_trials=num_trials))
        error = capsys.readouterr().err
        assert ("had the results of 3 trials; with --num_trials=1" in error) == warned


def test_trials_that_diverged_are_left_out(make_finetuning_config, capsys):
    runs = [TrialRun(number, number, f"m_{number}") for number in (1, 2, 3)]
    results = [
        TrialResult(
            trial=run.number,
            seed=run.seed,
            status=status,
            metrics={"t/dev": {"f1": score}},
            main={"t/dev": "f1"},
        )
        for run, status, score in zip(
            runs, ("ok", "diverged", "ok"), (1.0, 3.0, 2.0), strict=True
        )
    ]
    trials = rank_trials(runs, results)
    assert [trial.run.number for trial in trials] == [3, 1]

    class Trainer:
        is_chief = False

    warn_once.cache_clear()
    said: list[str] = []
    config = make_finetuning_config(num_trials=3, ensemble_size=3)
    make_ensemble(config, Trainer(), (), None, trials, said.append)
    assert said == ["\nEnsemble of trials 1, 3"]
    assert "--ensemble_size=3: only 2 trials finished" in capsys.readouterr().err


def test_the_mean_of_probabilities():
    """Not that of logits."""
    outputs = [
        {"logits": np.log(np.array(p, np.float32)), "predictions": np.int32(i), "loss": x}
        for i, p, x in ((0, [0.6, 0.3, 0.1], 1.0), (1, [0.1, 0.8, 0.1], 3.0))
    ]
    found = mean_of_softmax(outputs)
    np.testing.assert_allclose(np.exp(found["logits"]), [0.35, 0.55, 0.1], rtol=1e-6)
    assert (found["predictions"], found["loss"]) == (1, 2.0)
    assert found["predictions"].dtype == np.int32
    # A choice that an example lacks has no probability in any model.
    lacking = [{"logits": np.array([1.0, -np.inf], np.float32)}] * 2
    np.testing.assert_array_equal(mean_of_softmax(lacking)["logits"], [0.0, -np.inf])


def test_the_mean_of_independent_probabilities():
    logits = [np.array(values, np.float32) for values in ([-1.0, 5.0, 90.0], [2.0, -7.0, 95.0])]
    found = mean_of_sigmoid([{"logits": each} for each in logits])
    expected = np.mean(scipy.special.expit(np.float64(logits)), axis=0)
    np.testing.assert_allclose(scipy.special.expit(found["logits"]), expected, rtol=1e-6)
    assert found["predictions"].tolist() == (expected > 0.5).tolist()
    assert 90 < found["logits"][2] < 95


def test_the_mean_of_numbers():
    outputs = [{"predictions": np.float32(x), "loss": np.float32(x)} for x in (1.0, 2.0)]
    assert mean_of_numbers(outputs) == {"predictions": 1.5, "loss": 1.5}


@pytest.mark.parametrize(
    "content",
    [
        {"trials": ["1"], "metrics": {}, "main": {}},
        {"trials": [1], "metrics": {"a/dev": {"f1": "9"}}, "main": {}},
        {"trials": 1, "metrics": {}, "main": {}},
        {"trials": [1], "metrics": []},
    ],
)
def test_damaged_scores_are_refused(tmp_path, content):
    path = tmp_path / "cola_ensemble.json"
    path.write_text(json.dumps(content))
    with pytest.raises(UserError, match=r"cola_ensemble\.json has no scores of an ensemble"):
        read_ensemble(str(path))
