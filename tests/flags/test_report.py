"""Flags of report.py, reports at the end of runs, and the program itself."""

import dataclasses
import pathlib
import subprocess
import sys

import pytest
from absl import flags as absl_flags

from electra_tf.config.pretraining import PretrainingConfig
from electra_tf.report.page import report_page, write_report
from electra_tf.report.runs import read_training_run
from electra_tf.util.errors import UserError
from finetune.results.confusion_counts import CONFUSION_SUFFIX, write_confusion
from finetune.results.report_runs import read_finetuning_run
from finetune.results.result_files import file_stem, read_results, write_results
from finetune.results.summary import TrialResult
from finetune.results.worst_errors import ERRORS_SUFFIX, PredictionError, write_errors
from flags import hyperparameters, report
from flags.command_line import parsing
from tests.electra_tf.report.test_page import write_run

ROOT = pathlib.Path(__file__).parents[2]


def parse(*arguments: str) -> report.ReportConfig:
    flag_values = absl_flags.FlagValues()
    report.define_flags(flag_values)
    rest = parsing.parse(["program", *arguments], None, flag_values)
    return report.config_from_flags(rest[1:], flag_values)


def test_a_run_without_logged_values_is_not_called_healthy(tmp_path):
    write_run(tmp_path / "whole")
    healthy = "No problems found in the logged values."
    assert healthy in report_page([read_training_run(tmp_path / "whole")])
    (tmp_path / "killed").mkdir()
    # Killed within its first line.
    (tmp_path / "killed/train_log.jsonl").write_text('{"step": 1')
    page = report_page([read_training_run(tmp_path / "killed")])
    assert healthy not in page
    assert "Nothing has been logged." in page


def write_finetuning(folder: pathlib.Path) -> str:
    """Writes what three folds leave, the log of the last of them missing."""
    trials = [
        TrialResult(
            trial=1,
            fold=fold,
            seed=42,
            steps=2000,
            status="degenerate" if fold == 2 else "ok",
            reason="t: always predicts 'a'" if fold == 2 else None,
            metrics={"t/held_out": {"accuracy": 50.0 + fold}},
            main={"t/held_out": "accuracy"},
        )
        for fold in (1, 2, 3)
    ]
    results = folder / "results"
    for fold in (1, 2):
        path = results / f"t_held_out_1_fold{fold}{CONFUSION_SUFFIX}"
        write_confusion(path, ["a", "b"], [[fold, 1], [0, 2]])
        errors = [PredictionError(f"text {fold}", "a", "<b>", fold + i) for i in range(15)]
        write_errors(results / f"t_held_out_1_fold{fold}{ERRORS_SUFFIX}", errors)
        write_run(folder / f"own_1_fold{fold}", task_names=["t"], learning_rate=1e-4)
    return write_results(
        trials,
        model_name="small",
        tasks_label="t",
        results_dir=str(results),
        model_dir=str(folder / "own"),
    ).json


def test_joint_training_has_files_of_its_own(tmp_path):
    """They lie beside those of training on one of the tasks."""
    metrics = {"t/dev": {"accuracy": 50.0}}
    trial = TrialResult(trial=1, seed=42, steps=9, metrics=metrics, main={"t/dev": "accuracy"})
    paths = {}
    for tasks, count in (("t", 1), ("t,u", 2)):
        stem = tmp_path / file_stem(tasks, "t/dev", "1")
        write_confusion(f"{stem}{CONFUSION_SUFFIX}", ["a", "b"], [[count, 0], [0, 0]])
        write_errors(f"{stem}{ERRORS_SUFFIX}", [PredictionError("x", "a", "b", count)])
        settings = {"model_name": "m", "tasks_label": tasks, "results_dir": str(tmp_path)}
        paths[count] = write_results([trial], **settings, model_dir=str(tmp_path / "own")).json
    for count, path in paths.items():
        found = read_finetuning_run(path)
        assert found.confusions[0].counts[0][0] == count
        assert found.errors[0].rows[0][3] == f"{count}.000"


def test_runs_are_arguments_and_the_report_lies_beside_them(tmp_path):
    first, second = (write_run(tmp_path / name) for name in ("a", "b"))
    assert parse(str(first)).output == str(first / "report.html")
    # Results of several tasks can lie in one folder.
    results = tmp_path / "cola_results.json"
    results.touch()
    assert parse(str(results)).output == str(tmp_path / "cola_report.html")
    several = parse(str(first), str(second), "--output", "x.html")
    assert several == report.ReportConfig((str(first), str(second)), "x.html")
    assert parse(str(first), str(second)).output == "report.html"
    with pytest.raises(UserError, match="--output is empty: pass a path"):
        parse(str(first), "--output=")
    log = first / "train_log.jsonl"
    with pytest.raises(UserError, match=f"--output={log} exists, and is a file of a model"):
        parse(str(first), f"--output={log}")
    log = tmp_path / "log.txt"
    log.write_text("step 1")
    with pytest.raises(UserError, match=f"--output={log} exists and is not a report"):
        parse(str(second), "--output", str(log))
    with pytest.raises(UserError, match=f"--output={first} is a folder"):
        parse(str(second), "--output", str(first))
    page = tmp_path / "page.html"
    write_report(page, report.read_runs([str(first)]))
    assert parse(str(second), "--output", str(page)).output == str(page)
    with pytest.raises(UserError, match="Name the runs"):
        parse()
    with pytest.raises(UserError, match=r"No such run: .*none"):
        parse(str(tmp_path / "none"))
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match=r"empty is not a run: it has neither train_log"):
        report.read_runs([str(tmp_path / "empty")])


