"""Tests of users' own tasks from their files to scores and predictions."""

import json
import pathlib

import keras
import numpy as np
import pytest
import tensorflow as tf

from electra_tf.config.encoder import EncoderConfig
from electra_tf.util.console import warn_once
from electra_tf.util.errors import UserError
from finetune.config.finetuning import FinetuningConfig
from finetune.config.task_kinds import kinds_by_name
from finetune.config.task_spec_parser import load_specs
from finetune.data.features import DataReport, row_length
from finetune.tasks.base import SplitData
from finetune.tasks.registry import make_custom_task

ROOT = pathlib.Path(__file__).parents[4]
ENCODER = EncoderConfig(
    vocab_size=17,
    embedding_size=8,
    hidden_size=8,
    num_hidden_layers=1,
    num_attention_heads=1,
    intermediate_size=8,
    max_position_embeddings=16,
)
TRAIN = "text\tlabel\ngood a\tpos\nbad b\tneg\nc good\tpos\n"
SETTINGS = {"max_seq_length": 16, "model_name": "tiny"}


def load(task, split):
    report = DataReport(task.name, split)
    examples = task.load(split, report)
    return SplitData(
        split, examples, task.featurize(examples, is_training=False, report=report)
    )


def run_head(task, data):
    """Returns the outputs of a new head for each row, with random states as input."""
    head = task.build_head(ENCODER, keras.DTypePolicy("float32"))
    assert head.name == task.name
    outputs = []
    for row in data.rows:
        length = row_length(row)
        features = {"input_mask": np.ones((1, length), np.int32)}
        for name, value in row.items():
            is_float = np.asarray(value).dtype.kind == "f"
            features[name] = np.asarray([value], np.float32 if is_float else np.int32)
        features = {name: tf.constant(value) for name, value in features.items()}
        found = head(tf.random.stateless_normal((1, length, 8), (1, length)), features)
        of_row = {name: value[0].numpy() for name, value in found.outputs.items()}
        outputs.append({"loss": found.losses[0].numpy(), **of_row})
    return outputs


@pytest.mark.parametrize(
    ("kind", "files", "changes", "metric"),
    [
        ("classification", {"train.tsv": TRAIN, "dev.tsv": TRAIN}, {}, "accuracy"),
        ("classification", {"train.tsv": TRAIN, "dev.tsv": TRAIN}, {"metric": "mcc"}, "mcc"),
        (
            "multilabel",
            {"train.tsv": TRAIN, "dev.tsv": TRAIN.replace("\tneg", "\tneg,pos")},
            {},
            "micro_f1",
        ),
        (
            "regression",
            {"train.tsv": TRAIN.replace("pos", "2").replace("neg", "1")},
            {"metric": "pearson"},
            "pearson",
        ),
    ],
)
def test_text_tasks_score_and_predict(make_task, kind, files, changes, metric):
    task = make_task(files, kind, **changes)
    data = load(task, "dev")
    outputs = run_head(task, data)
    scores = task.score(data, outputs)
    assert scores.main == metric
    assert metric in task.kind.main_metrics()
    assert {*task.kind.main_metrics(), "loss"} <= scores.metrics.keys()
    predictions = task.predictions(data, outputs)
    assert len(predictions) == len(data.examples)
    json.dumps(predictions)


def test_any_metric_of_the_kind_can_be_the_main_one(make_task):
    files = {"train.tsv": TRAIN.replace("pos", "2").replace("neg", "1"), "dev.tsv": TRAIN}
    for kind in ("classification", "multilabel", "regression"):
        metrics = kinds_by_name()[kind].main_metrics()
        assert make_task(files, kind).main_metric == metrics[0]
        for metric in metrics:
            assert make_task(files, kind, metric=metric).main_metric == metric


def test_labels_become_targets_in_their_order(make_task):
    files = {"train.tsv": TRAIN, "dev.tsv": TRAIN}
    name = "mine_label_ids"
    assert [r[name] for r in load(make_task(files, "classification"), "dev").rows] == [1, 0, 1]
    task = make_task(files, "classification", labels=["pos", "other", "neg"])
    assert [r[name] for r in load(task, "dev").rows] == [0, 2, 0]
    files = {
        name: content.replace("pos", "4").replace("neg", "1") for name, content in files.items()
    }
    task = make_task(files, "regression", min_label=0, max_label=5)
    targets = [row["mine_targets"] for row in load(task, "dev").rows]
    np.testing.assert_allclose(targets, [0.8, 0.2, 0.8])


def test_pairs_become_two_segments(make_task):
    content = "x,y,label\ngood a,b,1\nbad,c,0\n"
    task = make_task(
        {"train.csv": content, "dev.csv": content},
        "classification",
        columns={"text": "x", "text_b": "y", "label": "label"},
    )
    row = load(task, "dev").rows[0]
    assert row["input_ids"].tolist() == [2, 9, 5, 3, 6, 3]
    assert row["segment_ids"].tolist() == [0, 0, 0, 0, 1, 1]


