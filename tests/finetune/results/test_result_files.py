"""Summaries of trials, the files they are written to, and comparisons of runs."""

import dataclasses
import json
import math
import os
import pathlib
import pickle
import statistics

import pytest

from electra_tf.util.console import markdown_table
from electra_tf.util.errors import UserError
from finetune.results.comparison import merge_tables
from finetune.results.provenance import Provenance
from finetune.results.result_files import read_results, write_results
from finetune.results.result_text import format_markdown, format_summary, format_text
from finetune.results.summary import TrialResult, summarize


def trial(number: int, accuracy: float | None, **more) -> TrialResult:
    """Returns a trial of `cola`; an accuracy of None leaves the metric out."""
    metrics = {"mcc": 10.0 * number, "loss": 0.51234}
    if accuracy is not None:
        metrics = {"accuracy": accuracy, **metrics}
    fields = {"metrics": {"cola/dev": metrics}, "main": {"cola/dev": "mcc"}, "steps": 1200}
    return TrialResult(trial=number, seed=41 + number, seconds=75, **{**fields, **more})


def fold(number: int, f1: float) -> TrialResult:
    key = "router/dev"
    return TrialResult(
        trial=1, seed=42, fold=number, metrics={key: {"macro_f1": f1}}, main={key: "macro_f1"}
    )


DIVERGED = TrialResult(trial=3, seed=44, status="diverged", reason="loss is NaN", steps=7)


def test_statistics_of_several_trials():
    summary = summarize([trial(1, 80.0), trial(2, 90.0), trial(4, 70.0)])
    mcc = summary.splits["cola/dev"].metrics["mcc"]
    assert (mcc.median, mcc.min, mcc.max, mcc.n, mcc.undefined) == (20.0, 10.0, 40.0, 3, 0)
    assert mcc.mean == pytest.approx(70 / 3)
    # The deviation of the sample: sum of squares 466.67 over n - 1 = 2.
    assert mcc.std == pytest.approx(math.sqrt(700 / 3))
    # The main metric comes first, the others in the order of the task.
    assert list(summary.splits["cola/dev"].metrics) == ["mcc", "accuracy", "loss"]
    assert summary.ok_splits is None


def test_one_trial_has_no_deviation():
    summary = summarize([trial(1, 80.0)])
    accuracy = summary.splits["cola/dev"].metrics["accuracy"]
    assert (accuracy.median, accuracy.mean, accuracy.std, accuracy.n) == (80.0, 80.0, None, 1)
    text = format_text([trial(1, 80.0)])
    assert "cola/dev: mcc median 10.00 (n 1)" in text
    assert "  accuracy: median 80.00, mean 80.00, std -, min 80.00, max 80.00, n 1\n" in text


def test_degenerate_trials_count_and_are_left_out_only_apart():
    bad = trial(2, 50.0, status="degenerate", reason="predicts one label")
    summary = summarize([trial(1, 80.0), bad, DIVERGED])
    assert summary.splits["cola/dev"].metrics["accuracy"].median == 65.0
    assert summary.ok_splits["cola/dev"].metrics["accuracy"].median == 80.0
    assert summary.degenerate == (bad,)
    assert summary.unfinished == (DIVERGED,)
    lines = format_summary([trial(1, 80.0), bad, DIVERGED])
    assert lines[:3] == [
        "Summary: 2 of 3 trials finished",
        "  trial 2, seed 43: degenerate (predicts one label), 1,200 steps, 1:15",
        "  trial 3, seed 44: diverged (loss is NaN), 7 steps, 0 s",
    ]
    assert "cola/dev without degenerate trials:" in lines


def test_metrics_of_an_unfinished_trial_do_not_count():
    half_way = trial(2, 0.0, status="diverged")
    summary = summarize([trial(1, 80.0), half_way])
    assert summary.splits["cola/dev"].metrics["accuracy"].n == 1


def test_missing_and_undefined_metrics_are_counted():
    trials = [trial(1, 80.0), trial(2, None), trial(3, math.nan), trial(4, math.inf)]
    accuracy = summarize(trials).splits["cola/dev"].metrics["accuracy"]
    assert (accuracy.median, accuracy.n, accuracy.undefined) == (80.0, 1, 3)
    assert any("n 1, undefined in 3" in line for line in format_summary(trials))


