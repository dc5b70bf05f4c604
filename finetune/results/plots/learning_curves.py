"""Learning curves as PNG files."""

import math
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from electra_tf.training.monitoring.run_info import RATES
from finetune.results.plots.drawing import drawing, printable, save_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Keys of log records that are not dev metrics.
_NO_METRICS = frozenset(
    {
        "step",
        "epoch",
        "kind",
        "trial",
        "fold",
        "seed",
        "loss",
        "learning_rate",
        "gradient_norm",
        "seconds",
        *RATES,
    }
)
_METRIC_DASHES = ("-", "--", ":", "-.")


def plot_learning_curves(
    path: str | os.PathLike,
    records: Sequence[Mapping[str, Any]],
    title: str,
    *,
    metrics: Sequence[str] | None = None,
    dev_loss: str = "loss",
) -> None:
    """Draws the training loss and the dev metrics against the step, one line per trial.

    The dev loss, if any, is dashed. A dot marks the first evaluation with the highest value
    of the first metric.

    Args:
        path: PNG file to write.
        records: log records with "step", "kind" ("train" or "eval"), "loss" and metrics;
            "trial" and "fold" identify runs. None and NaN leave a gap.
        title: title of the figure.
        metrics: metrics to draw; None draws all metrics of the "eval" records.
        dev_loss: name of the loss in the "eval" records.
    """
    if metrics is None:
        metrics = _metric_names(records)
    runs = _runs(records)
    with drawing():
        from matplotlib.figure import Figure

        figure = Figure(figsize=(11, 4.2), layout="constrained")
        figure.suptitle(printable(title), parse_math=False)
        loss_axes, metric_axes = figure.subplots(1, 2)
        colors = _colors(len(runs))
        for color, (name, run) in zip(colors, runs.items(), strict=True):
            line = {"color": color, "linewidth": 1.6}
            steps, losses = _series(run, "train", "loss")
            loss_axes.plot(steps, losses, label=name, **line, **_dots(steps))
            steps, losses = _series(run, "eval", dev_loss)
            loss_axes.plot(steps, losses, linestyle="--", alpha=0.7, **line, **_dots(steps))
            _plot_metrics(metric_axes, run, metrics, line)
        loss_axes.set_ylabel("loss")
        metric_axes.set_ylabel(
            printable(metrics[0]) if len(metrics) == 1 else "dev metrics", parse_math=False
        )
        for axes in (loss_axes, metric_axes):
            _finish_axes(axes)
        has_dev_loss = any(_series(run, "eval", dev_loss)[0].size for run in runs.values())
        _add_legends(
            loss_axes,
            metric_axes,
            dict(zip(runs, colors, strict=True)),
            metrics,
            has_dev_loss=has_dev_loss,
        )
        save_figure(figure, path)


def _plot_metrics(
    axes: "Axes",
    run: Sequence[Mapping[str, Any]],
    metrics: Sequence[str],
    line: Mapping[str, Any],
) -> None:
    """Draws the dev metrics of a run, with a dot at the best value of the first one."""
    for i, metric in enumerate(metrics):
        steps, values = _series(run, "eval", metric)
        dashes = _METRIC_DASHES[i % len(_METRIC_DASHES)]
        axes.plot(steps, values, linestyle=dashes, **line, **_dots(steps))
        if i == 0 and np.isfinite(values).any():
            best = int(np.nanargmax(values))
            axes.plot(
                steps[best],
                values[best],
                marker="o",
                markersize=8,
                color=line["color"],
                markeredgecolor="black",
                zorder=5,
            )


def _finish_axes(axes: "Axes") -> None:
    """Draws the grid and the ticks of the steps, or a note if there are no values."""
    from matplotlib.ticker import MaxNLocator

    axes.set_xlabel("step")
    axes.xaxis.set_major_locator(MaxNLocator(nbins=7, integer=True))
    axes.grid(color="0.9")
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    if not any(np.isfinite(line.get_ydata()).any() for line in axes.lines):
        axes.set_ylim(0, 1)
        axes.text(0.5, 0.5, "nothing logged", ha="center", transform=axes.transAxes)


