"""From results to verdicts: tasks that count, scores a seed, orderings, and the crossing."""

import dataclasses
import math
import statistics as basic
from collections.abc import Mapping, Sequence

from benchmarks.study.models import BERT, BERT_LOWEST_LOSS, ELECTRA, MODELS, QUARTER, RANDOM
from benchmarks.study.plan import (
    ABLATION,
    ABLATION_BUDGET,
    BUDGETS,
    CLAIM,
    FOLLOW_UP,
    FOLLOW_UP_BUDGETS,
    Run,
    alias,
)
from benchmarks.study.results import KINDS, Result
from benchmarks.study.sizes import Size
from benchmarks.study.statistics import ALPHA, Comparison, compare, holm
from electra_tf.config.choices import WITHOUT_ENCODER

# The largest difference that counts as none, in points of the average over tasks.
MARGIN = 1.0
# A task counts where pre-training beats random weights by so many standard errors.
CLEAR = 2.0
# A masked-LM accuracy that is higher than that of the most frequent token by less than this
# share counts as no higher.
_TOLERANCE = 0.1

REPRODUCED, REVERSED, SAME, UNKNOWN = VERDICTS = (
    "reproduced",
    "reversed",
    "no difference",
    "not known",
)
# Name of the model and budget.
Point = tuple[str, float]


@dataclasses.dataclass(frozen=True)
class Claim:
    """An ordering of the paper: better, worse, where, and the scores there.

    Its stage is the family that its p-value is adjusted for.
    """

    better: str
    worse: str
    where: str
    there: str
    budget: float = ABLATION_BUDGET
    stage: str = ABLATION


CLAIMS = (
    *(
        Claim(ELECTRA.name, BERT.name, "Table 5, Figure 4", "85.0 and 82.2", budget, CLAIM)
        for budget in BUDGETS
    ),
    Claim(ELECTRA.name, "All-Tokens MLM", "Table 5", "85.0 and 84.3"),
    Claim("All-Tokens MLM", "Replace MLM", "Table 5", "84.3 and 82.4"),
    Claim("Replace MLM", BERT.name, "Table 5", "82.4 and 82.2"),
    Claim(ELECTRA.name, "ELECTRA 15 %", "Table 5", "85.0 and 82.4"),
    Claim("share embeddings", "share nothing", "section 3.2", "84.3 (tokens) and 83.6"),
    Claim("share all", "share tokens", "section 3.2", "84.4 and 84.3"),
    Claim("generator 1/2", "generator 1", "Figure 3, left", "a quarter to a half is best"),
    Claim("generator 1/4", "generator 1", "Figure 3, left", "a quarter to a half is best"),
    Claim("generator 1/4", "generator 1/8", "Figure 3, left", "a quarter to a half is best"),
    Claim("share nothing", "two-stage", "Figure 3, right", "joint is best"),
    Claim("two-stage", "adversarial", "Figure 3, right", "in this order"),
    Claim("adversarial", BERT.name, "Figure 3, right", "in this order"),
    *(
        Claim(QUARTER.name, BERT.name, "Table 5, Figure 4", "85.0 and 82.2", budget, FOLLOW_UP)
        for budget in FOLLOW_UP_BUDGETS
    ),
)


@dataclasses.dataclass(frozen=True)
class Ordering:
    """What was found of a claim.

    Attributes:
        claim: the paper's.
        counts: pre-training seeds of the better and the worse model.
        comparison: None where there are too few.
        p, p_equivalent: adjusted for the claims of its stage that could be compared (Holm).
        p_overall: the p-value, adjusted for those of all stages; no verdict depends on it.
        verdict: one of `VERDICTS`.
    """

    claim: Claim
    counts: tuple[int, int]
    comparison: Comparison | None
    p: float | None
    p_equivalent: float | None
    p_overall: float | None
    verdict: str


