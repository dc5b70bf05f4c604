"""What the fine-tunings add up to: means over seeds and tasks, and their standard errors."""

import dataclasses
import math
import statistics
from collections.abc import Mapping, Sequence

from benchmarks.finetuning_runs import Run
from benchmarks.study.models import Start

# A difference counts where it is larger than this many standard errors.
CLEAR = 2.0
VERDICTS = REPRODUCED, REVERSED, WITHIN_NOISE = "reproduced", "reversed", "within noise"


@dataclasses.dataclass(frozen=True)
class Score:
    """A mean and its standard error; `count` numbers went into it."""

    mean: float
    error: float
    count: int

    def __str__(self) -> str:
        return f"{self.mean:.2f} ± {self.error:.2f}"


def score_of(run: Run, num_trials: int) -> Score | None:
    """Returns the main metric of the dev set over the seeds; None where it is not there.

    A seed that learnt nothing counts with what it got.
    """
    trials = run.results(num_trials)
    if trials is None:
        return None
    values = [
        trial.metrics[key][trial.main[key]]
        for trial in trials
        for key in trial.metrics
        if trial.finished and key.endswith("/dev")
    ]
    values = [value for value in values if math.isfinite(value)]
    if len(values) < 2:
        return None
    return Score(
        statistics.fmean(values), statistics.stdev(values) / math.sqrt(len(values)), len(values)
    )


def average(scores: Sequence[Score]) -> Score:
    """Returns the mean over tasks; their errors are independent."""
    count = len(scores)
    return Score(
        statistics.fmean(score.mean for score in scores),
        math.sqrt(sum(score.error**2 for score in scores)) / count,
        sum(score.count for score in scores),
    )


def pretraining_noise(first: Score, second: Score) -> float:
    """Returns the standard error that pre-training adds to the difference of two models.

    Args:
        first, second: of one model, pre-trained with two seeds. The square of their
            difference estimates its variance; that of fine-tuning is taken off.
    """
    variance = (first.mean - second.mean) ** 2 - first.error**2 - second.error**2
    return math.sqrt(max(variance, 0.0))


def compare(better: Score, worse: Score, noise: float = 0.0) -> str:
    """Returns whether the first is clearly above the second, one of `VERDICTS`.

    Args:
        better, worse: of two models.
        noise: standard error of their difference that is not in their own errors.
    """
    difference = better.mean - worse.mean
    if abs(difference) <= CLEAR * math.hypot(better.error, worse.error, noise):
        return WITHIN_NOISE
    return REPRODUCED if difference > 0 else REVERSED


def averages(
    by_task: Mapping[str, Mapping[Start, Score]],
) -> dict[Start, Score]:
    """Returns the average over tasks of every start that all tasks have a score of."""
    starts = [set(scores) for scores in by_task.values()]
    common = set.intersection(*starts) if starts else set()
    return {
        start: average([scores[start] for scores in by_task.values()])
        for start in sorted(common)
    }
