"""Trackers: the packages themselves where they are installed, else stand-ins."""

import json
import pathlib
import shutil
import sys
import types

import pytest
import tensorflow as tf

from electra_tf.config.tracker_fields import TrackerFields
from electra_tf.training.monitoring.log import TrainLog
from electra_tf.training.monitoring.trackers import (
    IDS_FILE,
    TRACKERS,
    check_trackers,
    close_trackers,
    log_to,
    open_trackers,
)
from electra_tf.util.console import warn_once
from electra_tf.util.errors import PreemptedError, UserError

SETTINGS = {"learning_rate": 1e-3, "hidden": {"size": 4}, "unset": None, "seed": 1}


def start_log(folder: pathlib.Path, trackers: list, first_step: int = 0) -> TrainLog:
    return TrainLog(
        str(folder),
        first_step=first_step,
        num_train_steps=20,
        batch_size=1,
        settings=SETTINGS,
        trackers=trackers,
        stream=sys.stderr,
    )


def test_the_trackers_in_use_are_those_with_a_project():
    assert TrackerFields(wandb="", mlflow=None).trackers == {}
    assert TrackerFields(mlflow="p").trackers == {"mlflow": "p"}
    assert TrackerFields(mlflow="a", wandb="b").trackers == {"wandb": "b", "mlflow": "a"}
    assert TRACKERS.keys() == TrackerFields(mlflow="a", wandb="b").trackers.keys()


def test_nothing_is_written_without_a_tracker(tmp_path):
    check_trackers({})
    assert open_trackers({}, model_dir=str(tmp_path), settings=SETTINGS) == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["wandb", "mlflow"])
def test_a_missing_package_names_the_flag_and_the_extra(name, monkeypatch):
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(UserError, match=rf"--{name} needs {name}.*electra-tf\[{name}\]"):
        check_trackers({name: "project"})


def test_a_failing_tracker_is_warned_of_once(capsys):
    def fail(step: int, values: dict) -> None:
        raise ConnectionError("no server")

    warn_once.cache_clear()
    tracker = types.SimpleNamespace(name="mlflow", log=fail)
    for step in (1, 2):
        log_to([tracker], step, {"loss": 1.0})
    expected = "warning: --mlflow: some values are not logged: no server\n"
    assert capsys.readouterr().err == expected


@pytest.mark.parametrize("name", ["wandb", "mlflow"])
def test_a_tracker_that_cannot_start_is_one_line(name, tmp_path, monkeypatch):
    def fail(**given):
        raise ConnectionError("no server")

    package = types.SimpleNamespace(init=fail, MlflowClient=fail)
    monkeypatch.setitem(sys.modules, name, package)
    projects = {name: "project"}
    with pytest.raises(UserError, match=f"^--{name} cannot start a run: no server$"):
        open_trackers(projects, model_dir=str(tmp_path), settings=SETTINGS)
    ids = tmp_path / IDS_FILE
    ids.write_text(json.dumps({name: "deleted"}))
    message = f"^--{name} cannot continue the run that {ids} names: no server. To start a new"
    with pytest.raises(UserError, match=message):
        open_trackers(projects, model_dir=str(tmp_path), settings=SETTINGS)


def test_a_tracker_that_cannot_end_is_warned_of_and_the_others_end(tmp_path, capsys):
    def fail(error: BaseException | None) -> None:
        raise ConnectionError("no server")

    warn_once.cache_clear()
    ended = []
    trackers = [
        types.SimpleNamespace(name="wandb", close=fail),
        types.SimpleNamespace(name="mlflow", close=lambda error: ended.append("mlflow")),
    ]
    start_log(tmp_path, trackers).close()
    assert ended == ["mlflow"]
    error = "warning: --wandb: the run could not be ended: no server\n"
    assert error in capsys.readouterr().err


def test_wandb_goes_on_with_its_run(tmp_path, monkeypatch):
    """With a stand-in for the package, which needs no server."""
    runs: list[types.SimpleNamespace] = []

    def init(**given):
        run = types.SimpleNamespace(given=given, id=given["id"] or "new", logged=[])
        run.log = lambda values, step: run.logged.append((step, values))
        run.finish = lambda exit_code: run.logged.append(exit_code)
        runs.append(run)
        return run

    monkeypatch.setitem(sys.modules, "wandb", types.SimpleNamespace(init=init))
    folder = tmp_path / "model"
    folder.mkdir()
    for first_step in (0, 10):
        trackers = open_trackers({"wandb": "p"}, model_dir=str(folder), settings=SETTINGS)
        log = start_log(folder, trackers, first_step)
        log.training(first_step + 10, {"loss": 2.0, "disc_auc": float("nan")})
        log.close()
    first, second = runs
    assert (first.given["project"], first.given["name"]) == ("p", "model")
    assert first.given["config"] == SETTINGS
    assert [run.given["id"] for run in runs] == [None, "new"]
    ((step, values), end) = second.logged
    assert (step, end) == (20, 0)
    assert values["train/loss"] == 2.0
    # Another learning rate: a run that resumes keeps its run, one that starts anew does not.
    other = {**SETTINGS, "learning_rate": 1e-4}
    for first_step in (10, 0):
        open_trackers(
            {"wandb": "p"}, model_dir=str(folder), settings=other, first_step=first_step
        )
        other = {**SETTINGS, "learning_rate": 1e-5}
    assert [run.given["id"] for run in runs[2:]] == ["new", None]
    assert "train/steps_per_second" in values
    assert "train/disc_auc" not in values