def test_questions_are_answered(make_task):
    record = {"question": "who?", "context": "a was here", "answers": "a was"}
    files = {f"{split}.jsonl": json.dumps(record) + "\n" for split in ("train", "dev")}
    columns = {role: role for role in record}
    task = make_task(files, "qa", columns=columns)
    data = load(task, "dev")
    outputs = run_head(task, data)
    assert task.score(data, outputs).main == "f1"
    assert len(task.predictions(data, outputs)) == 1


def test_the_demo_task_is_trained_and_held_out(tokenizer):
    (spec,) = load_specs(str(ROOT / "recipes" / "tasks" / "router.json"))
    config = FinetuningConfig.create(data_dir="none", task_names=("router",), **SETTINGS)
    task = make_custom_task(config, spec, tokenizer)
    assert task.labels == ("account", "billing", "feedback", "shipping", "technical")
    train, dev = load(task, "train"), load(task, "dev")
    assert (len(train.examples), len(dev.examples)) == (270, 30)
    assert sorted(e.label for e in dev.examples) == sorted(task.labels * 6)


@pytest.mark.parametrize(
    ("name", "rows", "target", "values"),
    [
        (
            "korsts",
            [
                "genre\tfilename\tyear\tid\tscore\tsentence1\tsentence2",
                'news\tx\t2012\t1\t4.000\tgood "a\tb',
                "news\tx\t2012\t2\t0.500\tbad\tb",
            ],
            "korsts_targets",
            [0.8, 0.1],
        ),
        ("nsmc", ["text\tlabel", 'good "a\t1', "bad\t0"], "nsmc_label_ids", [1, 0]),
    ],
)
def test_korean_recipes_read_their_files(tokenizer, tmp_path, name, rows, target, values):
    folder = tmp_path / "finetuning_data" / name
    folder.mkdir(parents=True)
    for split in ("train", "dev", "test"):
        (folder / f"{split}.tsv").write_text("\n".join(rows) + "\n")
    (spec,) = load_specs(str(ROOT / "recipes" / "tasks" / f"{name}.json"))
    config = FinetuningConfig.create(data_dir=str(tmp_path), task_names=(name,), **SETTINGS)
    task = make_custom_task(config, spec, tokenizer)
    for split in ("train", "dev"):
        np.testing.assert_allclose([r[target] for r in load(task, split).rows], values)
    assert len(load(task, "test").rows) == 2


def test_broken_data_is_refused_as_the_task_is_made(make_task):
    with pytest.raises(UserError, match=r"train\.tsv: line 3 has 1 column"):
        make_task({"train.tsv": "text\tlabel\na\tx\nb\n"}, "classification")


def test_something_must_be_there_to_evaluate_on(make_task):
    files = {"train.tsv": TRAIN}
    with pytest.raises(UserError, match=r"'mine' has nothing to evaluate on.*--do_eval=false"):
        make_task(files, "classification", dev_fraction=0)
    for config in ({"do_eval": False}, {"num_folds": 2}):
        task = make_task(files, "classification", config, dev_fraction=0)
        assert len(task.load("train", DataReport("mine", "train"))) == 3


def test_another_name_of_dev_is_warned_of_where_train_is_divided(make_task, capsys):
    files = {"train.tsv": TRAIN, "validation.tsv": TRAIN}

    def said(files: dict, config: dict | None = None, **changes) -> str:
        warn_once.cache_clear()
        make_task(files, "classification", config, **changes)
        return capsys.readouterr().err

    expected = (
        "mine.json: task 'mine' has no split dev, so 10% of train are held out as dev, which "
        "chooses weights and trials; validation is only evaluated after it"
    )
    assert expected in said(files)
    for named in ({"dev.tsv": TRAIN, **files}, {"train.tsv": TRAIN, "heldout.tsv": TRAIN}):
        assert "has no split dev" not in said(named)
    for meant in ({"dev_fraction": 0.1}, {"dev_fraction": 0}, {"config": {"num_folds": 2}}):
        assert "has no split dev" not in said(files, **meant)


def test_words_are_tagged(make_task):
    content = "who O\nwas O\n\nme B-PER\n"
    files = {"train.conll": content, "dev.conll": content}
    for changes, main in (({}, "f1"), ({"level": "token"}, "accuracy")):
        task = make_task(files, "tagging", **changes)
        data = load(task, "dev")
        outputs = run_head(task, data)
        assert task.score(data, outputs).main == main
        assert [p["words"] for p in task.predictions(data, outputs)] == [["who", "was"], ["me"]]


GROUPED = "text\tlabel\tuser\n" + "".join(
    f"good {'abcd'[i % 4]}\t{'pos' if i % 3 else 'neg'}\tu{i // 4}\n" for i in range(40)
)


def test_a_group_is_not_divided_between_train_and_dev(make_task):
    files = {"train.tsv": GROUPED, "test.tsv": "text\tlabel\ngood\tpos\n"}
    task = make_task(files, "classification", group_column="user", dev_fraction=0.3)
    train, dev = ({e.group for e in load(task, s).examples} for s in ("train", "dev"))
    assert (len(train), len(dev)) == (7, 3)
    assert not train & dev
    assert load(task, "test").examples[0].group is None


