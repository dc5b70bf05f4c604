"""What the folder of a model says of it, and when it is of something else."""

import dataclasses
import json
import pathlib
import re
from types import SimpleNamespace

import pytest

from electra_tf.config.saved_config import DATA
from electra_tf.util.console import discard, warn_once
from electra_tf.util.errors import UserError
from finetune.config.task_kinds import CLASSIFICATION, MULTIPLE_CHOICE, TaskKind
from finetune.data.folds import Fold
from finetune.results.provenance import PRETRAINED
from finetune.trials import model_folders
from finetune.trials.evaluation_checks import (
    check_alike,
    check_described,
    check_descriptions,
    check_fold,
    check_labels,
    check_pretrained,
    check_ranges,
    warn_of_other_inputs,
    warn_of_trained_examples,
)
from finetune.trials.model_folders import (
    FOLD_EXAMPLES,
    TRAIN_FILES,
    changes_of_model,
    prepare_folder,
    saved_labels,
    set_aside,
    train_digest,
)
from finetune.trials.trial_runs import TrialRun


@pytest.fixture
def record(tmp_path):
    """Returns a function that writes the config.json of a model, and its folder."""

    def write(**hyperparameters) -> str:
        content = {"hyperparameters": hyperparameters, "variables": {}, "version": 2}
        (tmp_path / "config.json").write_text(json.dumps(content))
        return str(tmp_path)

    return write


def fold_of(folder: str, **changes) -> TrialRun:
    parts = {"train": (0, 1), "selection": (), "held_out": (2,), "by_group": False}
    fold = Fold(**(parts | changes))
    return TrialRun(1, 5, folder, 2, fold)


def test_other_labels_than_those_of_the_model_are_refused(record):
    def task(*labels: str, kind: TaskKind = CLASSIFICATION) -> SimpleNamespace:
        return SimpleNamespace(name="topic", labels=labels, kind=kind)

    saved = saved_labels(record(labels={"topic": ["a", "b"]}))
    check_labels("m", saved, [task("a", "b")])
    check_labels("m", {}, [task("a", "c")])
    with pytest.raises(
        UserError, match=r"trained on the labels a, b of task topic, but .* b, a"
    ):
        check_labels("m", saved, [task("b", "a")])
    # More choices than in training.
    check_labels("m", saved, [task("a", "b", "c", kind=MULTIPLE_CHOICE)])


def test_models_of_which_one_does_not_record_a_setting_that_differs(
    make_finetuning_config, tmp_path
):
    """Since it is of an older version; what is given counts for it."""
    models = {}
    for title, recorded in {"Trial 1": {"focal_gamma": 2.0}, "Trial 2": {}}.items():
        content = {"hyperparameters": {"model_name": "m", **recorded}, "variables": {}}
        folder = tmp_path / title
        folder.mkdir()
        (folder / "config.json").write_text(json.dumps({**content, "version": 2}))
        models[title] = str(folder)
    config = make_finetuning_config()
    check_alike(dataclasses.replace(config, focal_gamma=2.0), models)
    with pytest.raises(UserError, match=r"aggregated: focal_gamma: 2\.0 before, 0\.0 now\. F"):
        check_alike(config, models)


def test_a_fold_is_that_of_its_examples(record):
    fold = fold_of(record())
    check_fold(fold_of(record(**{FOLD_EXAMPLES: fold.examples.digest})))
    with pytest.raises(UserError, match=r"on different examples than those of fold 2"):
        check_fold(fold_of(record(**{FOLD_EXAMPLES: "of others"})))


def test_a_fold_of_older_versions_follows_from_its_seed(record):
    check_fold(fold_of(record(trial_seed=5)))
    for seed, changes in ((6, {}), (5, {"selection": (3,)}), (5, {"by_group": True})):
        with pytest.raises(UserError, match="would not be on held-out examples"):
            check_fold(fold_of(record(trial_seed=seed), **changes))


def test_a_model_of_other_weights_is_refused_where_both_are_known(record):
    folder = record(**{PRETRAINED: "abc"})
    for now in (None, "abc"):
        check_pretrained(folder, now)
    check_pretrained(record(), "abd")
    with pytest.raises(UserError, match=r"fine-tuned from weights other than the current ones"):
        check_pretrained(record(**{PRETRAINED: "abc"}), "abd")


def test_the_log_of_a_model_may_end_in_the_middle_of_a_record(tmp_path):
    log = tmp_path / "train_log.jsonl"
    log.write_text('{"step": 2, "kind": "train", "loss": 1.0}\n{"step": 4, "ki')
    run = fold_of(str(tmp_path))
    expected = {"step": 2, "kind": "train", "loss": 1.0, "trial": 1, "fold": 2}
    assert run.log_records() == [expected]
    log.write_text("x\n" + log.read_text())
    with pytest.raises(UserError, match=f"^{log}, line 1: not a log record"):
        run.log_records()


def test_one_replaced_model_is_kept(tmp_path):
    model = tmp_path / "model_1"
    for content in ("first", "second"):
        model.mkdir()
        (model / "weights").write_text(content)
        replaced = set_aside(f"{model}/")
        assert pathlib.Path(replaced, "weights").read_text() == content
    assert [path.name for path in tmp_path.iterdir()] == ["model_1.replaced"]


