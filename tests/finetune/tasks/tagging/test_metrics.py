import random

import pytest
from seqeval.metrics import f1_score, precision_score, recall_score

from finetune.tasks.tagging.metrics import span_metrics, token_accuracy


def test_spans():
    gold = [["B-X", "I-X", "O", "B-Y"], ["B-X"]]
    predicted = [["B-X", "O", "O", "B-Y"], ["O"]]
    # Right: the Y. Predicted: 2. Gold: 3.
    metrics = {"precision": 50, "recall": 100 / 3, "f1": 40}
    assert span_metrics(gold, predicted) == pytest.approx(metrics)


def test_recall_counts_gold_spans_that_nothing_overlaps():
    metrics = span_metrics([["B-X", "O", "B-X", "O"]], [["B-X", "O", "O", "O"]])
    assert metrics == pytest.approx({"precision": 100, "recall": 50, "f1": 200 / 3})


def test_nothing_to_find():
    zeros = {"precision": 0.0, "recall": 0.0, "f1": 0.0}
    assert span_metrics([["O"]], [["O"]]) == zeros
    assert span_metrics([["O"]], [["B-X"]]) == zeros
    assert span_metrics([["B-X"]], [["O"]]) == zeros


def test_lengths_must_agree():
    with pytest.raises(ValueError, match="1 tags for 2 words"):
        span_metrics([["O", "O"]], [["O"]])
    with pytest.raises(ValueError, match="shorter"):
        token_accuracy([["O", "O"]], [["O"]])
    for score in (span_metrics, token_accuracy):
        with pytest.raises(ValueError, match="shorter"):
            score([["O"], ["O"]], [["O"]])


def test_token_accuracy_counts_words_without_a_prediction():
    # Equal tags that are different objects.
    predicted = [["-".join(["B", "X"]), None], ["B-X"]]
    assert token_accuracy([["B-X", "O"], ["O"]], predicted) == pytest.approx(100 / 3)
    assert token_accuracy([], []) == 0


def test_same_metrics_as_seqeval():
    generator = random.Random(5)
    tags = ["O", "O", "B-X", "I-X", "B-Y", "I-Y"]
    lengths = [generator.randrange(1, 9) for _ in range(200)]
    gold, predicted = ([generator.choices(tags, k=k) for k in lengths] for _ in range(2))
    metrics = span_metrics(gold, predicted)
    assert metrics == pytest.approx(
        {
            "precision": 100 * precision_score(gold, predicted),
            "recall": 100 * recall_score(gold, predicted),
            "f1": 100 * f1_score(gold, predicted),
        }
    )
    assert 0 < metrics["f1"] < 100


def test_accuracy():
    gold, predicted = [["N", "V"], ["N", "N"]], [["N", "N"], ["N", None]]
    assert token_accuracy(gold, predicted) == 50
    # Equal tags need not be the same object.
    assert token_accuracy([["N-X"]], [["-".join("NX")]]) == 100
    with pytest.raises(ValueError, match="shorter"):
        token_accuracy([["N", "V"]], [["N"]])
