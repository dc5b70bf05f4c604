"""What the trials of a run add up to: medians and spreads, and which seeds went wrong.

No TensorFlow is imported here.
"""

import dataclasses
import math
import statistics
from collections.abc import Sequence

OK = "ok"
DEGENERATE = "degenerate"
DIVERGED = "diverged"
FAILED = "failed"
STATUSES = (OK, DEGENERATE, DIVERGED, FAILED)
# Runs that reached their end. A degenerate one learnt nothing, but its score is what a
# user with this seed would have got: leaving it out would flatter the method.
FINISHED = (OK, DEGENERATE)


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrialResult:
    """What came out of one trial, or of one fold of a trial.

    Attributes:
        trial: number, from 1.
        seed: of this trial.
        status: "ok", "degenerate" (learnt nothing), "diverged" or "failed".
        reason: why the status is not "ok".
        fold: number, from 1, under cross-validation.
        steps: training steps done.
        best_step: step whose weights were kept, where a best one was chosen.
        seconds: wall time.
        metrics: "task/split" to metrics by name, NaN where one is undefined.
        main: "task/split" to the name of its main metric.
    """

    trial: int
    seed: int
    status: str = OK
    reason: str | None = None
    fold: int | None = None
    steps: int = 0
    best_step: int | None = None
    seconds: float = 0.0
    metrics: dict[str, dict[str, float]] = dataclasses.field(default_factory=dict)
    main: dict[str, str] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.status not in STATUSES:
            raise ValueError(f"status is {self.status!r}, not one of {', '.join(STATUSES)}")
        if nameless := self.metrics.keys() - self.main.keys():
            raise ValueError(f"no main metric is named for {', '.join(sorted(nameless))}")

    @property
    def finished(self) -> bool:
        """Whether the metrics count."""
        return self.status in FINISHED

    @property
    def label(self) -> str:
        """Such as "2", or "2, fold 3" under cross-validation."""
        return f"{self.trial}" if self.fold is None else f"{self.trial}, fold {self.fold}"


@dataclasses.dataclass(frozen=True)
class Statistics:
    """One metric over trials; None where there is nothing to compute it from.

    Attributes:
        median, mean, min, max: over the trials where the metric is defined.
        std: of the sample (divisor n - 1), None for a single trial.
        n: trials where the metric is defined.
        undefined: finished trials that lack it or where it is NaN.
    """

    median: float | None
    mean: float | None
    std: float | None
    min: float | None
    max: float | None
    n: int
    undefined: int = 0


@dataclasses.dataclass(frozen=True)
class SplitSummary:
    """The metrics of one task and split, the main one first."""

    main: str
    metrics: dict[str, Statistics]


@dataclasses.dataclass(frozen=True)
class Summary:
    """What the trials of a run add up to.

    Attributes:
        splits: by "task/split", over all trials that finished, degenerate ones included.
        ok_splits: the same over the trials with status "ok" alone; None where no trial
            is degenerate, since it would repeat `splits`.
        by_fold: whether the trials are folds, whose mean is then the result.
        num_trials: all of them, finished or not.
        degenerate, unfinished: the trials that something is to be said about.
    """

    splits: dict[str, SplitSummary]
    ok_splits: dict[str, SplitSummary] | None
    by_fold: bool
    num_trials: int
    degenerate: tuple[TrialResult, ...]
    unfinished: tuple[TrialResult, ...]


def summarize(trials: Sequence[TrialResult]) -> Summary:
    """Returns the statistics of each metric, task and split over trials."""
    finished = [trial for trial in trials if trial.finished]
    degenerate = tuple(trial for trial in trials if trial.status == DEGENERATE)
    ok = [trial for trial in trials if trial.status == OK]
    return Summary(
        splits=_split_summaries(finished),
        ok_splits=_split_summaries(ok) if degenerate else None,
        by_fold=any(trial.fold is not None for trial in trials),
        num_trials=len(trials),
        degenerate=degenerate,
        unfinished=tuple(trial for trial in trials if not trial.finished),
    )


def task_splits(trials: Sequence[TrialResult]) -> list[str]:
    """Returns all "task/split" of the finished trials, in the order of their appearance."""
    return list(
        dict.fromkeys(key for trial in trials if trial.finished for key in trial.metrics)
    )


def _split_summaries(trials: Sequence[TrialResult]) -> dict[str, SplitSummary]:
    summaries = {}
    for key in task_splits(trials):
        main = next(trial.main[key] for trial in trials if key in trial.main)
        names = dict.fromkeys([main])
        for trial in trials:
            names.update(dict.fromkeys(trial.metrics.get(key, ())))
        summaries[key] = SplitSummary(
            main,
            {
                name: _statistics([trial.metrics.get(key, {}).get(name) for trial in trials])
                for name in names
            },
        )
    return summaries


def _statistics(values: Sequence[float | None]) -> Statistics:
    known = [float(v) for v in values if v is not None and math.isfinite(v)]
    undefined = len(values) - len(known)
    if not known:
        return Statistics(None, None, None, None, None, 0, undefined)
    return Statistics(
        median=statistics.median(known),
        mean=statistics.fmean(known),
        std=statistics.stdev(known) if len(known) > 1 else None,
        min=min(known),
        max=max(known),
        n=len(known),
        undefined=undefined,
    )