def test_text_has_the_authors_lines():
    trials = [
        TrialResult(
            trial=1,
            seed=42,
            steps=100,
            best_step=60,
            metrics={
                "mnli/dev": {"accuracy": 81.256, "loss": 0.5},
                "mnli/dev_mismatched": {"accuracy": 79.0},
                "rte/dev": {"accuracy": math.nan},
                "sts/dev": {"spearman": 88.126, "mse": 0.02345},
            },
            main={
                **dict.fromkeys(("mnli/dev", "mnli/dev_mismatched", "rte/dev"), "accuracy"),
                "sts/dev": "spearman",
            },
        )
    ]
    assert format_text(trials).splitlines()[:5] == [
        "trial 1, seed 42: ok, 100 steps, best at step 60, 0 s",
        "mnli: accuracy: 81.26 - loss: 0.5000",
        "mnli_dev_mismatched: accuracy: 79.00",
        "rte: accuracy: -",
        # Labels are scaled to 0 to 1, so two decimals would show little.
        "sts: spearman: 88.13 - mse: 0.0234",
    ]


def test_folds_give_their_mean():
    trials = [fold(1, 80.0), fold(2, 90.0), fold(3, 94.0)]
    deviation = statistics.stdev([80, 90, 94])
    text = format_text(trials)
    assert "trial 1, fold 2, seed 42: ok" in text
    assert f"router/dev: macro_f1 mean 88.00 ± {deviation:.2f} (n 3)" in text
    table = format_markdown(trials, "small: router")
    assert "| 1, fold 3 | 42 | 94.00 |" in table
    assert f"| mean |  | 88.00 |\n| std |  | {deviation:.2f} |" in table
    assert "median |  |" not in table


def test_markdown_tables():
    trials = [trial(1, 80.0), trial(2, None), DIVERGED]
    assert format_markdown(trials, "small: cola").split("\n\n") == [
        "# small: cola",
        "| trial | seed | cola/dev (mcc) |\n"
        "| --- | ---: | ---: |\n"
        "| 1 | 42 | 10.00 |\n"
        "| 2 | 43 | 20.00 |\n"
        "| 3 (diverged) | 44 | - |\n"
        "| median |  | 15.00 |\n"
        "| std |  | 7.07 |",
        "- trial 3, seed 44: diverged (loss is NaN), 7 steps, 0 s",
        "## All metrics",
        "| task | metric | median | mean | std | min | max | n |\n"
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |\n"
        "| cola/dev | mcc | 15.00 | 15.00 | 7.07 | 10.00 | 20.00 | 2 |\n"
        "| cola/dev | accuracy | 80.00 | 80.00 | - | 80.00 | 80.00 | 1 |\n"
        "| cola/dev | loss | 0.5123 | 0.5123 | 0.0000 | 0.5123 | 0.5123 | 2 |\n",
    ]
    assert markdown_table(["a|b"], [["c"]], text_columns=1) == "| a\\|b |\n| --- |\n| c |"


def test_written_files(tmp_path):
    trials = [trial(1, 80.0), trial(2, math.nan), DIVERGED]
    files = write_results(
        trials, model_name="small", tasks_label="cola", results_dir=str(tmp_path / "results")
    )
    names = [f"cola_results.{extension}" for extension in ("json", "md", "pkl", "txt")]
    assert sorted(os.listdir(tmp_path / "results")) == names
    with open(files.txt, encoding="utf-8") as file:
        assert file.read() == format_text(trials)
    with open(files.pkl, "rb") as file:
        pickled = pickle.load(file)
    assert pickled[0] == {"cola": {"accuracy": 80.0, "mcc": 10.0, "loss": 0.51234}}
    assert math.isnan(pickled[1]["cola"]["accuracy"])
    assert pickled[2] == {}
    with open(files.json, encoding="utf-8") as file:
        text = file.read()
    assert ": NaN" not in text
    content = json.loads(text)
    assert content["trials"][1]["metrics"]["cola/dev"]["accuracy"] is None
    assert content["trials"][2]["reason"] == "loss is NaN"
    assert content["summary"]["cola/dev"]["metrics"]["mcc"]["median"] == 15.0
    assert content["summary_without_degenerate"] is None

    run = read_results(files.json)
    assert (run.model_name, run.tasks) == ("small", "cola")
    assert run.trials[0] == trials[0]
    assert math.isnan(run.trials[1].metrics["cola/dev"]["accuracy"])
    assert run.trials[2] == DIVERGED