def test_labels_that_a_held_out_group_takes_out_of_train_are_told(make_task, capsys):
    rows = [f"good {'abcd'[i % 4]}\tu{i // 6}\t{'pos' if i % 3 else 'neg'}" for i in range(24)]
    header = "text\tuser\tlabel"
    rare = "\n".join([header, *rows, *["bad a\trare\tunknown"] * 6, ""])
    one_each = "\n".join([header, *["good a\tx\tpos", "bad b\ty\tneg"] * 9, ""])
    settings = {"group_column": "user", "dev_fraction": 0.3}
    told = 0
    for seed in range(8):
        warn_once.cache_clear()
        task = make_task({"train.tsv": rare}, "classification", dev_seed=seed, **settings)
        labels = {example.label for example in load(task, "train").examples}
        warning = f'mine: train ("dev_seed" {seed}) trains on no example of the labels'
        assert (warning in capsys.readouterr().err) == ("unknown" not in labels)
        told += "unknown" not in labels
    assert 0 < told < 8
    task = make_task({"train.tsv": one_each}, "classification", **settings)
    with pytest.raises(UserError, match=r'without dev \("dev_seed" 0\): all 9 examples have'):
        load(task, "train")


@pytest.mark.parametrize(
    ("files", "changes", "config", "unused"),
    [
        ({"train.tsv": GROUPED}, {}, {}, ()),
        ({"train.tsv": GROUPED, "dev.tsv": GROUPED}, {}, {}, ("group_column", "dev_seed")),
        ({"train.tsv": GROUPED}, {}, {"num_folds": 3}, ("dev_seed",)),
        ({"train.tsv": GROUPED, "dev.tsv": GROUPED}, {}, {"num_folds": 3}, ("dev_seed",)),
        (
            {"train.tsv": GROUPED},
            {"dev_fraction": 0},
            {"do_eval": False},
            ("group_column", "dev_seed"),
        ),
    ],
)
def test_what_would_divide_train_is_warned_of_where_it_does_not(
    make_task, capsys, files, changes, config, unused
):
    given = {"group_column": "user", "dev_seed": 1}
    make_task(files, "classification", config, **given, **changes)
    warned = capsys.readouterr().err
    for key in given:
        assert (f"\"{key}\" of task 'mine' has no effect" in warned) == (key in unused)


LINES = '{"text": "good a", "label": "pos"}\n{"text": "bad b", "label": "neg"}\n'
SENTENCE = "a B-X\nb O\n"
SQUAD = """{"data": [{"paragraphs": [{"context": "who was me", "qas": [
{"question": "who ?", "id": "1", "answers": [{"text": "me", "answer_start": 8}]}]}]}]}"""


@pytest.mark.parametrize(
    ("kind", "name", "content", "header", "warned"),
    [
        ("classification", "train.tsv", TRAIN, True, False),
        ("classification", "train.jsonl", LINES, True, True),
        ("tagging", "train.conll", SENTENCE, None, False),
        ("tagging", "train.conll", SENTENCE, True, True),
        ("tagging", "train.conll", SENTENCE, False, True),
        ("qa", "train.json", SQUAD, True, True),
    ],
)
def test_a_header_where_files_have_none_is_warned_of(
    make_task, capsys, kind, name, content, header, warned
):
    changes = {"header": header, "dev_fraction": 0}
    load(make_task({name: content}, kind, {"do_eval": False}, **changes), "train")
    assert (f'{name}: "header" of --task_spec=' in capsys.readouterr().err) == warned


@pytest.mark.parametrize(
    ("kind", "files", "changes", "message"),
    [
        ("classification", {"train.tsv": TRAIN}, {}, r"no column 'user' \(group\)"),
        (
            "classification",
            {"train.tsv": GROUPED.replace("\tu0", "\t")},
            {},
            "line 2: group is empty",
        ),
        ("tagging", {"train.conll": "a B-X\nb O\n"}, {}, 'conll file has no "group_column"'),
        ("qa", {"train.json": "{}"}, {}, "a squad file are grouped by paragraph"),
    ],
)
def test_groups_that_cannot_be_read_are_refused(make_task, kind, files, changes, message):
    with pytest.raises(UserError, match=message):
        load(make_task(files, kind, group_column="user", **changes), "train")


def test_splits_that_folds_do_not_evaluate_are_warned_of(make_task, capsys):
    folds = {"num_folds": 2}
    make_task({"train.tsv": TRAIN}, "classification", folds, dev_fraction=0.3)
    assert "\"dev_fraction\" of task 'mine' has no effect with --num_folds" in (
        capsys.readouterr().err
    )
    files = {"train.tsv": TRAIN, "dev.tsv": TRAIN, "heldout.tsv": TRAIN}
    make_task(files, "classification", folds)
    assert "not on dev, heldout of task 'mine'" in capsys.readouterr().err
