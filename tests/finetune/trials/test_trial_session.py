"""What a trial leaves beside its results."""

import pathlib
import types

import numpy as np

from finetune.results.calibration import calibrate
from finetune.tasks.base import Scores, SplitData
from finetune.trials.trial_runs import TrialRun
from finetune.trials.trial_session import TrialSession


def test_files_of_another_kind_of_task_are_removed(tmp_path):
    """As where the description of a task has changed from classification to regression."""
    config = types.SimpleNamespace(results_dir=str(tmp_path), tasks_label="mine")
    task = types.SimpleNamespace(
        name="mine", errors=lambda *_: [], write_dev_answers=lambda *_: []
    )
    session = TrialSession(config, None, [task], None, TrialRun(1, 1, ""), "", print)
    data = SplitData("dev", [], [], True)
    predicted = np.array([[1.0, 0.0], [0.5, 1.0]]), np.array([0, 1])
    scores = Scores({"accuracy": 1.0}, "accuracy", np.eye(2, dtype=int), ("a", "b"))
    session._write_split(task, data, [], scores, calibrate(*predicted, 1.0, "dev"))
    other = tmp_path / "mine_dev_2_confusion.json"
    other.touch()

    def written() -> set[str]:
        return {path.name for path in pathlib.Path(tmp_path).iterdir()}

    of_classes = {f"mine_dev_1_{name}" for name in ("confusion.json", "calibration.json")}
    assert of_classes < written()
    session._write_split(task, data, [], Scores({"pearson": 1.0}, "pearson"), None)
    assert written() == {"mine_dev_1_errors.json", other.name}


def test_missing_confusion_matrices_are_explained(tmp_path, capsys):
    config = types.SimpleNamespace(results_dir=str(tmp_path), tasks_label="mine")
    task = types.SimpleNamespace(
        name="mine", errors=lambda *_: [], write_dev_answers=lambda *_: []
    )
    session = TrialSession(config, None, [task], None, TrialRun(1, 1, ""), "", print)
    scores = Scores({"accuracy": 1.0}, "accuracy", labels=("a", "b"))
    session._write_split(task, SplitData("dev", [], [], True), [], scores, None)
    assert not list(tmp_path.glob("*confusion*"))
    assert capsys.readouterr().out == (
        "mine/dev: no confusion matrix, as there are more than 2,000 labels\n"
    )
