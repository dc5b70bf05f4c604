"""Where the discriminator's signal goes: what it explains of its labels.

The labels of a held-out text are binary, with a share s of replaced tokens. A discriminator
that knows nothing but s has a loss of their entropy, −s ln s − (1 − s) ln (1 − s) nats a token;
what a trained one saves of it is the share of the entropy that it explains.
"""

import dataclasses
import math
import statistics
from collections.abc import Mapping, Sequence

import scipy.stats

from benchmarks.study.analysis import Scores
from benchmarks.study.models import ELECTRA
from benchmarks.study.pages import Section, Table
from benchmarks.study.plan import BUDGETS, Run
from benchmarks.study.results import FINETUNING, Result

# A correlation of fewer runs says nothing.
_MIN_RUNS = 6
_NONE = "–"


@dataclasses.dataclass(frozen=True)
class Signal:
    """What held-out text says of a discriminator at the end of its training.

    Attributes:
        within_token: AUC within a token id.
        replaced: share of the tokens that are replaced.
        recovered: share of the samples that are the original token, whose label is "original";
            None where it was not measured.
        entropy: of the labels, in nats a token.
        explained: share of the entropy that the discriminator explains; negative for one that
            is worse than a constant.
        loss_share: the discriminator's share of the loss that is minimized.
    """

    within_token: float
    replaced: float
    recovered: float | None
    entropy: float
    explained: float
    loss_share: float


def signal_of(metrics: Mapping[str, float]) -> Signal | None:
    """Returns the signal, or None for a run without a discriminator or with one label only.

    Args:
        metrics: held-out metrics, of `Result.pretraining`.
    """
    needed = ("disc_loss", "disc_auc_within_token", "replaced_share", "loss", "masked_lm_loss")
    if any(metrics.get(name) is None for name in needed):
        return None
    share = metrics["replaced_share"]
    if not 0 < share < 1:
        return None
    entropy = -share * math.log(share) - (1 - share) * math.log(1 - share)
    return Signal(
        within_token=metrics["disc_auc_within_token"],
        replaced=share,
        recovered=metrics.get("sampled_masked_lm_accuracy"),
        entropy=entropy,
        explained=1 - metrics["disc_loss"] / entropy,
        loss_share=1 - metrics["masked_lm_loss"] / metrics["loss"],
    )


def diagnose(done: Sequence[tuple[Run, Result]], scores: Scores) -> Section:
    """Returns the section about ELECTRA's discriminators.

    Args:
        done: runs of the claim that have results.
        scores: of them.
    """
    rows = []
    for budget in BUDGETS:
        signals = [
            signal
            for run, result in done
            if (run.model, run.budget) == (ELECTRA.name, budget)
            and (signal := signal_of(result.pretraining.get("metrics", {})))
        ]

        rows.append(
            [
                f"{ELECTRA.name}, {budget:g}",
                str(len(signals)),
                _mean([s.within_token for s in signals], 3),
                _mean([100 * s.replaced for s in signals], 1),
                _mean([100 * s.recovered for s in signals if s.recovered is not None], 1),
                _mean([s.entropy for s in signals], 3),
                _mean([100 * s.explained for s in signals], 1),
                _mean([100 * s.loss_share for s in signals], 1),
            ]
        )
    header = ["model, budget", "seeds", "AUC within a token id", "replaced, %"]
    header += ["samples that are the original, %", "entropy of the labels, nats"]
    header += ["explained, %", "discriminator's share of the loss, %"]
    return Section(
        "Diagnosis: where the discriminator's signal goes",
        [
            "Held-out text, means ± standard deviations over pre-training seeds. A "
            "discriminator that knows only how many tokens are replaced has a loss of the "
            "labels' entropy; what is explained is the part of it that a trained one saves.",
            _correlation(done, scores),
        ],
        Table(header, rows),
    )


def _correlation(done: Sequence[tuple[Run, Result]], scores: Scores) -> str:
    """Says how what is explained goes with the scores, over the runs of all budgets."""
    tasks = scores.counting[FINETUNING]
    explained, averages = [], []
    for run, result in done:
        signal = signal_of(result.pretraining.get("metrics", {}))
        found = result.scores.get(FINETUNING, {})
        if run.model == ELECTRA.name and signal and tasks and all(found.get(t) for t in tasks):
            explained.append(signal.explained)
            averages.append(statistics.fmean(statistics.fmean(found[t]) for t in tasks))
    if len(explained) < _MIN_RUNS:
        return "Too few runs to say how this goes with the scores."
    if min(len(set(explained)), len(set(averages))) < 2:
        return "What is explained, or the average score, is the same in all runs."
    rho, p = scipy.stats.spearmanr(explained, averages)
    return (
        f"Over {len(explained)} runs of {ELECTRA.name}, of all budgets together, Spearman's "
        f"correlation of what is explained with the average score is {rho:+.2f} (p = {p:.2g})."
    )


def _mean(values: Sequence[float], digits: int) -> str:
    if not values:
        return _NONE
    mean = f"{statistics.fmean(values):.{digits}f}"
    return mean if len(values) < 2 else f"{mean} ± {statistics.stdev(values):.{digits}f}"
