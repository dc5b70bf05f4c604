"""What the folder of a model says of it, and when it is of something else."""

import json
import pathlib
from types import SimpleNamespace

import pytest

from electra_tf.util.errors import UserError
from finetune.data.folds import Fold
from finetune.results.provenance import PRETRAINED
from finetune.trials.model_folders import (
    FOLD_EXAMPLES,
    check_fold,
    check_labels,
    check_pretrained,
    saved_labels,
    set_aside,
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
    saved = saved_labels(record(labels={"topic": ["a", "b"]}))
    check_labels("m", saved, [SimpleNamespace(name="topic", labels=("a", "b"))])
    check_labels("m", {}, [SimpleNamespace(name="topic", labels=("a", "c"))])
    with pytest.raises(
        UserError, match=r"trained on the labels a, b of task topic, but .* b, a"
    ):
        check_labels("m", saved, [SimpleNamespace(name="topic", labels=("b", "a"))])


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
    with pytest.raises(UserError, match=f"^{log}, line 1: not a record of a log"):
        run.log_records()


def test_one_replaced_model_is_kept(tmp_path):
    model = tmp_path / "model_1"
    for content in ("first", "second"):
        model.mkdir()
        (model / "weights").write_text(content)
        replaced = set_aside(f"{model}/")
        assert pathlib.Path(replaced, "weights").read_text() == content
    assert [path.name for path in tmp_path.iterdir()] == ["model_1.replaced"]
