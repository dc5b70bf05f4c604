"""Exact match and F1, as in the official evaluations of SQuAD 1.1, SQuAD 2.0 and MRQA.

Source: Rajpurkar et al. 2016 and 2018, and the evaluation scripts of the data sets.
"""

import collections
import re
import string
from collections.abc import Callable, Mapping, Sequence

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalize_answer(text: str) -> str:
    """Lowercases, and removes ASCII punctuation, English articles and extra whitespace."""
    text = text.lower().translate(_NO_PUNCTUATION)
    return " ".join(_ARTICLES.sub(" ", text).split())


def exact_match(gold: str, predicted: str) -> float:
    """Returns 1 if both normalized texts are equal, else 0."""
    return float(normalize_answer(gold) == normalize_answer(predicted))


def f1(gold: str, predicted: str, *, empty_agree: bool) -> float:
    """Returns the harmonic mean of precision and recall over normalized words.

    Args:
        gold, predicted: the texts.
        empty_agree: whether two texts without words match, as in SQuAD 2.0. In the official
            evaluations of SQuAD 1.1 and MRQA, their F1 is 0, although they match exactly.
    """
    gold_words = normalize_answer(gold).split()
    predicted_words = normalize_answer(predicted).split()
    if not gold_words or not predicted_words:
        return float(empty_agree and gold_words == predicted_words)
    common = collections.Counter(gold_words) & collections.Counter(predicted_words)
    num_common = sum(common.values())
    if not num_common:
        return 0.0
    precision, recall = num_common / len(predicted_words), num_common / len(gold_words)
    return 2 * precision * recall / (precision + recall)


def squad_v1_metrics(
    gold: Mapping[str, Sequence[str]], predictions: Mapping[str, str]
) -> dict[str, float]:
    """Returns `exact_match` and `f1`, percentages over all questions.

    Args:
        gold: answers of each question; the best match counts.
        predictions: answers by question; a missing one counts 0.
    """
    pairs = [(answers, predictions.get(name)) for name, answers in gold.items()]
    metrics = {}
    for name, metric in (("exact_match", exact_match), ("f1", _f1_v1)):
        scores = [0.0 if p is None else _best(metric, answers, p) for answers, p in pairs]
        metrics[name] = 100.0 * sum(scores) / max(len(scores), 1)
    return metrics


def squad_v2_metrics(
    gold: Mapping[str, Sequence[str]],
    predictions: Mapping[str, str],
    null_odds: Mapping[str, float],
    threshold: float,
) -> dict[str, float]:
    """Returns the metrics of SQuAD 2.0, percentages except for totals and thresholds.

    Args:
        gold: answers of each question; empty for unanswerable ones.
        predictions: best answer to each question, regardless of the null odds.
        null_odds: score of having no answer.
        threshold: null odds above which a prediction is empty.

    Returns:
        `exact`, `f1` and `total` over all questions and, if there are any, over those with
        (`HasAns_...`) and without an answer (`NoAns_...`); `best_exact`, `best_f1` and their
        thresholds. In alphabetical order, as in the authors' results.

    Raises:
        KeyError: a question has no prediction or no null odds.
    """
    has_answer = {name: bool(answers) for name, answers in gold.items()}
    groups = {
        "": list(gold),
        "HasAns_": [name for name in gold if has_answer[name]],
        "NoAns_": [name for name in gold if not has_answer[name]],
    }
    metrics: dict[str, float] = {}
    best: dict[str, float] = {}
    for metric_name, metric in (("exact", exact_match), ("f1", _f1_v2)):
        raw = {
            name: _best(metric, [a for a in answers if normalize_answer(a)], predictions[name])
            for name, answers in gold.items()
        }
        scores = {
            name: float(not has_answer[name]) if null_odds[name] > threshold else score
            for name, score in raw.items()
        }
        for prefix, names in groups.items():
            if names:
                total = sum(scores[name] for name in names)
                metrics[f"{prefix}{metric_name}"] = 100.0 * total / len(names)
                metrics[f"{prefix}total"] = len(names)
        best[f"best_{metric_name}"], best[f"best_{metric_name}_thresh"] = _best_threshold(
            raw, has_answer, predictions, null_odds
        )
    return dict(sorted((metrics | best).items()))


def _best_threshold(
    scores: Mapping[str, float],
    has_answer: Mapping[str, bool],
    predictions: Mapping[str, str],
    null_odds: Mapping[str, float],
) -> tuple[float, float]:
    """Returns the best percentage over all thresholds, and the lowest such threshold.

    Thresholds are a value below all null odds, for which every prediction is empty, and the
    null odds in ascending order. The threshold is 0 if none is better than the first.
    """
    current = best = float(sum(not has for has in has_answer.values()))
    best_threshold = 0.0
    for name in sorted(scores, key=null_odds.__getitem__):
        if has_answer[name]:
            current += scores[name]
        elif predictions[name]:
            current -= 1.0
        if current > best:
            best, best_threshold = current, null_odds[name]
    return 100.0 * best / max(len(scores), 1), best_threshold


def _best(metric: Callable[[str, str], float], answers: Sequence[str], predicted: str) -> float:
    """Returns the best score over the gold answers, or against "" if there are none."""
    return max(metric(answer, predicted) for answer in answers or ("",))


def _f1_v1(gold: str, predicted: str) -> float:
    return f1(gold, predicted, empty_agree=False)


def _f1_v2(gold: str, predicted: str) -> float:
    return f1(gold, predicted, empty_agree=True)