def test_runs_of_other_tasks_stand_beside_each_other(tmp_path):
    for tasks in ("cola", "cola,rte"):
        write_results(
            [trial(1, 80.0)], model_name="m", tasks_label=tasks, results_dir=str(tmp_path)
        )
    assert len(os.listdir(tmp_path)) == 8
    elsewhere = write_results(
        [],
        model_name="m",
        tasks_label="cola",
        results_dir=str(tmp_path / "b"),
        results_txt=str(tmp_path / "mine.txt"),
        results_pkl=str(tmp_path / "c" / "mine.pkl"),
    )
    assert elsewhere.txt == str(tmp_path / "mine.txt")
    assert sorted(os.listdir(tmp_path / "b")) == ["cola_results.json", "cola_results.md"]
    assert (tmp_path / "mine.txt").read_text() == "\nSummary: 0 of 0 trials finished\n"


def test_numbers_of_numpy_become_plain_ones(tmp_path):
    import numpy as np

    numbers = trial(1, 80.0, metrics={"cola/dev": {"mcc": np.float32(0.5)}})
    files = write_results(
        [numbers], model_name="m", tasks_label="cola", results_dir=str(tmp_path)
    )
    assert read_results(files.json).trials[0].metrics == {"cola/dev": {"mcc": 0.5}}
    with open(files.pkl, "rb") as file:
        assert type(pickle.load(file)[0]["cola"]["mcc"]) is float


def test_the_authors_formats_have_the_metrics_of_their_scorers(tmp_path):
    metrics = {"cola/dev": {"mcc": 10.0, "ece": 3.0, "scaled_ece": 2.0, "temperature": 1.5}}
    trials = [trial(1, 80.0, metrics=metrics)]
    files = write_results(trials, model_name="m", tasks_label="c", results_dir=str(tmp_path))
    with open(files.pkl, "rb") as file:
        assert pickle.load(file) == [{"cola": {"mcc": 10.0}}]
    with open(files.txt, encoding="utf-8") as file:
        text = file.read()
    assert "\ncola: mcc: 10.00\n" in text
    # The summary and the JSON have all.
    assert "temperature" in text
    assert read_results(files.json).trials[0].metrics == metrics


def test_a_trial_names_its_status_and_main_metrics():
    with pytest.raises(ValueError, match="status is 'done'"):
        TrialResult(trial=1, seed=1, status="done")
    with pytest.raises(ValueError, match="no main metric for a/dev"):
        TrialResult(trial=1, seed=1, metrics={"a/dev": {"f1": 1.0}})


@pytest.mark.parametrize(
    "content", ["", "[]", '{"trials": 3}', '{"auc": 1}', '{"trials": [{}]}']
)
def test_refuses_other_files(tmp_path, content):
    path = tmp_path / "x_results.json"
    with pytest.raises(UserError, match="No such file"):
        read_results(path)
    path.write_text(content)
    with pytest.raises(UserError, match=r"is not a _results\.json file"):
        read_results(path)


def write_run(folder, model_name: str, tasks: str, trials: list[TrialResult]) -> str:
    return write_results(
        trials, model_name=model_name, tasks_label=tasks, results_dir=str(folder)
    ).json


def test_merged_table(tmp_path):
    bad = trial(2, 50.0, status="degenerate", reason="cola: predicts one label")
    paths = [
        write_run(tmp_path / "s", "small", "cola", [trial(1, 1.0), bad, DIVERGED]),
        write_run(tmp_path / "s", "small", "router", [fold(1, 80.0), fold(2, 90.0)]),
        write_run(tmp_path / "b", "base", "cola", [trial(5, 1.0)]),
    ]
    assert merge_tables(paths) == (
        "| model | cola/dev (mcc) | router/dev (macro_f1) |\n"
        "| --- | ---: | ---: |\n"
        "| small | 15.00 ± 7.07 (2) | 85.00 ± 7.07 (2 folds) |\n"
        "| base | 50.00 (1) | - |\n"
        "\n"
        "Cells: median ± standard deviation (trials), or mean ± standard deviation (folds).\n"
        "- small, cola: 1 of 3 trials learned nothing (counted): "
        "cola: predicts one label\n"
        "- small, cola: 1 of 3 trials did not finish (not counted): "
        "trial 3, seed 44, diverged\n"
    )
    named = merge_tables(paths, ["one", "two", "two"])
    assert "| one | 15.00 ± 7.07 (2) | - |" in named
    assert "| two | 50.00 (1) | 85.00 ± 7.07 (2 folds) |" in named


