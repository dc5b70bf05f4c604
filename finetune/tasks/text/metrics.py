"""Metrics of classification, regression and multilabel tasks, by scikit-learn and SciPy.

Fractions and correlations are percentages. With two classes, F1 is that of the second class, as
GLUE defines it for MRPC and QQP; with more classes, it is macro F1.
"""

import math
from collections.abc import Sequence

import numpy as np
import scipy.stats
from sklearn.metrics import accuracy_score, confusion_matrix, f1_score, matthews_corrcoef

from finetune.config.task_kinds import CLASSIFICATION


def classification_metrics(
    label_ids: np.ndarray,
    predictions: np.ndarray,
    num_labels: int,
    names: Sequence[str] = CLASSIFICATION.main_metrics(),
) -> dict[str, float]:
    """Returns metrics of classification.

    The F1 of a class that neither occurs nor is predicted is 0, also in `macro_f1`.

    Args:
        label_ids, predictions: int [n], n > 0, below `num_labels`.
        num_labels: number of classes.
        names: metrics, of the kind's main metrics.
    """
    functions = {
        "accuracy": lambda: accuracy_score(label_ids, predictions),
        "mcc": lambda: _matthews(label_ids, predictions),
        "f1": lambda: _f1(label_ids, predictions, num_labels),
        "macro_f1": lambda: _macro_f1(label_ids, predictions, num_labels),
    }
    return {name: 100 * float(functions[name]()) for name in names}


def regression_metrics(targets: np.ndarray, predictions: np.ndarray) -> dict[str, float]:
    """Returns Pearson's and Spearman's correlation and the mean squared error, in float64.

    The correlation with a constant is NaN.

    Args:
        targets, predictions: float [n], n > 0.
    """
    targets, predictions = (np.asarray(x, np.float64) for x in (targets, predictions))
    pearson = spearman = math.nan
    if np.ptp(targets) > 0 and np.ptp(predictions) > 0:
        pearson = 100 * float(scipy.stats.pearsonr(targets, predictions)[0])
        spearman = 100 * float(scipy.stats.spearmanr(targets, predictions)[0])
    mse = float(np.mean(np.square(targets - predictions)))
    return {"pearson": pearson, "spearman": spearman, "mse": mse}


def multilabel_metrics(targets: np.ndarray, predictions: np.ndarray) -> dict[str, float]:
    """Returns micro and macro F1, and subset accuracy.

    The F1 of a label that neither occurs nor is predicted is 0.

    Args:
        targets, predictions: 0 or 1, int [n, labels].
    """
    targets, predictions = np.asarray(targets, int), np.asarray(predictions, int)
    # Not computed by scikit-learn, which treats a single column as two classes.
    twice_right = 2 * np.sum(targets * predictions, axis=0)
    counts = np.sum(targets + predictions, axis=0)
    metrics = {
        "micro_f1": np.sum(twice_right) / max(np.sum(counts), 1),
        "macro_f1": np.mean(twice_right / np.maximum(counts, 1)),
        "subset_accuracy": np.mean(np.all(targets == predictions, axis=1)),
    }
    return {name: 100 * float(value) for name, value in metrics.items()}


def confusion(label_ids: np.ndarray, predictions: np.ndarray, num_labels: int) -> np.ndarray:
    """Returns counts int64 [gold, predicted]."""
    return confusion_matrix(label_ids, predictions, labels=np.arange(num_labels))


def _matthews(label_ids: np.ndarray, predictions: np.ndarray) -> float:
    if len(np.unique(label_ids)) < 2 or len(np.unique(predictions)) < 2:
        return 0.0  # the limit of the formula; scikit-learn would warn
    return matthews_corrcoef(label_ids, predictions)


def _f1(label_ids: np.ndarray, predictions: np.ndarray, num_labels: int) -> float:
    if num_labels == 2:
        return f1_score(label_ids, predictions, pos_label=1, zero_division=0)
    return _macro_f1(label_ids, predictions, num_labels)


def _macro_f1(label_ids: np.ndarray, predictions: np.ndarray, num_labels: int) -> float:
    labels = np.arange(num_labels)
    return f1_score(label_ids, predictions, labels=labels, average="macro", zero_division=0)