def test_fine_tuning_shows_scores_logs_and_the_added_confusion(tmp_path):
    (run,) = report.read_runs([str(pathlib.Path(write_finetuning(tmp_path)).parent)])
    assert run.name == "small on t"
    assert list(run.logs) == ["trial 1, fold 1", "trial 1, fold 2"]
    assert run.notes == ["No log of trial 1, fold 3."]
    assert run.settings["learning_rate"] == 1e-4
    assert run.health == ["trial 1, fold 2: degenerate: t: always predicts 'a'"]
    (table,) = run.tables
    assert table.header[-1] == "accuracy"
    assert [row[-1] for row in table.rows] == ["51.00", "52.00", "53.00", "52.00"]
    (confusion,) = run.confusions
    assert confusion.title == "t/held_out, 2 folds"
    assert confusion.counts == [[3, 2], [0, 4]]
    (errors,) = run.errors
    assert errors.title == "t/held_out: worst 20 of 30 errors"
    assert errors.rows[0] == ["text 2", "a", "<b>", "16.000", "trial 1, fold 2"]
    assert errors.rows[1][3:] == ["15.000", "trial 1, fold 1"]
    assert "<td>text 2</td><td>a</td><td>&lt;b&gt;</td>" in report_page([run])
    damaged = tmp_path / "results" / f"t_held_out_1_fold1{CONFUSION_SUFFIX}"
    ragged = '{"labels": ["a", "b"], "counts": [[1, 2], [3]]}'
    texts = '{"labels": ["a", "b"], "counts": [[1, 2], [3, "4"]]}'
    for content in ("{}", ragged, texts):
        damaged.write_text(content)
        with pytest.raises(UserError, match=r"fold1_confusion\.json is not a confusion matrix"):
            read_finetuning_run(tmp_path / "results" / "t_results.json")


def test_files_that_an_earlier_run_left_are_not_those_of_a_diverged_trial(tmp_path):
    """A trial of the same number had scores, errors and a confusion matrix before."""
    path = pathlib.Path(write_finetuning(tmp_path))
    trials = [
        dataclasses.replace(trial, status="diverged", metrics={}, main={})
        if trial.fold == 2
        else trial
        for trial in read_results(path).trials
    ]
    folders = {"results_dir": str(path.parent), "model_dir": str(tmp_path / "own")}
    write_results(trials, model_name="small", tasks_label="t", **folders)
    run = read_finetuning_run(path)
    assert [each.title for each in run.confusions] == ["t/held_out"]
    assert run.confusions[0].counts == [[1, 1], [0, 2]]
    assert run.errors[0].title == "t/held_out: worst 15 of 15 errors"


def test_runs_of_one_name_are_named_by_their_paths(tmp_path):
    for name in ("x", "y"):
        (tmp_path / name).mkdir()
    paths = [str(write_run(tmp_path / name / "small")) for name in ("x", "y")]
    assert [run.name for run in report.read_runs(paths)] == paths


def test_the_report_at_the_end_of_a_run_never_fails(tmp_path, monkeypatch):
    lines: list[str] = []
    config = PretrainingConfig(model_dir=str(write_run(tmp_path / "run")))
    report.report_pretraining(config, lines.append)
    assert lines == [f"Report:      {tmp_path / 'run' / 'report.html'}"]
    reasons = {
        "needs plotly": UserError("needs plotly"),
        "r.html: No space left": OSError(28, "No space left", "r.html"),
        "'x'": KeyError("x"),
        "ValueError": ValueError(),
    }
    for reason, error in reasons.items():

        def fail(*_: object, error: Exception = error) -> None:
            raise error

        monkeypatch.setattr(report, "write_report", fail)
        report.report_pretraining(config, lines.append)
        assert lines[-1] == f"Report:      not written: {reason}"
    assert len(lines) == 5


def test_the_quickstart_has_a_reference_curve(tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)  # recipes name files of the repository
    flag_values = absl_flags.FlagValues()
    hyperparameters.define_flags(PretrainingConfig, flag_values)
    flag_values(["program", "--flagfile=recipes/quickstart.flags"])
    given = hyperparameters.explicit_values(PretrainingConfig, flag_values)
    folder = write_run(tmp_path / "run", **given)
    (found,) = report.references_of([read_training_run(folder)])
    assert found.name == "reference: quickstart"
    assert [r["step"] for r in found.logs[""] if r["kind"] == "eval"] == [500, 1000, 1500, 2000]
    other = write_run(tmp_path / "other", **{**given, "learning_rate": 1.0})
    assert report.references_of([read_training_run(other)]) == []


def test_the_program_writes_a_report_without_tensorflow(tmp_path):
    results = write_finetuning(tmp_path)
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "report.py", results],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr[-500:]
    path = tmp_path / "results" / "t_report.html"
    assert done.stdout == f"Report: {path}\n"
    assert path.stat().st_size > 1_000_000
    assert "| tensorflow" not in done.stderr
