"""Calibration of predicted probabilities: expected calibration error and temperature.

Both are defined by Guo et al. 2017, "On calibration of modern neural networks". No TensorFlow
is imported here.
"""

import dataclasses
import math
import os
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import scipy.optimize
import scipy.special

from electra_tf.util.files import to_json, write_atomically
from finetune.results.summary import ECE, SCALED_ECE, TEMPERATURE

NUM_BINS = 15
# Range of the search. A result at either end means that no temperature is best: if every
# prediction is right, sharper probabilities are always better.
_MIN_TEMPERATURE, _MAX_TEMPERATURE = 0.01, 100.0
# Logit of the classes that a row lacks, such as choices of an example with fewer than others.
_MISSING = np.finfo(np.float32).min
# Logits that are computed with at once: all of them can be gigabytes, many times over.
_LOGITS_AT_ONCE = 1 << 20


class Reliability(NamedTuple):
    """Predictions in bins of equal width by their confidence, the highest probability.

    Attributes:
        counts: int [bins], number of predictions.
        confidences, accuracies: float [bins], means of a bin; NaN if it is empty.
    """

    counts: np.ndarray
    confidences: np.ndarray
    accuracies: np.ndarray

    def to_dict(self) -> dict[str, list[float | None]]:
        """Returns the bins by name; means of empty bins are None."""
        return {
            name: [value if math.isfinite(value) else None for value in values.tolist()]
            for name, values in self._asdict().items()
        }

    @property
    def error(self) -> float:
        """Expected calibration error (equation 3 of the paper), in [0, 1]."""
        gaps = np.abs(self.accuracies - self.confidences)
        return float(np.nansum(gaps * self.counts) / self.counts.sum())


@dataclasses.dataclass(frozen=True, kw_only=True)
class Calibration:
    """Calibration of the predictions of one split.

    Attributes:
        temperature: divisor of the logits; NaN if none is best.
        fitted_on: split that the temperature was fitted on.
        reliability: reliability of the probabilities as predicted.
        scaled_reliability: reliability after temperature scaling; None without a temperature.
    """

    temperature: float
    fitted_on: str
    reliability: Reliability
    scaled_reliability: Reliability | None

    @property
    def metrics(self) -> dict[str, float]:
        """The temperature, and the calibration errors without and with it, in percent."""
        metrics = {ECE: 100 * self.reliability.error}
        if self.scaled_reliability is None:
            return metrics
        scaled = 100 * self.scaled_reliability.error
        return {**metrics, SCALED_ECE: scaled, TEMPERATURE: self.temperature}

    def write(self, path: str | os.PathLike) -> None:
        """Writes metrics and bins as JSON; means of empty bins are null."""
        parts = {"as_predicted": self.reliability, "scaled": self.scaled_reliability}
        content = {
            **self.metrics,
            "fitted_on": self.fitted_on,
            "bins": {name: part.to_dict() for name, part in parts.items() if part is not None},
        }
        write_atomically(path, to_json(content))


def calibrate(
    logits: np.ndarray, label_ids: np.ndarray, temperature: float, fitted_on: str
) -> Calibration:
    """Returns the calibration of predictions.

    Args:
        logits: float [n, classes], n > 0.
        label_ids: int [n].
        temperature: result of `fit_temperature`.
        fitted_on: split that the temperature was fitted on.
    """
    scaled = None if math.isnan(temperature) else reliability(logits, label_ids, temperature)
    return Calibration(
        temperature=temperature,
        fitted_on=fitted_on,
        reliability=reliability(logits, label_ids),
        scaled_reliability=scaled,
    )


def reliability(
    logits: np.ndarray, label_ids: np.ndarray, temperature: float = 1.0
) -> Reliability:
    """Returns `NUM_BINS` bins of predictions; bin b has confidences (b / bins, (b + 1) / bins].

    Args:
        logits: float [n, classes], n > 0.
        label_ids: int [n].
        temperature: divisor of the logits.
    """
    highest, classes = [], []
    for part in _parts(logits):
        probabilities = scipy.special.softmax(part / temperature, axis=1)
        highest.append(probabilities.max(axis=1))
        classes.append(probabilities.argmax(axis=1))
    confidences = np.concatenate(highest)
    is_right = np.concatenate(classes) == label_ids
    bins = np.clip(np.ceil(confidences * NUM_BINS).astype(int) - 1, 0, NUM_BINS - 1)
    counts = np.bincount(bins, minlength=NUM_BINS)

    def means(values: np.ndarray) -> np.ndarray:
        sums = np.bincount(bins, weights=values, minlength=NUM_BINS)
        return np.divide(sums, counts, out=np.full(NUM_BINS, math.nan), where=counts > 0)

    return Reliability(counts, means(confidences), means(is_right))


def fit_temperature(logits: np.ndarray, label_ids: np.ndarray) -> float:
    """Returns the temperature with the lowest cross-entropy; NaN if there is none.

    There is none if every prediction is right, if none is better than chance, or if all classes
    of every row are equally likely.

    Args:
        logits: float [n, classes], n > 0; the lowest float32 for classes that a row lacks.
        label_ids: int [n].
    """
    if not any(_differ(part) for part in _parts(logits)):
        return math.nan

    def cross_entropy(log_temperature: float) -> float:
        total, start = 0.0, 0
        for part in _parts(logits):
            rows, end = np.arange(len(part)), start + len(part)
            top = part.argmax(axis=1)
            scaled = (part - part[rows, top, None]) / math.exp(log_temperature)
            others = np.exp(scaled)
            others[rows, top] = 0.0  # exact, even if all others are near 0
            total += np.sum(np.log1p(others.sum(axis=1)) - scaled[rows, label_ids[start:end]])
            start = end
        return float(total / len(logits))

    # Convex in 1 / temperature, so there is at most one minimum.
    ends = math.log(_MIN_TEMPERATURE), math.log(_MAX_TEMPERATURE)
    best = scipy.optimize.minimize_scalar(cross_entropy, bounds=ends, options={"xatol": 1e-6})
    if min(abs(best.x - end) for end in ends) < 1e-3 or best.fun == 0:
        return math.nan
    return math.exp(best.x)


def _parts(logits: np.ndarray) -> Iterator[np.ndarray]:
    """Yields consecutive rows as float64."""
    num_rows = max(1, _LOGITS_AT_ONCE // logits.shape[1])
    for start in range(0, len(logits), num_rows):
        yield np.asarray(logits[start : start + num_rows], np.float64)


def _differ(logits: np.ndarray) -> bool:
    """Returns whether a row has classes that are not equally likely, of those it has."""
    highest = logits.max(axis=1, keepdims=True)
    return bool(np.ptp(np.where(logits > _MISSING, logits, highest), axis=1).any())
