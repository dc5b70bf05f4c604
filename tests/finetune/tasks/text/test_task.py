import dataclasses
import types

import numpy as np
import pytest

from electra_tf.util.errors import UserError
from finetune.data.features import DataReport
from finetune.tasks.base import PREDICT, SplitData
from finetune.tasks.text import classification
from finetune.tasks.text.classification import ClassificationTask
from finetune.tasks.text.examples import InputExample, class_label, number_label
from finetune.tasks.text.multilabel import MultilabelTask
from finetune.tasks.text.regression import RegressionTask
from finetune.tasks.text.submissions import glue_submission
from tests.finetune.tasks.text.tiny import make_config, make_tokenizer

LABELS = ("bad", "fair", "good")


class Source:
    """Examples in memory."""

    dev_splits = ("dev", "dev2")
    test_splits = ("test",)

    def __init__(self, examples):
        self.examples = examples

    def split_files(self, split):
        return [f"{split}.file"]

    def load(self, split, report):
        return self.examples

    def load_file(self, path, *, labeled, report):
        return [path, labeled]


@pytest.fixture
def build(tmp_path):
    """Returns a function that makes a task and its features from labels."""

    def build(task_class, gold, config=None, **given):
        source = Source(
            [
                InputExample(i, "a b", None, label, guid=f"id{i}" if i else None)
                for i, label in enumerate(gold)
            ]
        )
        task = task_class(
            make_config(tmp_path, **(config or {})),
            "mine",
            make_tokenizer(tmp_path),
            source,
            **given,
        )
        report = DataReport("mine", "dev")
        rows = task.featurize(task.load("dev", report), is_training=True, report=report)
        return task, SplitData("dev", source.examples, rows)

    return build


def classified(*predictions):
    logits = np.log(np.full((len(predictions), 3), 0.25, np.float32))
    logits[np.arange(len(predictions)), predictions] = np.log(0.5)
    return [
        {"loss": np.float32(i), "logits": logits[i], "predictions": np.int32(p)}
        for i, p in enumerate(predictions)
    ]


def test_classification(build):
    task, data = build(ClassificationTask, ["good", "bad", "good"], labels=LABELS)
    assert [row["mine_label_ids"] for row in data.rows] == [2, 0, 2]
    outputs = classified(2, 2, 0)
    scores = task.score(data, outputs)
    assert scores.metrics == pytest.approx({"accuracy": 100 / 3, "loss": 1.0})
    assert (scores.main, scores.labels) == ("accuracy", LABELS)
    assert scores.confusion.tolist() == [[0, 0, 1], [0, 0, 0], [1, 0, 1]]
    wrong = task.errors(data, outputs)
    assert wrong == [("a b", "bad", "good", 1.0), ("a b", "good", "bad", 2.0)]
    first, second, _ = task.predictions(data, outputs)
    assert first == {
        "eid": 0,
        "prediction": "good",
        "probabilities": pytest.approx({"bad": 0.25, "fair": 0.25, "good": 0.5}),
    }
    assert second["id"] == "id1"


def test_thousands_of_labels_have_no_confusion_matrix(build, monkeypatch):
    task, data = build(ClassificationTask, ["good", "bad", "good"], labels=LABELS)
    monkeypatch.setattr(classification, "MAX_CONFUSION_LABELS", 2)
    scores = task.score(data, classified(2, 2, 0))
    assert (scores.confusion, scores.labels) == (None, LABELS)


def test_the_source_is_passed_on(build):
    task, _ = build(ClassificationTask, ["good"], labels=LABELS)
    assert (task.dev_splits, task.test_splits) == (("dev", "dev2"), ("test",))
    assert task.split_files("dev2") == ["dev2.file"]
    task.config = types.SimpleNamespace(predict_file="some.file")
    assert task.split_files(PREDICT) == ["some.file"]
    assert task.load(PREDICT, None) == ["some.file", False]


def test_metrics_and_the_main_one(build):
    given = {"labels": LABELS, "metrics": ("accuracy", "f1"), "main_metric": "mcc"}
    task, data = build(ClassificationTask, ["good", "bad"], **given)
    scores = task.score(data, classified(2, 0))
    assert list(scores.metrics) == ["mcc", "accuracy", "f1", "loss"]
    assert scores.main_value == pytest.approx(100)
    task, _ = build(ClassificationTask, ["good"], labels=LABELS, metrics=("f1", "mcc"))
    assert task.main_metric == "f1"


@pytest.mark.parametrize(
    ("given", "expected"),
    [("balanced", [4 / 6, 4 / 6, 4 / 2, 4 / 6]), ("good=3", [3, 3, 1, 3])],
)
def test_class_weights_are_features(build, given, expected):
    gold = ["good", "good", "bad", "good"]
    config = {"class_weights": given}
    task, data = build(ClassificationTask, gold, config, labels=LABELS)
    assert [row["mine_weights"] for row in data.rows] == pytest.approx(expected)
    assert [spec.name for spec in task.feature_specs][2:] == ["mine_weights"]
    report = DataReport("mine", "dev")
    rows = task.featurize(data.examples, is_training=False, report=report)
    assert [row["mine_weights"] for row in rows] == [1, 1, 1, 1]
    task, data = build(ClassificationTask, gold, labels=LABELS)
    assert [spec.name for spec in task.feature_specs] == ["mine_eid", "mine_label_ids"]
    with pytest.raises(UserError, match=r"has no label 'god'.* Did you mean 'good'"):
        build(ClassificationTask, gold, {"class_weights": "god=2"}, labels=LABELS)


