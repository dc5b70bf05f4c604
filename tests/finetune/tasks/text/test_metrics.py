import math
import warnings

import numpy as np
import pytest

from finetune.tasks.text.metrics import (
    classification_metrics,
    confusion,
    multilabel_metrics,
    regression_metrics,
)


@pytest.fixture(autouse=True)
def no_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def test_two_classes():
    gold, predicted = [1, 1, 1, 0, 0, 0], [1, 1, 0, 1, 0, 0]
    metrics = classification_metrics(gold, predicted, 2)
    # 2 true positives, 1 false positive, 1 false negative, 2 true negatives.
    expected = {"accuracy": 400 / 6, "mcc": 100 / 3, "f1": 200 / 3, "macro_f1": 200 / 3}
    assert metrics == pytest.approx(expected)
    assert confusion(gold, predicted, 2).tolist() == [[2, 1], [1, 2]]


def test_f1_of_two_classes_is_that_of_the_second():
    gold, predicted = [1, 0, 0, 0, 0], [0, 0, 0, 0, 0]
    metrics = classification_metrics(gold, predicted, 2, ["f1", "macro_f1"])
    # F1 of the first class is 8/9.
    assert metrics == pytest.approx({"f1": 0, "macro_f1": 400 / 9})
    assert classification_metrics([0, 1, 1], [0, 1, 0], 2, ["f1"])["f1"] == pytest.approx(
        200 / 3
    )


def test_f1_of_three_classes_is_the_mean():
    metrics = classification_metrics(
        [0, 0, 1, 2], [0, 1, 1, 1], 3, ["f1", "macro_f1", "accuracy"]
    )
    # F1 of the classes: 2/3, 2/4, 0.
    macro_f1 = 100 * (2 / 3 + 1 / 2) / 3
    expected = {"f1": macro_f1, "macro_f1": macro_f1, "accuracy": 50}
    assert metrics == pytest.approx(expected)
    assert confusion([0, 0, 1, 1], [0, 1, 1, 1], 3).shape == (3, 3)


def test_a_class_that_does_not_occur_counts_in_macro_f1():
    metrics = classification_metrics([0, 1], [0, 1], 3, ["macro_f1", "accuracy"])
    assert metrics == pytest.approx({"macro_f1": 200 / 3, "accuracy": 100})


@pytest.mark.parametrize(
    ("gold", "predicted"), [([1, 1], [1, 1]), ([0, 1], [1, 1]), ([0, 0], [1, 0])]
)
def test_mcc_of_a_constant_is_0(gold, predicted):
    assert classification_metrics(gold, predicted, 2, ["mcc"]) == {"mcc": 0.0}


def test_regression():
    metrics = regression_metrics([0, 1, 2, 3], [0, 1, 4, 9])
    assert metrics["spearman"] == pytest.approx(100)
    assert metrics["pearson"] == pytest.approx(100 * 15 / math.sqrt(5 * 49))
    assert metrics["mse"] == pytest.approx((4 + 36) / 4)


def test_a_correlation_with_a_constant_is_undefined():
    metrics = regression_metrics([0.0, 1.0], [0.5, 0.5])
    assert math.isnan(metrics["pearson"])
    assert math.isnan(metrics["spearman"])
    assert metrics["mse"] == 0.25


def test_multilabel():
    targets = np.array([[1, 0, 0], [1, 1, 0], [0, 0, 0]])
    predictions = np.array([[1, 0, 0], [1, 0, 1], [0, 0, 0]])
    metrics = multilabel_metrics(targets, predictions)
    # Labels: F1 1, 0, 0; 2 right of 3 predicted and 3 gold.
    expected = {"micro_f1": 200 / 3, "macro_f1": 100 / 3, "subset_accuracy": 200 / 3}
    assert metrics == pytest.approx(expected)


def test_multilabel_without_any_label():
    metrics = multilabel_metrics(np.zeros((2, 3)), np.zeros((2, 3)))
    assert metrics == {"micro_f1": 0.0, "macro_f1": 0.0, "subset_accuracy": 100.0}


def test_a_small_range_has_a_correlation():
    metrics = regression_metrics([0.1, 0.3, 0.2], [0.01, 0.03, 0.02])
    assert (metrics["pearson"], metrics["spearman"]) == (pytest.approx(100), pytest.approx(100))


def test_f1_without_the_second_class_is_0():
    assert classification_metrics([0, 0], [0, 0], 2, ["f1"]) == {"f1": 0.0}


def test_multilabel_with_one_label_is_the_f1_of_that_label():
    targets, predictions = np.array([[1], [0], [0], [1]]), np.array([[1], [1], [0], [0]])
    metrics = multilabel_metrics(targets, predictions)
    assert metrics == pytest.approx({"micro_f1": 50, "macro_f1": 50, "subset_accuracy": 50})
    absent = multilabel_metrics(np.zeros([3, 1]), np.zeros([3, 1]))
    assert absent == {"micro_f1": 0, "macro_f1": 0, "subset_accuracy": 100}