def test_wandb_itself_offline(tmp_path, monkeypatch):
    pytest.importorskip("wandb", reason="needs the extra wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    (tracker,) = open_trackers({"wandb": "p"}, model_dir=str(tmp_path), settings=SETTINGS)
    tracker.log(10, {"train/loss": 2.0})
    tracker.close()
    ids = json.loads((tmp_path / IDS_FILE).read_text())
    assert list((tmp_path / "wandb").glob(f"offline-run-*-{ids['wandb']}/*.wandb"))


def test_mlflow_itself_with_files(tmp_path, monkeypatch):
    mlflow = pytest.importorskip("mlflow", reason="needs the extra mlflow")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", (tmp_path / "store").as_uri())
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    folder = tmp_path / "model"
    folder.mkdir()
    for first_step in (0, 10):
        settings = {**SETTINGS, "seed": first_step}
        trackers = open_trackers({"mlflow": "e"}, model_dir=str(folder), settings=settings)
        log = start_log(folder, trackers, first_step)
        values = {"loss": 2.0 - first_step / 10, "norm": 3.0, "norm/electra/layer_0": 1.0}
        log.evaluation(first_step + 10, {**values, "größe [%]": 4.0})
        log.close()
    client = mlflow.MlflowClient()
    experiment = client.get_experiment_by_name("e").experiment_id
    (run,) = client.search_runs([experiment])
    assert run.info.run_name == "model"
    assert run.info.status == "FINISHED"
    assert run.data.params == {"learning_rate": "0.001", "hidden": '{"size": 4}', "seed": "0"}
    metrics = run.data.metrics
    assert (metrics["eval/norm"], metrics["eval/norm.electra.layer_0"]) == (3.0, 1.0)
    history = client.get_metric_history(run.info.run_id, "eval/loss")
    assert [(each.step, each.value) for each in history] == [(10, 2.0), (20, 1.0)]


@pytest.mark.parametrize(
    ("error", "exit_code", "status"),
    [
        (None, 0, "FINISHED"),
        (UserError("Step 3: not finite"), 1, "FAILED"),
        (PreemptedError("Preempted at step 3"), 1, "KILLED"),
        (KeyboardInterrupt(), 1, "KILLED"),
    ],
    ids=["done", "diverged", "preempted", "interrupted"],
)
def test_trackers_are_told_how_a_run_ended(error, exit_code, status, tmp_path, monkeypatch):
    """A run that diverged must not be listed among those that are done."""
    ends: list = []
    run = types.SimpleNamespace(id="w", finish=lambda **given: ends.append(given))
    client = types.SimpleNamespace(
        update_run=lambda *_, **__: None,
        set_terminated=lambda run_id, **given: ends.append(given),
    )
    monkeypatch.setitem(sys.modules, "wandb", types.SimpleNamespace(init=lambda **_: run))
    stand_in = types.SimpleNamespace(MlflowClient=lambda: client)
    monkeypatch.setitem(sys.modules, "mlflow", stand_in)
    (tmp_path / IDS_FILE).write_text(json.dumps({"mlflow": "m"}))
    trackers = open_trackers(
        {"wandb": "p", "mlflow": "p"}, model_dir=str(tmp_path), settings=SETTINGS
    )
    start_log(tmp_path, trackers).close(error)
    assert ends == [{"exit_code": exit_code}, {"status": status}]


def test_values_that_mlflow_could_not_log_are_warned_of(tmp_path, monkeypatch, capsys):
    def fail() -> None:
        raise NotADirectoryError("train/norm")

    warn_once.cache_clear()
    client = types.SimpleNamespace(
        update_run=lambda *_, **__: None,
        set_terminated=lambda *_, **__: None,
        log_metric=lambda run, name, *_, **__: types.SimpleNamespace(
            wait=fail if name == "train/norm._a_" else list
        ),
    )
    stand_in = types.SimpleNamespace(MlflowClient=lambda: client)
    monkeypatch.setitem(sys.modules, "mlflow", stand_in)
    (tmp_path / IDS_FILE).write_text(json.dumps({"mlflow": "m"}))
    trackers = open_trackers({"mlflow": "p"}, model_dir=str(tmp_path), settings=SETTINGS)
    log = start_log(tmp_path, trackers)
    log.training(10, {"norm": 1.0})
    log.training(20, {"norm/[a]": 1.0})
    log.close()
    error = "warning: --mlflow: some values are not logged: train/norm\n"
    assert error in capsys.readouterr().err


def test_tensorboard_gets_the_settings(tmp_path):
    start_log(tmp_path, []).close()
    (events,) = (tmp_path / "tensorboard").glob("events*")
    plugins = [
        value.metadata.plugin_data
        for event in tf.compat.v1.train.summary_iterator(str(events))
        for value in event.summary.value
    ]
    (hparams,) = [each for each in plugins if each.plugin_name == "hparams"]
    # Its id, without which TensorBoard takes all runs for one.
    for text in (b"learning_rate", b"hidden", b'{"size": 4}', str(tmp_path).encode()):
        assert text in hparams.content


def test_mlflow_goes_on_with_its_run(tmp_path, monkeypatch):
    """With a stand-in for the package, which needs no server."""
    calls: list[tuple] = []

    class Client:
        def get_experiment_by_name(self, name: str):
            calls.append(("look for", name))

        def create_experiment(self, name: str) -> str:
            return f"id of {name}"

        def create_run(self, experiment: str, run_name: str):
            calls.append(("create", experiment, run_name))
            return types.SimpleNamespace(info=types.SimpleNamespace(run_id="r1"))

        def log_param(self, *given) -> None:
            calls.append(("parameter", *given))

        def update_run(self, run: str, status: str) -> None:
            calls.append(("go on", run, status))

        def log_metric(self, run: str, name: str, value: float, step: int, synchronous: bool):
            assert not synchronous
            calls.append((name, value, step))
            return types.SimpleNamespace(wait=lambda: calls.append("waited"))

        def set_terminated(self, run: str, status: str) -> None:
            calls.append(("end", run, status))

    monkeypatch.setitem(sys.modules, "mlflow", types.SimpleNamespace(MlflowClient=Client))
    folder = tmp_path / "model"
    folder.mkdir()
    starts = []
    for first_step in (0, 10):
        calls.clear()
        trackers = open_trackers({"mlflow": "p"}, model_dir=str(folder), settings=SETTINGS)
        starts.append([*calls])
        log_to(trackers, first_step + 10, {"train/loss": 2.0})
        close_trackers(trackers)
    assert starts[0][:2] == [("look for", "p"), ("create", "id of p", "model")]
    assert ("parameter", "r1", "hidden", '{"size": 4}') in starts[0]
    assert not any("unset" in call for call in starts[0])
    assert starts[1] == [("go on", "r1", "RUNNING")]
    assert calls[1:] == [("train/loss", 2.0, 20), "waited", ("end", "r1", "FINISHED")]
    recorded = {"folder": "model", "mlflow": "r1", "projects": {"mlflow": "p"}}
    assert json.loads((folder / IDS_FILE).read_text()).items() > recorded.items()
    # An experiment that is there is taken.
    monkeypatch.setattr(
        Client,
        "get_experiment_by_name",
        lambda *_: types.SimpleNamespace(experiment_id="there"),
    )
    (folder / IDS_FILE).unlink()
    calls.clear()
    open_trackers({"mlflow": "p"}, model_dir=str(folder), settings=SETTINGS)
    assert calls[0] == ("create", "there", "model")


@pytest.mark.parametrize("name", ["wandb", "mlflow"])
def test_a_resumed_run_does_not_move_to_another_project(name, tmp_path, monkeypatch, capsys):
    """It logged to the old experiment of MLflow, and to half a run in Weights & Biases.

    The run of a folder is not that of its copy, which is warned of.
    """
    warn_once.cache_clear()
    started = []
    client = types.SimpleNamespace(update_run=lambda *given, **_: started.append(given))

    def init(**given):
        started.append(given)
        return types.SimpleNamespace(id="r1")

    package = types.SimpleNamespace(init=init, MlflowClient=lambda: client)
    monkeypatch.setitem(sys.modules, name, package)
    ids = tmp_path / IDS_FILE
    ids.write_text(json.dumps({name: "r1"}))  # which does not say of which project
    settings = {"model_dir": str(tmp_path), "settings": SETTINGS}
    for _ in range(2):
        open_trackers({name: "first"}, **settings)
    assert len(started) == 2
    assert capsys.readouterr().err == ""
    copy = tmp_path / "copy"
    shutil.copytree(tmp_path, copy, ignore=lambda *_: ["copy"])
    for expected in (f"warning: --{name}: copy continues the run of {tmp_path.name}, ", ""):
        open_trackers({name: "first"}, settings=SETTINGS, model_dir=str(copy))
        warned = capsys.readouterr().err
        assert warned.startswith(expected) if expected else not warned
    started.clear()
    message = (
        f"^--{name}=second: this run logs to 'first', as {ids} records. Pass --{name}=first"
    )
    with pytest.raises(UserError, match=message):
        open_trackers({name: "second"}, **settings)
    assert not started
