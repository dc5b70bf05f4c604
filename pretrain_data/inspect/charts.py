"""Charts of the statistics, as SVG in the colors of the page."""

import io
import re
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter

from pretrain_data.inspect.console_report import bin_name

# Colors of the drawing, replaced by those of the page, light or dark.
_TEXT, _BAR, _GRID = "#010203", "#040506", "#070809"
_PAGE_COLORS = {_TEXT: "currentColor", _BAR: "var(--accent)", _GRID: "var(--line)"}
_SIZE = (4.2, 2.5)
_STYLE = {
    "svg.fonttype": "none",
    "svg.hashsalt": "inspect",
    "font.size": 10,
    "text.color": _TEXT,
    "axes.labelcolor": _TEXT,
    "axes.edgecolor": _GRID,
    "axes.axisbelow": True,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "grid.color": _GRID,
    "xtick.color": _TEXT,
    "ytick.color": _TEXT,
}
_MAX_LABELS = 8
_REFERENCES = re.compile(r'(\bid="|url\(#|href="#)')


def length_chart(summary: Mapping[str, Any], name: str) -> str:
    """Returns the histogram of a `statistics.summary` as SVG; "" without records.

    Args:
        summary: the lengths.
        name: prefix of the ids in the drawing, unique in the page.
    """
    bins = summary["histogram"]
    return _bars([bin_name(each) for each in bins], [each["records"] for each in bins], name)


def _bars(labels: Sequence[str], values: Sequence[int], name: str) -> str:
    if not values:
        return ""
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_STYLE)
        figure = Figure(figsize=_SIZE, layout="constrained")
        axes = figure.subplots()
        axes.bar(range(len(values)), values, color=_BAR, width=0.85)
        step = -(-len(labels) // _MAX_LABELS)
        axes.set_xticks(range(0, len(labels), step), labels[::step], rotation=30, ha="right")
        axes.set_xlabel("tokens")
        axes.set_ylabel("records")
        axes.yaxis.set_major_formatter(EngFormatter(sep=""))
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    return _for_page(buffer.getvalue(), name)


def _for_page(svg: str, name: str) -> str:
    """Returns the SVG element alone, with the colors and the width of the page."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'(<svg[^>]*?) (?:width|height)="[^"]*"', r"\1", svg, count=1)
    svg = re.sub(r'(<svg[^>]*?) (?:width|height)="[^"]*"', r"\1", svg, count=1)
    svg = _REFERENCES.sub(rf"\g<1>{name}-", svg)
    for drawn, shown in _PAGE_COLORS.items():
        svg = svg.replace(drawn, shown)
    return svg
