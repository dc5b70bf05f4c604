"""Comparisons of two samples of pre-training seeds, and where two models' curves cross.

The unit is the pre-training seed: fine-tuning seeds and tasks of one pre-training run are
averaged before anything here sees them.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence

import numpy as np
import scipy.stats

ALPHA = 0.05
CONFIDENCE = 1 - ALPHA
_RESAMPLES = 1000


@dataclasses.dataclass(frozen=True)
class Comparison:
    """The difference of the means of two independent samples, by Welch's t-test.

    Attributes:
        counts: sizes of the samples.
        difference: first mean minus second.
        low, high: its 95 % confidence interval.
        degrees: degrees of freedom (Welch and Satterthwaite).
        p: two-sided, of no difference.
        p_equivalent: of the two one-sided tests (TOST, Schuirmann 1987) that the difference
            is not within the margin.
        effect: the difference in pooled standard deviations (Hedges' g).
        effect_low, effect_high: its 95 % confidence interval, approximate.
    """

    counts: tuple[int, int]
    difference: float
    low: float
    high: float
    degrees: float
    p: float
    p_equivalent: float
    effect: float
    effect_low: float
    effect_high: float


def compare(
    first: Sequence[float], second: Sequence[float], margin: float
) -> Comparison | None:
    """Compares two samples; None where a test is undefined.

    Args:
        first, second: one score a pre-training seed.
        margin: largest difference that counts as none, in points.
    """
    if min(len({*first}), len({*second})) < 2:  # constant samples have no error to test by
        return None
    a, b = np.asarray(first, float), np.asarray(second, float)
    test = scipy.stats.ttest_ind(a, b, equal_var=False)
    interval = test.confidence_interval(CONFIDENCE)
    above = scipy.stats.ttest_ind(a + margin, b, equal_var=False, alternative="greater")
    below = scipy.stats.ttest_ind(a - margin, b, equal_var=False, alternative="less")
    effect, effect_low, effect_high = hedges_g(a, b)
    return Comparison(
        counts=(len(a), len(b)),
        difference=float(a.mean() - b.mean()),
        low=float(interval.low),
        high=float(interval.high),
        degrees=float(test.df),
        p=float(test.pvalue),
        p_equivalent=float(max(above.pvalue, below.pvalue)),
        effect=effect,
        effect_low=effect_low,
        effect_high=effect_high,
    )


def hedges_g(first: np.ndarray, second: np.ndarray) -> tuple[float, float, float]:
    """Returns Hedges' g and its 95 % interval, both approximate (Hedges and Olkin 1985)."""
    n, m = len(first), len(second)
    degrees = n + m - 2
    squares = (n - 1) * first.var(ddof=1) + (m - 1) * second.var(ddof=1)
    unbiased = 1 - 3 / (4 * degrees - 1)
    g = float(unbiased * (first.mean() - second.mean()) / math.sqrt(squares / degrees))
    error = math.sqrt((n + m) / (n * m) + g * g / (2 * (n + m)))
    reach = float(scipy.stats.norm.ppf(1 - ALPHA / 2)) * error
    return g, g - reach, g + reach


def holm(p_values: Sequence[float]) -> list[float]:
    """Returns the p-values adjusted for all of them (Holm 1979), in order."""
    count, highest = len(p_values), 0.0
    adjusted = [0.0] * count
    for rank, index in enumerate(np.argsort(p_values, kind="stable")):
        highest = max(highest, (count - rank) * p_values[index])
        adjusted[index] = min(1.0, highest)
    return adjusted


@dataclasses.dataclass(frozen=True)
class Crossing:
    """The compute from which the first model is ahead, by a line in the logarithm of compute.

    Attributes:
        budget: where the fitted difference is 0 and rising; infinite if it does not rise.
        low, high: 95 % interval, by resampling the seeds of every point.
        never: fraction of the resamples whose difference does not rise.
        extrapolated: whether `budget` is outside of the budgets that were measured.
    """

    budget: float
    low: float
    high: float
    never: float
    extrapolated: bool


def crossing(
    first: Mapping[float, Sequence[float]],
    second: Mapping[float, Sequence[float]],
    *,
    seed: int = 0,
) -> Crossing | None:
    """Returns the crossing of two curves; None with fewer than two common budgets or seeds.

    Args:
        first, second: by budget, one score a pre-training seed.
        seed: of the bootstrap.
    """
    budgets = sorted(
        b for b in first.keys() & second.keys() if min(len(first[b]), len(second[b])) >= 2
    )
    if len(budgets) < 2:
        return None
    logs = np.log2(budgets)

    def zero(differences: Sequence[float]) -> float:
        slope, intercept = np.polyfit(logs, differences, 1)
        # Beyond 2**64 times the compute is as good as never.
        power = -intercept / slope if slope > 0 else math.inf
        return 2.0**power if power < 64 else math.inf

    def resampled(values: Sequence[float]) -> float:
        chosen = random.integers(len(values), size=len(values))
        return float(np.mean(np.asarray(values)[chosen]))

    random = np.random.default_rng(seed)
    found = zero([float(np.mean(first[b]) - np.mean(second[b])) for b in budgets])
    draws = [
        zero([resampled(first[b]) - resampled(second[b]) for b in budgets])
        for _ in range(_RESAMPLES)
    ]
    tail = ALPHA / 2
    low, high = np.quantile(draws, [tail, 1 - tail], method="inverted_cdf")
    return Crossing(
        budget=found,
        low=float(low),
        high=float(high),
        never=float(np.mean(np.isinf(draws))),
        extrapolated=not budgets[0] <= found <= budgets[-1],
    )
