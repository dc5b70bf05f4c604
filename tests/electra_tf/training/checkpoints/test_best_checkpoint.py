"""The best evaluation of a run and its weights, across restarts."""

import json
import math
import os
import pathlib

import pytest
import tensorflow as tf

from electra_tf.training.checkpoints.best_checkpoint import BestCheckpoint
from electra_tf.training.checkpoints.checkpoint_files import checkpoint_steps
from electra_tf.training.distribution.workers import Workers
from electra_tf.util.console import warn_once
from finetune import run as finetuning
from finetune.ensemble import rank_trials
from finetune.results.summary import TrialResult
from finetune.trials.trial_runs import TrialRun

WORKERS = Workers(tf.distribute.get_strategy())


class Run:
    """A run whose only weight is the step at which it was saved."""

    def __init__(
        self, folder: pathlib.Path, step: int = 0, keeps_weights: bool = True, **given: int
    ) -> None:
        self.model = tf.Module()
        self.model.weight = tf.Variable(-1.0)
        self.step = tf.Variable(step, dtype=tf.int64, trainable=False)
        self.best = BestCheckpoint(
            str(folder), self.model, self.step, WORKERS, keeps_weights=keeps_weights, **given
        )

    def evaluate(self, step: int, value: float) -> bool:
        self.step.assign(step)
        self.model.weight.assign(step)
        return self.best.update(value)

    def restored(self) -> float:
        self.best.restore()
        return float(self.model.weight)