def test_of_a_link_the_link_is_set_aside(tmp_path):
    for number in (1, 2):
        elsewhere, model = tmp_path / f"disk_{number}", tmp_path / "model_1"
        elsewhere.mkdir()
        (elsewhere / "weights").touch()
        model.symlink_to(elsewhere)
        assert pathlib.Path(set_aside(str(model))).resolve() == elsewhere
        assert not model.exists()
    model.mkdir()
    replaced = pathlib.Path(set_aside(str(model)))
    assert replaced.is_dir()
    assert not replaced.is_symlink()
    assert (tmp_path / "disk_1" / "weights").exists()


@pytest.mark.parametrize("folder", ["", "best/"])
def test_checkpoints_without_a_description_are_refused(tmp_path, record, folder):
    check_described(str(tmp_path))
    path = tmp_path / f"{folder}ckpt-8.index"
    path.parent.mkdir(exist_ok=True)
    path.touch()
    with pytest.raises(UserError, match=rf"^{tmp_path} has checkpoints but no config\.json"):
        check_described(str(tmp_path))
    check_described(record())


def test_another_range_of_labels_than_that_of_the_model_is_refused():
    described = {"kind": "regression", "min_label": 0.0, "max_label": 5.0}
    recorded = {"model_name": "m", "tasks": {"stars": described, "topic": {"kind": "c"}}}

    def check(recorded: dict, **now: float) -> None:
        tasks = [
            SimpleNamespace(name="stars", description={**described, **now}),
            SimpleNamespace(name="topic", description={"kind": "c"}),
            SimpleNamespace(name="new", description=described),
        ]
        check_ranges("m", recorded, tasks)

    check(recorded)
    assumed = {"stars": {**described, "max_label": 1.0}}
    check({"tasks": assumed}, max_label=6.0)  # of a converted model that does not tell
    for each in (recorded, {"tasks": recorded["tasks"]}):
        with pytest.raises(
            UserError, match=r"task stars from 0\.0 to 5\.0, but .* from 0\.0 to 6\.0\. Restore"
        ):
            check(each, max_label=6.0)
    with pytest.raises(UserError, match=r"from 0\.0 to 1\.0, but"):
        check({**recorded, "tasks": assumed}, max_label=6.0)


def test_another_kind_of_task_or_of_inputs_is_refused():
    described = {"kind": "multilabel", "has_pairs": True, "labels": ["a"]}
    recorded = {"model_name": "m", "tasks": {"topic": described}}

    def check(recorded: dict, **now) -> None:
        task = SimpleNamespace(name="topic", description={**described, **now})
        check_descriptions("m", recorded, [task])

    check(recorded, labels=["b"])  # has a check of its own
    check({"tasks": recorded["tasks"]}, kind="classification")  # converted, so only assumed
    with pytest.raises(UserError, match=r'task topic with kind "multilabel", but .* "classifi'):
        check(recorded, kind="classification")
    with pytest.raises(UserError, match=r"with has_pairs true, but .* has has_pairs false: "):
        check(recorded, has_pairs=False)


@pytest.mark.parametrize(
    ("files", "columns", "warned"),
    [
        ("train=a.csv", "text_a=x,text_b=y", False),
        ("train=a.csv", "text_a=y,text_b=x", True),
        ("train=a.csv", "id=number,text_b=y,text_a=x", False),
        ("train=b.csv", "text_a=y,text_b=x", False),
    ],
)
def test_other_columns_of_the_same_files_are_warned_of(
    make_finetuning_config, capsys, files, columns, warned
):
    recorded = {
        "model_name": "m",
        "own_task_files": "train=a.csv",
        "own_task_columns": "text_a=x,text_b=y",
    }
    warn_once.cache_clear()
    config = make_finetuning_config(own_task_files=files, own_task_columns=columns)
    warn_of_other_inputs("m", recorded, config)
    assert ("own_task_columns: 'text_a=x,text_b=y' before" in capsys.readouterr().err) == warned


@pytest.mark.parametrize(
    ("recorded", "warned"),
    [
        ({"do_lower_case": False}, "differently, .*do_lower_case: False before, True now"),
        ({"strip_accents": False}, "differently, .*strip_accents: False before, True now"),
        ({"vocab_file": "other"}, r"differently, .*vocab_file: .*vocab\.txt has other tokens"),
        ({"vocab_file": "missing"}, None),
        ({"vocab_file": "crlf"}, None),
        ({}, None),
    ],
)
def test_other_tokens_than_in_training_are_warned_of(
    make_finetuning_config, tmp_path, capsys, recorded, warned
):
    """Which flags of the training alone have said; those of pre-training are the default."""
    warn_once.cache_clear()
    config = make_finetuning_config()
    if "vocab_file" in recorded:
        recorded = {"vocab_file": str(tmp_path / recorded["vocab_file"])}
        (tmp_path / "other").write_text("[PAD]\n")
        lines = pathlib.Path(config.vocab_file).read_bytes().replace(b"\n", b"\r\n")
        (tmp_path / "crlf").write_bytes(lines)
    warn_of_other_inputs("m", {**dataclasses.asdict(config), **recorded}, config)
    told = capsys.readouterr().err
    assert re.search(warned, told) if warned else not told