@pytest.mark.parametrize(
    ("gold", "predicted", "expected"),
    [
        (["good", "bad"], (2, 2), "predicts one label only (good)"),
        (["good", "bad"], (2, 0), None),
        (["good", "good"], (2, 2), None),
    ],
)
def test_degenerate_classification(build, gold, predicted, expected):
    task, data = build(ClassificationTask, gold, labels=LABELS)
    assert task.degenerate(data, classified(*predicted)) == expected


def regressed(*predictions):
    return [{"loss": np.float32(0.5), "predictions": np.float32(p)} for p in predictions]


def test_scores_of_regression_are_those_of_cached_features(build):
    """Cached targets are float32, as the predictions are."""
    task, data = build(RegressionTask, [0.1, 4.7, 3.3], min_label=0.0, max_label=5.0)
    outputs = [{"predictions": np.float32(x), "loss": 0.0} for x in (0.3, 0.7, 0.2)]
    name = task.target_spec.name
    rows = [{**row, name: np.float32(row[name])} for row in data.rows]
    cached = dataclasses.replace(data, rows=rows)
    assert task.score(cached, outputs).metrics == task.score(data, outputs).metrics


def test_regression(build):
    task, data = build(RegressionTask, [-1.0, 3.0, 1.0], min_label=-1.0, max_label=3.0)
    assert [row["mine_targets"] for row in data.rows] == [0.0, 1.0, 0.5]
    outputs = regressed(0.0, 1.25, 0.5)
    scores = task.score(data, outputs)
    assert scores.metrics["spearman"] == pytest.approx(100)
    assert scores.metrics["mse"] == pytest.approx(0.0625 / 3)
    assert (scores.main, scores.metrics["loss"]) == ("spearman", 0.5)
    assert [p["prediction"] for p in task.predictions(data, outputs)] == [-1.0, 4.0, 1.0]
    assert task.degenerate(data, outputs) is None
    assert task.degenerate(data, regressed(1, 1, 1)) == "predicts one number only"


@pytest.mark.parametrize(
    ("least", "most", "gold", "predicted"),
    [
        (1995.0, 2005.0, "2001", "2002.3"),
        (0.0, 5.0, "0.6", "0.73"),
        (0.0, 0.02, "0.003", "0.0026"),
    ],
)
def test_errors_of_regression_have_digits_of_their_range(build, least, most, gold, predicted):
    given = {"min_label": least, "max_label": most}
    task, data = build(RegressionTask, [least, float(gold)], **given)
    of_range = (float(predicted) - least) / (most - least)
    (error,) = task.errors(data, regressed(0.0, of_range))
    assert (error.gold, error.predicted) == (gold, predicted)


def labeled(*predictions):
    return [
        {
            "loss": np.float32(2.0),
            "logits": np.array(p, np.float32) * 200 - 100,
            "predictions": np.array(p, np.int32),
        }
        for p in predictions
    ]


def test_multilabel(build):
    task, data = build(MultilabelTask, [("good", "bad"), ()], labels=LABELS)
    assert [row["mine_targets"].tolist() for row in data.rows] == [[1, 0, 1], [0, 0, 0]]
    assert task.feature_specs[1].size == 3
    outputs = labeled([1, 0, 0], [0, 0, 0])
    scores = task.score(data, outputs)
    assert scores.main == "micro_f1"
    assert scores.metrics == pytest.approx(
        {"micro_f1": 200 / 3, "macro_f1": 100 / 3, "subset_accuracy": 50, "loss": 2}
    )
    first, second = task.predictions(data, outputs)
    assert first["prediction"] == ["bad"]
    assert first["probabilities"] == pytest.approx({"bad": 1, "fair": 0, "good": 0})
    assert second["prediction"] == []
    assert task.degenerate(data, outputs) is None
    same = "predicts one set of labels only (fair, good)"
    assert task.degenerate(data, labeled([0, 1, 1], [0, 1, 1])) == same


@pytest.mark.parametrize(
    ("task_class", "given", "message"),
    [
        (ClassificationTask, {"labels": ["one"]}, "at least 2 distinct labels"),
        (ClassificationTask, {"labels": ["one", "one"]}, "at least 2 distinct labels"),
        (
            ClassificationTask,
            {"labels": LABELS, "main_metric": "bleu"},
            "one of accuracy, mcc, f1, macro_f1, not 'bleu'",
        ),
        (RegressionTask, {"min_label": 1.0, "max_label": 1.0}, "is empty"),
        (MultilabelTask, {"labels": []}, "at least 1 distinct labels"),
    ],
)
def test_bad_arguments(build, task_class, given, message):
    with pytest.raises(UserError, match=message):
        build(task_class, [], **given)


def test_label_parsers():
    assert class_label(LABELS)("fair") == "fair"
    assert number_label(0, 5)("4.5") == 4.5
    with pytest.raises(ValueError, match="unknown label 'fine'"):
        class_label(LABELS)("fine")


def test_glue_submissions():
    predictions = [{"eid": 0, "prediction": "entailment"}, {"eid": 1, "prediction": "neutral"}]
    submission = glue_submission("mnli", "diagnostic", predictions)
    text = "index\tprediction\n0\tentailment\n1\tneutral\n"
    assert submission == ("AX.tsv", text)
    # The line of index 1 was left out.
    numbers = [(0, 5.2), (2, -0.1), (3, 2.34567)]
    numbers = [{"eid": eid, "prediction": number} for eid, number in numbers]
    submission = glue_submission("sts", "test", numbers)
    text = "index\tprediction\n0\t5.000\n2\t0.000\n3\t2.346\n"
    assert submission == ("STS-B.tsv", text)
    assert glue_submission("cola", "dev", predictions) is None
    assert glue_submission("mine", "test", predictions) is None