@pytest.mark.parametrize("first", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_is_never_the_best(tmp_path, first):
    run = Run(tmp_path)
    assert not run.evaluate(5, first)
    assert run.best.step is None
    assert run.best.evaluations_since_best == 1
    assert run.evaluate(10, 0.1)
    assert not run.evaluate(15, math.nan)
    assert (run.best.step, run.best.evaluations_since_best) == (10, 1)
    again = Run(tmp_path, 15)
    assert (again.best.step, again.best.value) == (10, 0.1)
    assert again.evaluate(20, 0.2)
    assert again.restored() == 20


def test_only_the_best_weights_are_kept(tmp_path):
    run = Run(tmp_path)
    for step, value in ((5, 0.5), (10, 0.3), (15, 0.6)):
        run.evaluate(step, value)
    assert checkpoint_steps(str(tmp_path)) == [15]


def test_of_equal_values_the_first_is_the_best_also_after_a_restart(tmp_path):
    run = Run(tmp_path, keeps_weights=False)
    for step in (5, 10):
        run.evaluate(step, 0.5)
    assert run.best.step == Run(tmp_path, 10, keeps_weights=False).best.step == 5


def test_all_evaluations_count_before_the_first_finite_one(tmp_path):
    run = Run(tmp_path, keeps_weights=False)
    for step in (0, 5):
        run.evaluate(step, math.nan)
    assert run.best.evaluations_since_best == 2


def test_a_resumed_run_remembers_the_best_and_its_file(tmp_path):
    """Killed after evaluations that its checkpoint, of step 10, does not know."""
    run = Run(tmp_path)
    for step, value in ((5, 0.5), (10, 0.3), (15, 0.4)):
        run.evaluate(step, value)
    again = Run(tmp_path, 10)
    assert (again.best.step, again.best.value) == (5, 0.5)
    assert again.best.evaluations_since_best == 1
    assert not again.evaluate(15, 0.4)
    assert again.best.evaluations_since_best == 2
    assert again.restored() == 5


def test_the_best_after_the_step_resumed_from_stays(tmp_path):
    run = Run(tmp_path)
    for step, value in ((5, 0.5), (10, 0.3), (15, 0.9)):
        run.evaluate(step, value)
    again = Run(tmp_path, 10)
    assert not again.evaluate(12, 0.6)
    assert again.best.evaluations_since_best == 0
    assert not again.evaluate(15, 0.9)
    assert (again.best.step, again.best.evaluations_since_best) == (15, 0)
    assert again.restored() == 15
    # An older one that is better replaces the file of the later step.
    earlier = Run(tmp_path, 10)
    assert earlier.evaluate(12, 0.95)
    assert Run(tmp_path, 20).restored() == 12


@pytest.mark.parametrize("keeps_weights", [True, False])
def test_a_kill_between_weights_and_record(tmp_path, monkeypatch, keeps_weights):
    run = Run(tmp_path, keeps_weights=keeps_weights)
    run.evaluate(5, 0.5)

    class Killed(BaseException):
        pass

    def kill(*_) -> None:
        raise Killed

    monkeypatch.setattr(
        "electra_tf.training.checkpoints.best_checkpoint.write_atomically", kill
    )
    with pytest.raises(Killed):
        run.evaluate(10, 0.6)
    monkeypatch.undo()
    again = Run(tmp_path, 5, keeps_weights=keeps_weights)
    assert (again.best.step, again.best.value) == (5, 0.5)
    if keeps_weights:
        assert again.restored() == 5


def test_lost_weights_are_forgotten_with_a_warning(tmp_path, capsys):
    Run(tmp_path).evaluate(5, 0.5)
    os.truncate(tmp_path / "ckpt-5.index", 10)
    run = Run(tmp_path, 5)
    assert run.best.step is None
    assert f"{tmp_path}/ckpt-5, are not intact" in capsys.readouterr().err
    assert run.evaluate(10, 0.1)
    assert run.restored() == 10


@pytest.mark.parametrize(
    "content", [None, b"", b"[]", b'{"step": 1, "value": 0.5, "evaluations": [1]}', b"\xff"]
)
def test_a_record_that_is_missing_or_damaged_is_forgotten(tmp_path, content, capsys):
    run = Run(tmp_path)
    run.evaluate(2, 0.5)
    (record,) = [path for path in tmp_path.rglob("best*.json") if "ckpt" not in path.name]
    if content is None:
        record.unlink()
    else:
        record.write_bytes(content)
    capsys.readouterr()
    again = Run(tmp_path, step=2)
    assert again.best.step is None
    (warning,) = capsys.readouterr().err.splitlines()
    problem = "missing" if content is None else "damaged"
    assert warning.startswith(f"warning: {record} is {problem}")
    assert warning.endswith("the best evaluation so far is forgotten")


@pytest.mark.parametrize(("step", "is_missed"), [(4, False), (5, True), (7, True)])
def test_a_folder_that_was_removed_is_missed_after_an_evaluation(
    tmp_path, step, is_missed, capsys
):
    warn_once.cache_clear()
    Run(tmp_path / "best", step, first_evaluation=5)
    warned = capsys.readouterr().err
    assert ("best.json is missing: the best evaluation so far is" in warned) is is_missed
    Run(tmp_path / "best", step, keeps_weights=False, first_evaluation=5)
    assert not capsys.readouterr().err


def test_records_of_older_versions_are_read(tmp_path):
    run = Run(tmp_path)
    run.evaluate(5, 0.5)
    old = {"step": 5, "value": 0.5, "evaluations_since_best": 1, "last_step": 10}
    (tmp_path / "best.json").write_text(json.dumps(old))
    again = Run(tmp_path, 10)
    assert (again.best.step, again.best.evaluations_since_best) == (5, 1)
    (tmp_path / "best.json").write_text(json.dumps(old | {"value": math.nan}))
    assert Run(tmp_path, 10).evaluate(15, 0.1)


def test_predictions_are_not_those_of_a_trial_without_a_score(tmp_path):
    restored = []

    class Trainer:
        def restore(self, model_dir: str) -> None:
            restored.append(os.path.basename(model_dir))

    runs, results = [], []
    for number, score in enumerate((math.nan, 0.2, 0.1), start=1):
        (tmp_path / str(number)).mkdir()
        runs.append(TrialRun(number, number, str(tmp_path / str(number))))
        results.append(
            TrialResult(
                trial=number,
                seed=number,
                metrics={"cola/dev": {"mcc": score}},
                main={"cola/dev": "mcc"},
            )
        )
    finetuning._restore_best(Trainer(), rank_trials(runs, results))
    assert restored == ["2"]
