"""Tests of the choice of tasks by name."""

import json

import numpy as np
import pytest

from electra_tf.text.cached_tokenizer import CachedTokenizer
from electra_tf.text.vocabulary import load_vocabulary
from electra_tf.util.errors import UserError
from finetune.config.finetuning import FinetuningConfig
from finetune.config.task_kinds import TAGGING, built_in_kinds
from finetune.tasks.base import Scores
from finetune.tasks.registry import build_tasks, custom_specs, task_class

BUILT_IN_TASKS = tuple(built_in_kinds())
OWN_FLAGS = ("kind", "files", "columns", "labels", "metric")


@pytest.fixture
def make_config(tmp_path):
    """Returns a function that makes the configuration of tasks, some of them one's own."""
    (tmp_path / "train.tsv").write_text("text\tlabel\ngood\tpos\nbad\tneg\nfine\tpos\n")

    for name in TAGGING.built_in:
        folder = tmp_path / "finetuning_data" / name
        folder.mkdir(parents=True)
        (folder / "train.txt").write_text("good JJ B-NP\nbad NN I-NP\n")

    def make(*names, specs=(), **own):
        if specs:
            own["task_spec"] = json.dumps([spec(tmp_path, name) for name in specs])
        given = {"data_dir": str(tmp_path), "model_name": "tiny", "task_names": names}
        return FinetuningConfig.create(**given, **own)

    return make


def spec(folder, name):
    return {
        "name": name,
        "kind": "classification",
        "files": {"train": str(folder / "train.tsv")},
    }


def with_flags(config, **own):
    """Sets `--own_task_...` flags."""
    for key in OWN_FLAGS:
        object.__setattr__(config, f"own_task_{key}", own.get(key))
    return config


@pytest.fixture
def tokenizer(tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\ngood\nbad\n")
    return CachedTokenizer(load_vocabulary(path))


def test_hyperparameters_of_a_kind_that_no_task_has_are_refused(make_config, tokenizer):
    config = make_config("sts", "chunk", label_smoothing=0.1)
    with pytest.raises(
        UserError,
        match="--label_smoothing is for classification and multiple_choice tasks, but sts is "
        "regression, chunk is tagging: remove it",
    ):
        build_tasks(config, tokenizer)
    assert len(build_tasks(make_config("sts", "cola", label_smoothing=0.1), tokenizer)) == 2
    with pytest.raises(UserError, match="--authors_tagging_truncation is for tagging tasks"):
        build_tasks(make_config("cola", authors_tagging_truncation=True), tokenizer)


def test_hyperparameters_that_the_authors_code_ignores_are_warned_of(
    make_config, tokenizer, capsys
):
    build_tasks(make_config("sts", "squad", doc_stride=64), tokenizer)
    assert not capsys.readouterr().err
    for name, value in (("doc_stride", 64), ("beam_size", 5), ("joint_prediction", False)):
        build_tasks(make_config("sts", **{name: value}), tokenizer)
        said = f"--{name} is for qa tasks, but sts is regression: it has no effect"
        assert said in capsys.readouterr().err


def test_a_threshold_of_questions_that_all_have_answers_is_warned_of(
    make_config, tokenizer, capsys
):
    build_tasks(make_config("squad", qa_na_threshold=-1.0), tokenizer)
    assert not capsys.readouterr().err
    build_tasks(make_config("squadv1", qa_na_threshold=-1.0), tokenizer)
    assert "--qa_na_threshold=-1.0 has no effect" in capsys.readouterr().err


def test_tasks_come_in_the_order_of_their_names(make_config, tokenizer):
    names = ("squad", "mine", "sts", "chunk", "other", "cola")
    tasks = build_tasks(make_config(*names, specs=("other", "mine")), tokenizer)
    assert tuple(task.name for task in tasks) == names
    assert tasks[1].labels == ("neg", "pos")


def test_all_built_in_tasks_are_built(make_config, tokenizer):
    tasks = build_tasks(make_config(*BUILT_IN_TASKS), tokenizer)
    assert tuple(task.name for task in tasks) == BUILT_IN_TASKS
    assert {"cola", "mrpc", "mnli", "sst", "rte", "qnli", "qqp", "sts"} <= {*BUILT_IN_TASKS}
    assert {"chunk", "ner", "pos"} <= {*BUILT_IN_TASKS}
    assert {"squad", "squadv1", "newsqa", "naturalqs", "triviaqa"} <= {*BUILT_IN_TASKS}
    assert "searchqa" in BUILT_IN_TASKS


def test_flags_describe_the_name_that_is_not_built_in(make_config, tokenizer, tmp_path):
    config = with_flags(
        make_config("cola", "reviews"),
        kind="classification",
        files=f"train={tmp_path / 'train.tsv'}",
        metric="mcc",
    )
    _, task = build_tasks(config, tokenizer)
    assert (task.name, task.labels, task.main_metric) == ("reviews", ("neg", "pos"), "mcc")


def test_unknown_names_are_refused_with_the_nearest(make_config):
    with pytest.raises(UserError, match=r"Unknown task 'squadv2' .* Did you mean 'squadv1'\?"):
        custom_specs(make_config("squadv2"))
    with pytest.raises(UserError, match=r"Built-in tasks: .*cola.*chunk.*squad.* --task_spec"):
        custom_specs(make_config("reviews"))


def test_descriptions_must_be_used_and_not_shadow(make_config):
    with pytest.raises(UserError, match="'cola' is the name of a built-in task"):
        custom_specs(make_config("cola", specs=("cola",)))
    with pytest.raises(
        UserError,
        match=r"describes task 'review', but --task_names is cola, reviews: .* 'reviews'",
    ):
        custom_specs(make_config("cola", "reviews", specs=("review",)))


@pytest.mark.parametrize(
    ("names", "specs", "count"),
    [(("cola",), (), 0), (("a", "b"), (), 2), (("mine",), ("mine",), 0)],
)
def test_flags_describe_a_single_task(make_config, names, specs, count):
    config = make_config(*names, specs=specs)
    config = with_flags(config, kind="qa", files="train=a.json")
    with pytest.raises(
        UserError, match=rf"flags describe one task, but {count} of .* are neither"
    ):
        custom_specs(config)


def test_kinds_that_are_not_registered_are_named():
    with pytest.raises(
        UserError, match="the kind of task 'counting' is not one of classification"
    ):
        task_class("counting")


def test_scores_have_their_main_metric_and_numbers_of_python():
    assert json.dumps(Scores({"exact": np.float32(3)}, "exact").metrics) == '{"exact": 3.0}'
    with pytest.raises(ValueError, match="the main metric 'exact' is none of"):
        Scores({"loss": 1.0}, "exact")
