"""The official metrics, on cases worked out by hand."""

import pytest

from finetune.tasks.qa.squad_metrics import (
    exact_match,
    f1,
    normalize_answer,
    squad_v1_metrics,
    squad_v2_metrics,
)


def test_normalization():
    assert normalize_answer(" The  Cat's  a-b, an\u00a0A theory! ") == "cats ab theory"


def test_f1_counts_common_words():
    assert f1("a big red dog", "The red red dog", empty_agree=True) == pytest.approx(2 / 3)
    assert f1("red dog", "blue cat", empty_agree=True) == 0
    assert exact_match("Red dog", "the red, dog") == 1


def test_texts_without_words():
    assert exact_match("the", "a") == 1
    assert f1("the", "a", empty_agree=True) == 1
    assert f1("the", "a", empty_agree=False) == 0  # the official number of SQuAD 1.1
    assert f1("the", "cat", empty_agree=True) == 0
    assert f1("cat", "the", empty_agree=True) == 0


def test_version_1_takes_the_best_answer_and_counts_missing_ones():
    gold = {"a": ["red dog", "dog"], "b": ["cat"], "c": ["old bridge"]}
    predictions = {"a": "a dog", "c": "bridge"}
    metrics = squad_v1_metrics(gold, predictions)
    assert metrics == pytest.approx({"exact_match": 100 / 3, "f1": 100 * (1 + 2 / 3) / 3})


GOLD = {"a": ["dog"], "b": ["cat"], "c": [], "d": ["old bridge"], "e": ["the"]}
PREDICTIONS = {"a": "dog", "b": "dog", "c": "dog", "d": "bridge", "e": "dog"}
NULL_ODDS = {"a": -3.0, "b": -1.0, "c": 0.5, "d": -2.0, "e": 2.0}


def test_version_2():
    metrics = squad_v2_metrics(GOLD, PREDICTIONS, NULL_ODDS, threshold=0.0)
    assert list(metrics) == sorted(metrics)
    third = 2 / 3  # F1 of d
    assert metrics == pytest.approx(
        {
            "exact": 100 * 2 / 5,  # a, and c, which is empty above the threshold
            "f1": 100 * (2 + third) / 5,
            "total": 5,
            "HasAns_exact": 25,
            "HasAns_f1": 100 * (1 + third) / 4,
            "HasAns_total": 4,
            "NoAns_exact": 100,
            "NoAns_f1": 100,
            "NoAns_total": 1,
            # From all empty (c right): a gains 1; d gains F1 alone; then c is lost.
            "best_exact": 40,
            "best_exact_thresh": -3.0,
            "best_f1": 100 * (2 + third) / 5,
            "best_f1_thresh": -2.0,
        }
    )


def test_version_2_at_the_threshold_and_above():
    at = squad_v2_metrics(GOLD, PREDICTIONS, NULL_ODDS, threshold=0.5)
    assert (at["NoAns_exact"], at["exact"]) == (0, 20)
    below = squad_v2_metrics(GOLD, PREDICTIONS, NULL_ODDS, threshold=-3.5)
    assert (below["HasAns_f1"], below["f1"]) == (0, 20)


def test_version_2_of_one_kind_of_question_alone():
    names = ("a", "b")
    metrics = squad_v2_metrics({n: GOLD[n] for n in names}, PREDICTIONS, NULL_ODDS, 0.0)
    assert metrics["HasAns_total"] == 2
    assert not any(name.startswith("NoAns") for name in metrics)
    metrics = squad_v2_metrics({"c": []}, PREDICTIONS, NULL_ODDS, 0.0)
    assert (metrics["best_f1"], metrics["best_f1_thresh"]) == (100, 0.0)


def test_versions_differ_in_texts_without_words():
    gold, predictions = {"a": ["the"]}, {"a": "a"}
    assert squad_v1_metrics(gold, predictions) == {"exact_match": 100, "f1": 0}
    metrics = squad_v2_metrics(gold, predictions, {"a": -1.0}, 0.0)
    assert (metrics["exact"], metrics["f1"]) == (100, 100)


def test_the_best_threshold_pays_for_answers_to_unanswerable_questions():
    gold, odds = {"a": ["dog"], "c": []}, {"a": 1.0, "c": -1.0}
    metrics = squad_v2_metrics(gold, {"a": "dog", "c": "dog"}, odds, 0.0)
    # From c right alone, over none, to a right alone: never more than the first.
    assert (metrics["best_exact"], metrics["best_exact_thresh"]) == (50, 0.0)
    # An empty answer to c costs nothing.
    metrics = squad_v2_metrics(gold, {"a": "dog", "c": ""}, odds, 0.0)
    assert (metrics["best_exact"], metrics["best_exact_thresh"]) == (100, 1.0)
