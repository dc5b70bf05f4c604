"""Figures of values by group of layers over the steps."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from electra_tf.report.figures import EXTRA, MAX_POINTS, Line
from electra_tf.training.variable_groups import GRADIENT_NORM, UPDATE_RATIO
from electra_tf.util.extras import import_extra

_TITLES = {GRADIENT_NORM: "gradient norm", UPDATE_RATIO: "update / weight"}


def layer_figures(lines: Sequence[Line]) -> list[tuple[str, dict[str, Any]]]:
    """Returns title and figure of each value by layer that a line has logged."""
    return [
        (f"{title} by layer" + (f", {line.name}" if len(lines) > 1 else ""), figure)
        for prefix, title in _TITLES.items()
        for line in lines
        if (figure := _heatmap(line, prefix)) is not None
    ]


def _heatmap(line: Line, prefix: str) -> dict[str, Any] | None:
    go = import_extra("plotly.graph_objects", EXTRA, "The report")
    records = [r for r in line.records if any(name.startswith(prefix) for name in r)]
    records = records[:: -(-len(records) // MAX_POINTS) or 1]
    names = list(dict.fromkeys(n for r in records for n in r if n.startswith(prefix)))
    if not names:
        return None
    values = [[_positive(record, name) for record in records] for name in names]
    known = [v for row in values for v in row if v is not None]
    if not known:
        return None
    low, high = (math.log10(bound(known)) for bound in (min, max))
    # A decade at least, so that equal values look equal.
    high = max(high, low + 1)
    decades = range(math.floor(low), math.ceil(high) + 1)
    heatmap = go.Heatmap(
        x=[record["step"] for record in records],
        y=[name.removeprefix(prefix) for name in names],
        z=[[None if v is None else math.log10(v) for v in row] for row in values],
        customdata=values,
        zmin=low,
        zmax=high,
        colorscale="Viridis",
        colorbar={
            "thickness": 10,
            "outlinewidth": 0,
            "tickvals": list(decades),
            "ticktext": [f"1e{decade}" for decade in decades],
        },
        hovertemplate="%{y}, step %{x}: %{customdata:.3g}<extra></extra>",
    )
    figure = go.Figure(heatmap, layout={"template": "none"})
    figure.update_layout(
        margin={"l": 40, "r": 12, "t": 8, "b": 36},
        height=min(800, 140 + 16 * len(names)),
        xaxis={"title": {"text": "step", "standoff": 4}, "nticks": 6, "zeroline": False},
        yaxis={
            "autorange": "reversed",
            "automargin": True,
            "tickfont": {"size": 10},
            "zeroline": False,
        },
    )
    return figure.to_plotly_json()


def _positive(record: Mapping[str, Any], name: str) -> float | None:
    value = record.get(name)
    return value if isinstance(value, int | float) and value > 0 else None