def test_a_table_says_which_scores_are_of_different_files(tmp_path):
    def path(name: str, task_files: str | None, tasks: str = "cola") -> str:
        provenance = task_files and Provenance("random", task_files, "settings", "vocabulary")
        return write_results(
            [trial(1, 1.0)],
            model_name=name,
            tasks_label=tasks,
            results_dir=str(tmp_path / name),
            provenance=provenance,
        ).json

    runs = [path("a", "x"), path("b", "x"), path("old", None), path("two", "z", "cola,rte")]
    assert "differ" not in merge_tables(runs)
    note = "- cola/dev (mcc): the files of the task differ between a, b | c\n"
    assert note in merge_tables([*runs, path("c", "y")])


def test_an_undefined_metric_is_an_empty_cell(tmp_path):
    main = {"cola/dev": "accuracy"}
    undefined = [trial(number, math.nan, main=main) for number in (1, 2)]
    path = write_run(tmp_path / "s", "small", "cola", undefined)
    table = merge_tables([path])
    assert "| small | - |\n" in table
    assert (
        "- small, cola: cola/dev (accuracy) is undefined in 2 of 2 trials (not counted)"
        in table
    )


def test_a_table_does_not_count_a_trial_whose_main_metric_is_undefined(tmp_path):
    """Such as a correlation of a trial that predicts one number."""
    main = {"sts/dev": "pearson"}
    constant = "sts: predicts one number only"
    trials = [
        trial(1, None, metrics={"sts/dev": {"pearson": 80.0}}, main=main),
        trial(
            2,
            None,
            metrics={"sts/dev": {"pearson": math.nan}},
            main=main,
            status="degenerate",
            reason=constant,
        ),
    ]
    table = merge_tables([write_run(tmp_path, "small", "sts", trials)])
    assert "| small | 80.00 (1) |" in table
    assert table.endswith(
        "- small, sts: 1 of 2 trials learned nothing (counted where the metric is defined): "
        f"{constant}\n"
        "- small, sts: sts/dev (pearson) is undefined in 1 of 2 trials (not counted)\n"
    )


def test_the_markdown_has_no_table_without_degenerate_trials_if_all_are(tmp_path):
    bad = [
        trial(number, 50.0, status="degenerate", reason="cola: predicts one label")
        for number in (1, 2)
    ]
    assert "Without degenerate" not in format_markdown(bad, "small: cola")
    folds = [fold(1, 80.0), dataclasses.replace(fold(2, 50.0), status="degenerate")]
    assert "## Without degenerate folds\n" in format_markdown(folds, "small: router")


@pytest.mark.parametrize(
    ("name", "value"),
    [("metrics", {"cola/dev": {"mcc": "high"}}), ("steps", "many"), ("main", ["mcc"])],
)
def test_results_of_other_types_are_refused(tmp_path, name, value):
    path = pathlib.Path(write_run(tmp_path / "s", "small", "cola", [trial(1, 1.0)]))
    content = json.loads(path.read_text())
    del content["content_sha256"]
    path.write_text(json.dumps(content))
    assert read_results(path).trials == [trial(1, 1.0)]
    content["trials"][0][name] = value
    path.write_text(json.dumps(content))
    with pytest.raises(UserError, match=r"is not a _results\.json file of run_finetuning"):
        read_results(path)


def test_merging_refuses_two_results_for_one_cell(tmp_path):
    paths = [write_run(tmp_path / d, "m", "cola", [trial(1, 1.0)]) for d in ("a", "b")]
    with pytest.raises(UserError, match=r"both have cola/dev \(mcc\) of 'm'.*--names"):
        merge_tables(paths)
    with pytest.raises(UserError, match="--names has 1 names for the 2 files of --results"):
        merge_tables(paths, ["x"])


def test_a_run_without_a_finished_trial_keeps_its_row(tmp_path):
    paths = [
        write_run(tmp_path / "a", "lost", "cola", [DIVERGED]),
        write_run(tmp_path / "b", "fine", "cola", [trial(1, 1.0)]),
    ]
    assert "| lost | - |\n| fine | 10.00 (1) |" in merge_tables(paths)