def test_held_out_examples_that_a_model_may_have_seen_are_warned_of(tmp_path, capsys):
    """They are taken from the train file, whose other examples trained it."""
    train, dev = tmp_path / "train.tsv", tmp_path / "dev.tsv"
    for path in (train, dev):
        path.write_text("a\t1\n")

    def make(dev_file: pathlib.Path, **settings: str) -> SimpleNamespace:
        config = {
            "task_spec": None,
            "own_task_dev_fraction": 0.1,
            "own_task_group_column": None,
        }
        files = {"train": [str(train)], "dev": [str(dev_file)]}
        return SimpleNamespace(
            name="topic",
            config=SimpleNamespace(**{**config, **settings}),
            dev_splits=("dev",),
            split_files=files.get,
        )

    held_out, given = make(train), make(dev)
    recorded = {TRAIN_FILES: {"topic": train_digest(held_out)}}

    def warned(task: SimpleNamespace, recorded: dict, num_folds: int | None = None) -> str:
        warn_once.cache_clear()
        warn_of_trained_examples("m", recorded, [task], num_folds)
        return capsys.readouterr().err

    assert not warned(held_out, recorded)
    for changes in ({"own_task_dev_fraction": 0.2}, {"task_spec": "{}"}):
        assert "m was trained on other files or settings" in warned(
            make(train, **changes), recorded
        )
    assert not warned(make(train, task_spec="of/a/file.json"), recorded)
    with train.open("a") as file:
        file.write("b\t2\n")
    assert f"of task topic ({train}), so it may have seen" in warned(held_out, recorded)
    assert not warned(given, recorded)
    assert warned(given, recorded, num_folds=5)
    assert not warned(held_out, {})  # of an older version
    # With a dev file, it was trained on all of train.
    recorded = {TRAIN_FILES: {"topic": train_digest(held_out)}}
    assert not warned(held_out, {**recorded, "own_task_files": f"train={train}"})
    recorded["own_task_files"] = f"train={train},dev={dev}"
    assert warned(held_out, recorded)
    assert not warned(given, recorded)


@pytest.mark.parametrize(("num_folds", "is_other"), [(None, True), (3, False)])
def test_a_model_of_all_of_train_is_another_one_than_of_a_part(record, num_folds, is_other):
    files = ("train=a.csv,dev=b.csv", "train=a.csv", "train=moved/a.csv,dev=b.csv")
    trial = fold_of(record(**{PRETRAINED: "abc", "own_task_files": files[0]}))
    given = {FOLD_EXAMPLES: None, DATA: {}, "keep_best": False, "num_folds": num_folds}
    assert bool(changes_of_model(trial, {**given, "own_task_files": files[1]})) == is_other
    assert not changes_of_model(trial, {**given, "own_task_files": files[2]})


def test_a_setting_without_effect_that_older_versions_recorded_is_not_compared(record):
    given = {FOLD_EXAMPLES: None, DATA: {}, "keep_best": False, "num_folds": None}
    trial = TrialRun(1, 5, record(**{PRETRAINED: "abc", "shard_by": "file"}))
    assert not changes_of_model(trial, {**given, "shard_by": "record"})


def test_settings_of_an_evaluation_count_where_its_scores_choose_the_weights(record):
    trial = fold_of(record(**{PRETRAINED: "abc", "qa_na_threshold": -2.75, "keep_best": True}))
    given = {FOLD_EXAMPLES: None, DATA: {}, "qa_na_threshold": 0.0, "keep_best": True}
    (change,) = changes_of_model(trial, given)
    assert change.describe() == "qa_na_threshold: -2.75 before, 0.0 now"
    record(**{PRETRAINED: "abc", "qa_na_threshold": -2.75, "keep_best": False})
    assert changes_of_model(trial, {**given, "keep_best": False}) == []


@pytest.mark.parametrize(("debug", "refused"), [(False, True), (True, False)])
def test_debug_replaces_models_of_debug_alone(record, monkeypatch, debug, refused):
    folder = record(debug=debug)
    pathlib.Path(folder, "ckpt-1.index").touch()
    pathlib.Path(folder, "checkpoint").write_text('model_checkpoint_path: "ckpt-1"')
    monkeypatch.setattr(model_folders, "changes_of_model", lambda *_: [])
    workers = SimpleNamespace(barrier=lambda: None, is_chief=True)
    settings = {
        "older_fingerprints": {},
        "overwrite": True,
        "workers": workers,
        "print_fn": discard,
    }
    if refused:
        with pytest.raises(UserError, match=f"--debug would replace the model in {folder}"):
            prepare_folder(TrialRun(1, 5, folder), {"debug": True}, **settings)
        assert pathlib.Path(folder, "ckpt-1.index").exists()
    else:
        prepare_folder(TrialRun(1, 5, folder), {"debug": True}, **settings)
        assert not pathlib.Path(folder).exists()
