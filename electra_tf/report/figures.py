"""Figures of a report, made by Plotly: curves of logged metrics, and confusion matrices."""

import html
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from electra_tf.report.runs import Confusion, ReportRun
from electra_tf.training.monitoring.run_info import RATES, SECONDS_LEFT
from electra_tf.training.variable_groups import GRADIENT_NORM, UPDATE_RATIO
from electra_tf.util.extras import import_extra

EXTRA = "report"
# Shown apart from the metrics.
SPEEDS = (
    "learning_rate",
    "gradient_norm",
    *(name for name in RATES if name != SECONDS_LEFT),
)
# Drawn by `electra_tf.report.layers`.
BY_LAYER = (GRADIENT_NORM, UPDATE_RATIO)
_NO_METRICS = frozenset({"step", "kind", SECONDS_LEFT, "trial", "fold"})
# First in the page; the others follow in the order of the log.
_FIRST = (
    "loss",
    "gen_loss",
    "disc_loss",
    "masked_lm_accuracy",
    "disc_auc",
    "disc_auc_within_token",
    "replaced_share",
    "disc_recall",
    "disc_precision",
    "disc_accuracy",
)
_REFERENCE_COLOR = "#8f959c"
# Maximum number of values of a curve; of longer logs, every n-th record is drawn.
MAX_POINTS = 2000
# With more labels, a confusion matrix would take megabytes.
MAX_LABELS = 200
_MAX_LABELS_WITH_COUNTS = 30


class Line(NamedTuple):
    """A run, or a trial of one, which has one color in all figures."""

    name: str
    color: str
    records: Sequence[Mapping[str, Any]]


def plotly_javascript() -> str:
    """Returns Plotly's JavaScript.

    Raises:
        UserError: Plotly is not installed.
    """
    return import_extra("plotly.offline", EXTRA, "The report").get_plotlyjs()


def lines_of(runs: Sequence[ReportRun], references: Sequence[ReportRun] = ()) -> list[Line]:
    """Returns the lines of all runs, with their colors, and those of references in gray."""
    colors = import_extra("plotly.colors", EXTRA, "The report").qualitative.D3
    named = [
        (label_of(runs, run, label), records)
        for run in runs
        for label, records in run.logs.items()
    ]
    if len(named) > len(colors):
        colors = [f"hsl({360 * i // len(named)}, 65%, 45%)" for i in range(len(named))]
    lines = [
        Line(name, color, records)
        for color, (name, records) in zip(colors, named, strict=False)
    ]
    return lines + [Line(each.name, _REFERENCE_COLOR, each.logs[""]) for each in references]


def label_of(runs: Sequence[ReportRun], run: ReportRun, label: str) -> str:
    """Returns the name of a log among those of all runs."""
    if not label:
        return run.name
    return f"{run.name}: {label}" if len(runs) > 1 else label


def logged_metrics(lines: Sequence[Line]) -> list[str]:
    """Returns the names of all metrics in the logs, the most important first."""
    names = dict.fromkeys(
        name
        for line in lines
        for record in line.records
        if record["kind"] in ("train", "eval")
        for name, value in record.items()
        if name not in _NO_METRICS
        and not name.startswith(BY_LAYER)
        and isinstance(value, int | float)
    )
    return [name for name in _FIRST if name in names] + [
        name for name in names if name not in _FIRST
    ]