def _metric_names(records: Sequence[Mapping[str, Any]]) -> list[str]:
    names = dict.fromkeys(
        name
        for record in records
        if record["kind"] == "eval"
        for name, value in record.items()
        if name not in _NO_METRICS and isinstance(value, int | float)
    )
    return list(names)


def _runs(records: Sequence[Mapping[str, Any]]) -> dict[str, list[Mapping[str, Any]]]:
    """Groups the records by run, such as "trial 1, fold 2", sorted by step."""
    runs: dict[tuple[int, int], list[Mapping[str, Any]]] = {}
    for record in sorted(records, key=lambda record: record["step"]):
        key = (record.get("trial") or 1, record.get("fold") or 0)
        runs.setdefault(key, []).append(record)
    has_one_trial = len({trial for trial, _ in runs}) == 1
    names = {}
    for trial, fold in sorted(runs):
        if not fold:
            names[trial, fold] = f"trial {trial}"
        else:
            names[trial, fold] = (
                f"fold {fold}" if has_one_trial else f"trial {trial}, fold {fold}"
            )
    return {name: runs[key] for key, name in names.items()}


def _series(
    run: Sequence[Mapping[str, Any]], kind: str, name: str
) -> tuple[np.ndarray, np.ndarray]:
    """Returns steps and values [n] of the records with `name`; None becomes NaN."""
    points = [(r["step"], r[name]) for r in run if r["kind"] == kind and name in r]
    values = [math.nan if value is None else float(value) for _, value in points]
    return np.array([step for step, _ in points]), np.array(values, dtype=float)


def _dots(steps: np.ndarray) -> dict[str, Any]:
    """Returns markers for short lines, because a single point has no visible line."""
    return {"marker": ".", "markersize": 5} if len(steps) <= 12 else {}


def _colors(n: int) -> list[Any]:
    import matplotlib

    if n <= 10:
        return list(matplotlib.colormaps["tab10"].colors[:n])
    return [matplotlib.colormaps["viridis"](i / (n - 1)) for i in range(n)]


def _add_legends(
    loss_axes: "Axes",
    metric_axes: "Axes",
    run_colors: Mapping[str, Any],
    metrics: Sequence[str],
    *,
    has_dev_loss: bool,
) -> None:
    """Adds legends: runs by color right of the figure, line styles inside the panels."""
    from matplotlib.lines import Line2D

    def add(
        place: "Axes | Figure", names: Mapping[str, Mapping[str, Any]], **where: Any
    ) -> None:
        handles = [Line2D([], [], **style) for style in names.values()]
        legend = place.legend(handles, [printable(n) for n in names], frameon=False, **where)
        for text in legend.get_texts():
            text.set_parse_math(False)

    if has_dev_loss:
        kinds = {"training": {"color": "0.3"}, "dev": {"color": "0.3", "linestyle": "--"}}
        add(loss_axes, kinds, loc="upper right")
    if metrics:
        best = {"color": "0.6", "marker": "o", "markeredgecolor": "black", "linestyle": "none"}
        lines = {
            name: {"color": "0.3", "linestyle": _METRIC_DASHES[i % len(_METRIC_DASHES)]}
            for i, name in enumerate(metrics)
        }
        if len(metrics) == 1:
            add(metric_axes, {"best": best}, loc="best")
        else:
            add(metric_axes, {**lines, f"best {metrics[0]}": best}, loc="best")
    if len(run_colors) > 1:
        colors = {name: {"color": color, "linewidth": 3} for name, color in run_colors.items()}
        columns = math.ceil(len(colors) / 16)
        add(loss_axes.figure, colors, loc="outside right center", ncols=columns)
