"""The study's figures, drawn of what there is."""

import pathlib
import statistics
import typing
from collections.abc import Callable, Sequence

import scipy.stats

from benchmarks.study import gate
from benchmarks.study.analysis import MARGIN, Ordering, Scores, curve, orderings
from benchmarks.study.models import BERT, ELECTRA, QUARTER, RANDOM
from benchmarks.study.plan import BUDGETS, Run
from benchmarks.study.results import FINETUNING, KINDS, Result
from benchmarks.study.statistics import CONFIDENCE

if typing.TYPE_CHECKING:
    import matplotlib.axes

_WITHIN_TOKEN = "disc_auc_within_token"
TITLES = {
    "gate": "AUC within a token id on held-out text, by tries of the gate",
    "claim": "Score against compute; bars are 95 % intervals over pre-training seeds",
    "learning": "AUC within a token id on held-out text, by runs of the claim",
    "orderings": "Differences of the paper's orderings, with 95 % intervals",
}


def plot(
    gate_results: Sequence[tuple[Run, Result]],
    done: Sequence[tuple[Run, Result]],
    scores: Scores,
    folder: pathlib.Path,
) -> list[str]:
    """Writes the figures that there are numbers for; returns their names, of `TITLES`.

    Args:
        gate_results: tries of the gate that have ended.
        done: runs of claim and ablations that have results.
        scores: of them.
        folder: of the figures.
    """
    import matplotlib

    matplotlib.use("Agg")

    found = orderings(scores, FINETUNING)
    compared = [ordering for ordering in found if ordering.comparison]
    curves = [kind for kind in KINDS if curve(scores, kind, ELECTRA.name)]
    electra = [(run, result) for run, result in done if run.model == ELECTRA.name]
    drawn: dict[str, tuple[int, Callable]] = {}
    if any(result.metric(_WITHIN_TOKEN) for _, result in gate_results):
        drawn["gate"] = 1, lambda axes: _gate(axes[0], gate_results)
    if curves:
        drawn["claim"] = len(curves), lambda axes: _claim(axes, scores, curves)
    if any(result.metric(_WITHIN_TOKEN) for _, result in electra):
        drawn["learning"] = 1, lambda axes: _learning(axes[0], electra)
    if compared:
        drawn["orderings"] = 1, lambda axes: _orderings(axes[0], compared)
    for name, (panels, draw) in drawn.items():
        _figure(folder / f"{name}.png", panels, draw)
    for name in TITLES.keys() - drawn.keys():
        (folder / f"{name}.png").unlink(missing_ok=True)
    return list(drawn)


def _figure(path: pathlib.Path, panels: int, draw: Callable) -> None:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, panels, figsize=(5.5 + 2 * panels, 4.2), squeeze=False)
    draw(axes[0])
    figure.tight_layout()
    # Without the date and version, the same results give the same file.
    figure.savefig(path, dpi=110, metadata={"Software": None})
    plt.close(figure)


def _gate(axes: "matplotlib.axes.Axes", results: Sequence[tuple[Run, Result]]) -> None:
    import matplotlib

    axes.set_prop_cycle(color=matplotlib.colormaps["tab20"].colors)
    for run, result in results:
        steps, values = _within_token(result)
        if steps:
            axes.plot(steps, values, marker="o", label=run.name.removeprefix("gate_"))
    _of_detection(axes)
    # Beside the curves, of which there may be many.
    axes.legend(fontsize=7, loc="upper left", bbox_to_anchor=(1.01, 1.0))


def _learning(axes: "matplotlib.axes.Axes", results: Sequence[tuple[Run, Result]]) -> None:
    for i, budget in enumerate(BUDGETS):
        of_budget = [result for run, result in results if run.budget == budget]
        for k, result in enumerate(of_budget):
            label = None if k else f"budget {budget:g}"
            axes.plot(*_within_token(result), marker="o", color=f"C{i}", label=label)
    _of_detection(axes)
    axes.legend(fontsize=8)


def _within_token(result: Result) -> tuple[list[int], list[float]]:
    """Returns the steps of the evaluations and the AUC within a token id there."""
    curve_points = result.pretraining.get("curve", ())
    points = [p for p in curve_points if p.get(_WITHIN_TOKEN) is not None]
    return [p["step"] for p in points], [p[_WITHIN_TOKEN] for p in points]


def _of_detection(axes: "matplotlib.axes.Axes") -> None:
    axes.axhline(gate.PASSING, linestyle=":", color="grey")
    axes.set_xlabel("step")
    axes.set_ylabel("AUC within a token id (dotted: the gate)")


def _claim(
    axes: Sequence["matplotlib.axes.Axes"], scores: Scores, kinds: Sequence[str]
) -> None:
    for panel, kind in zip(axes, kinds, strict=True):
        for model in (ELECTRA.name, QUARTER.name, BERT.name):
            points = curve(scores, kind, model)
            if not points:
                continue
            panel.errorbar(
                list(points),
                [statistics.fmean(values) for values in points.values()],
                [_half_interval(values) for values in points.values()],
                marker="o",
                capsize=3,
                label=model,
            )
        random = scores.averages(kind, (RANDOM.name, 0.0))
        if random:
            panel.axhline(statistics.fmean(random), linestyle=":", color="grey")
        panel.set_xscale("log", base=2)
        panel.set_xlabel("model FLOPs (1: the smallest budget)")
        panel.set_ylabel("average score (dotted: random weights)")
        panel.set_title(f"{kind}: {', '.join(scores.counting[kind])}", fontsize=9)
        panel.legend()


def _orderings(axes: "matplotlib.axes.Axes", found: Sequence[Ordering]) -> None:
    rows = range(len(found))[::-1]
    for row, ordering in zip(rows, found, strict=True):
        test = ordering.comparison
        reach = [[test.difference - test.low], [test.high - test.difference]]
        axes.errorbar([test.difference], [row], xerr=reach, marker="o", capsize=3, color="C0")
    labels = [f"{o.claim.better} − {o.claim.worse}, {o.claim.budget:g}" for o in found]
    axes.set_yticks(list(rows), labels, fontsize=8)
    axes.axvline(0, color="grey")
    axes.axvspan(-MARGIN, MARGIN, alpha=0.15, color="grey")
    axes.set_xlabel("difference in points (positive: as in the paper; shaded: the margin)")


def _half_interval(values: Sequence[float]) -> float:
    if len(values) < 2:
        return 0.0
    t = scipy.stats.t.ppf((1 + CONFIDENCE) / 2, len(values) - 1)
    return float(t * statistics.stdev(values) / len(values) ** 0.5)