class Scores:
    """Scores of the runs, by kind ("finetuning" or "probe").

    Args:
        runs: of all stages, and their results so far.
        size: of the study.
        tasks: that are looked at.
    """

    def __init__(
        self, runs: Sequence[tuple[Run, Result]], size: Size, tasks: Sequence[str]
    ) -> None:
        self._size = size
        self.tasks = tuple(tasks)
        self.by_kind: dict[str, dict[Point, list[dict[str, float]]]] = {}
        for kind in KINDS:
            points = self.by_kind.setdefault(kind, {})
            for run, result in runs:
                found = {
                    task: basic.fmean(values)
                    for task, values in result.scores.get(kind, {}).items()
                    if task in tasks and values and None not in values
                }
                if found:
                    points.setdefault((run.model, run.budget), []).append(found)
        self.counting = {kind: self._counting_tasks(kind) for kind in KINDS}

    def of_task(self, kind: str, point: Point, task: str) -> list[float]:
        """Returns the scores of a task, one a pre-training seed."""
        seeds = self.by_kind[kind].get(self._resolve(point), [])
        return [seed[task] for seed in seeds if task in seed]

    def averages(self, kind: str, point: Point) -> list[float]:
        """Returns the averages over the tasks that count, one a seed that has them all."""
        tasks = self.counting[kind]
        seeds = self.by_kind[kind].get(self._resolve(point), [])
        complete = [seed for seed in seeds if tasks and all(task in seed for task in tasks)]
        return [basic.fmean(seed[task] for task in tasks) for seed in complete]

    def gain(self, kind: str, task: str) -> tuple[float, float] | None:
        """Returns how far pre-trained models beat random weights, and its standard error.

        ELECTRA and BERT of all budgets count alike, so the choice of tasks favors neither.
        None with fewer than two seeds of both.
        """
        trained = [
            score
            for model in (ELECTRA, BERT, BERT_LOWEST_LOSS)
            for budget in BUDGETS
            for score in self.of_task(kind, (model.name, budget), task)
        ]
        random = self.of_task(kind, (RANDOM.name, 0.0), task)
        if min(len(trained), len(random)) < 2:
            return None
        error = math.hypot(
            *(basic.stdev(sample) / math.sqrt(len(sample)) for sample in (trained, random))
        )
        return basic.fmean(trained) - basic.fmean(random), error

    def _counting_tasks(self, kind: str) -> tuple[str, ...]:
        gains = {task: self.gain(kind, task) for task in self.tasks}
        return tuple(t for t, gain in gains.items() if gain and gain[0] >= CLEAR * gain[1] > 0)

    def _resolve(self, point: Point) -> Point:
        name, budget = point
        model = next((m for m in MODELS if m.name == name), None)
        return (alias(model, self._size).name, budget) if model else point


def orderings(scores: Scores, kind: str, claims: Sequence[Claim] = CLAIMS) -> list[Ordering]:
    """Returns what was found of the claims; p-values are adjusted within each stage."""
    samples = [
        tuple(
            scores.averages(kind, (name, claim.budget)) for name in (claim.better, claim.worse)
        )
        for claim in claims
    ]
    comparisons = [compare(better, worse, MARGIN) for better, worse in samples]
    families = [
        [i for i, claim in enumerate(claims) if claim.stage == stage]
        for stage in dict.fromkeys(claim.stage for claim in claims)
    ]
    differences = [test and test.p for test in comparisons]
    p = _adjusted(differences, families)
    p_overall = _adjusted(differences, [range(len(claims))])
    p_equivalent = _adjusted([test and test.p_equivalent for test in comparisons], families)
    return [
        Ordering(
            claim=claim,
            counts=(len(sample[0]), len(sample[1])),
            comparison=comparison,
            p=p[i],
            p_equivalent=p_equivalent[i],
            p_overall=p_overall[i],
            verdict=_verdict(comparison, p[i], p_equivalent[i]),
        )
        for i, (claim, sample, comparison) in enumerate(
            zip(claims, samples, comparisons, strict=True)
        )
    ]


def _adjusted(
    p_values: Sequence[float | None], families: Sequence[Sequence[int]]
) -> list[float | None]:
    """Returns p-values adjusted within families of indices; None stays None, and is no test."""
    adjusted: list[float | None] = [None] * len(p_values)
    for family in families:
        tested = [i for i in family if p_values[i] is not None]
        for i, p in zip(tested, holm([p_values[i] for i in tested]), strict=True):
            adjusted[i] = p
    return adjusted


def _verdict(comparison: Comparison | None, p: float | None, p_equivalent: float | None) -> str:
    if comparison is None:
        return UNKNOWN
    if p < ALPHA:
        return REPRODUCED if comparison.difference > 0 else REVERSED
    return SAME if p_equivalent < ALPHA else UNKNOWN


def curve(scores: Scores, kind: str, model: str) -> dict[float, list[float]]:
    """Returns the averages by budget."""
    found = {budget: scores.averages(kind, (model, budget)) for budget in BUDGETS}
    return {budget: values for budget, values in found.items() if values}


def unlearned(results: Sequence[tuple[Run, Result]]) -> list[str]:
    """Returns runs with a generator to train that is no better than the most frequent token."""
    found = []
    for run, result in results:
        if run.settings.get("generator_type") in WITHOUT_ENCODER:
            continue
        accuracy = result.metric("masked_lm_accuracy")
        least = result.pretraining.get("unigram_accuracy")
        if accuracy is not None and least and accuracy <= least * (1 + _TOLERANCE):
            found.append(run.name)
    return found


def count_verdicts(found: Sequence[Ordering]) -> Mapping[str, int]:
    """Returns how many orderings have each verdict."""
    return {v: sum(ordering.verdict == v for ordering in found) for v in VERDICTS}