def curves(metric: str, lines: Sequence[Line]) -> dict[str, Any]:
    """Returns a figure of a metric over the steps.

    Training is a smoothed line over the logged values, which stay visible behind it; the page
    smooths them. Evaluations are dots on a dashed line. Lines have gaps where the log has null
    (NaN or infinity).
    """
    go = import_extra("plotly.graph_objects", EXTRA, "The report")
    figure = go.Figure(layout={"template": "none"})
    # References first, so that runs are drawn over them.
    numbered = sorted(enumerate(lines), key=lambda item: item[1].color != _REFERENCE_COLOR)
    for number, line in numbered:
        for kind in ("train", "eval"):
            points = _points(line.records, kind, metric)
            if not points:
                continue
            steps, values = zip(*points, strict=True)
            name = _plotly_text(line.name)
            common = {"x": steps, "y": values, "name": name, "showlegend": False}
            if kind == "eval":
                style = {"color": line.color, "dash": "dot", "width": 1.5}
                figure.add_scatter(
                    **common,
                    mode="lines+markers",
                    line=style,
                    marker={"size": 6},
                    meta={"line": number, "kind": kind},
                    hovertemplate="%{y:.5g} held out",
                )
                continue
            figure.add_scatter(
                **common,
                mode="lines",
                line={"color": line.color, "width": 1},
                opacity=0.3,
                hoverinfo="skip",
                meta={"line": number, "kind": "logged"},
            )
            alone = _are_alone(values)
            figure.add_scatter(
                **common,
                mode="lines+markers" if any(alone) else "lines",
                line={"color": line.color, "width": 2},
                marker={"size": [6 if each else 0 for each in alone] if any(alone) else 6},
                meta={"line": number, "kind": "smoothed"},
                hovertemplate="%{y:.5g}",
            )
    figure.update_layout(
        margin={"l": 56, "r": 12, "t": 8, "b": 36},
        height=260,
        hovermode="x unified",
        xaxis={"title": {"text": "step", "standoff": 4}, "nticks": 6, "zeroline": False},
        yaxis={"nticks": 6, "zeroline": False, "exponentformat": "e"},
    )
    return figure.to_plotly_json()


def confusion_matrix(confusion: Confusion) -> dict[str, Any]:
    """Returns a figure of a confusion matrix; colors are fractions of the gold label."""
    go = import_extra("plotly.graph_objects", EXTRA, "The report")
    shares = [[n / max(1, sum(row)) for n in row] for row in confusion.counts]
    size = len(confusion.labels)
    numbers = {"texttemplate": "%{text}"} if size <= _MAX_LABELS_WITH_COUNTS else {}
    names = [_plotly_text(label) for label in confusion.labels]
    heatmap = go.Heatmap(
        z=shares,
        x=list(range(size)),
        y=list(range(size)),
        text=[list(row) for row in confusion.counts],
        customdata=[[(gold, predicted) for predicted in names] for gold in names],
        colorscale="Blues",
        zmin=0,
        zmax=1,
        colorbar={"tickformat": ".0%", "thickness": 10, "outlinewidth": 0},
        hovertemplate="gold %{customdata[0]}, predicted %{customdata[1]}: %{text} "
        "(%{z:.0%})<extra></extra>",
        **numbers,
    )
    shown = [
        _plotly_text(name if len(name) <= 16 else f"{name[:15]}…")
        for name in map(str, confusion.labels)
    ]
    ticks = {"tickmode": "array", "tickvals": list(range(size)), "ticktext": shown}
    figure = go.Figure(heatmap, layout={"template": "none"})
    figure.update_layout(
        margin={"l": 40, "r": 12, "t": 8, "b": 40},
        height=min(700, 220 + 26 * size),
        xaxis={**ticks, "title": {"text": "predicted"}, "automargin": True, "zeroline": False},
        yaxis={
            **ticks,
            "title": {"text": "gold"},
            "autorange": "reversed",
            "automargin": True,
            "zeroline": False,
        },
    )
    return figure.to_plotly_json()


def _plotly_text(text: Any) -> str:
    """Returns text for Plotly, which otherwise takes <b> and &amp; for markup."""
    return html.escape(str(text), quote=False)


def _points(
    records: Sequence[Mapping[str, Any]], kind: str, metric: str
) -> list[tuple[int, float | None]]:
    """Returns step and value of the records with a metric; none if all are null."""
    points = [
        (record["step"], record[metric])
        for record in records
        if record["kind"] == kind and metric in record
    ]
    if all(value is None for _, value in points):
        return []
    every = -(-len(points) // MAX_POINTS) or 1
    return points[:-1:every] + points[-1:]


def _are_alone(values: Sequence[float | None]) -> list[bool]:
    """Returns for each value whether no line leads to it, since both neighbors are missing."""
    padded = [None, *values, None]
    return [
        value is not None and before is None and after is None
        for before, value, after in zip(padded, values, padded[2:], strict=False)
    ]
