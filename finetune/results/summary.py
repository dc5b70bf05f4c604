"""Summary of the trials of a run: statistics of the metrics, and failed seeds.

No TensorFlow is imported here.
"""

import dataclasses
import math
import statistics
from collections.abc import Sequence

OK = "ok"
DEGENERATE = "degenerate"
DIVERGED = "diverged"
STATUSES = (OK, DEGENERATE, DIVERGED)
# Finished runs. A degenerate one learned nothing, but its score is what a user would get with
# this seed; excluding it would bias the summary.
FINISHED = (OK, DEGENERATE)
# Names of the metrics of calibration, which the authors' scorers do not have.
ECE, SCALED_ECE, TEMPERATURE = CALIBRATION_METRICS = ("ece", "scaled_ece", "temperature")


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrialResult:
    """Result of one trial, or of one fold of a trial.

    Attributes:
        trial: index of the trial, from 1.
        seed: random seed.
        status: "ok", "degenerate" (learned nothing) or "diverged".
        reason: why the status is not "ok".
        fold: index of the fold, from 1; None without cross-validation.
        steps: number of training steps.
        best_step: step of the selected weights, with `keep_best`.
        chosen_on: "task/split" whose scores selected the weights, with `keep_best`.
        examples: number of examples in each part of a fold: trained on, used to choose the
            weights ("selection"), and reported ("held_out").
        seconds: wall time, including training steps before a restart; in an evaluation without
            training, the time of the model's training steps.
        metrics: metrics by "task/split" and name; NaN if undefined.
        main: name of the main metric by "task/split".
    """

    trial: int
    seed: int
    status: str = OK
    reason: str | None = None
    fold: int | None = None
    steps: int = 0
    best_step: int | None = None
    chosen_on: list[str] = dataclasses.field(default_factory=list)
    examples: dict[str, int] = dataclasses.field(default_factory=dict)
    seconds: float = 0.0
    metrics: dict[str, dict[str, float]] = dataclasses.field(default_factory=dict)
    main: dict[str, str] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.status not in STATUSES:
            raise ValueError(f"status is {self.status!r}, not one of {', '.join(STATUSES)}")
        if nameless := self.metrics.keys() - self.main.keys():
            raise ValueError(f"no main metric for {', '.join(sorted(nameless))}")

    @property
    def finished(self) -> bool:
        """Whether the trial finished, so that its metrics count."""
        return self.status in FINISHED

    @property
    def label(self) -> str:
        """The trial index, such as "2", or "2, fold 3" with cross-validation."""
        return f"{self.trial}" if self.fold is None else f"{self.trial}, fold {self.fold}"


@dataclasses.dataclass(frozen=True)
class Statistics:
    """Statistics of one metric over trials; None if there are no values.

    Attributes:
        median, mean, min, max: over the trials with a defined value.
        std: sample standard deviation (divisor n - 1); None for a single trial.
        n: number of trials with a defined value.
        undefined: number of finished trials without one.
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
    """Summary of the trials of a run.

    Attributes:
        splits: metrics by "task/split", over all finished trials, including degenerate ones.
        ok_splits: the same over trials with status "ok"; None if no trial is degenerate.
        by_fold: whether the trials are folds, whose mean is the result.
        num_trials: number of trials, finished or not.
        degenerate, unfinished: trials with these outcomes.
    """

    splits: dict[str, SplitSummary]
    ok_splits: dict[str, SplitSummary] | None
    by_fold: bool
    num_trials: int
    degenerate: tuple[TrialResult, ...]
    unfinished: tuple[TrialResult, ...]


def summarize(trials: Sequence[TrialResult]) -> Summary:
    """Summarizes the metrics of each task and split over trials."""
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
    """Returns all "task/split" of the finished trials, in order of appearance."""
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
