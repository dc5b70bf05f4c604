"""Confusion matrices as PNG files."""

import math
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from finetune.results.plots.drawing import (
    MAX_TICK_LABELS,
    drawing,
    printable,
    save_figure,
    shorten,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MAX_LABELS_WITH_COUNTS = 30
_MAX_LABELS_WITH_SHARES = 10
# Lines between smaller cells would hide them.
_MAX_LABELS_WITH_LINES = 200
_CELL_INCHES = {"shares": 0.75, "counts": 0.42, "colors": 0.2}
_MAX_MATRIX_INCHES = 16.0


def plot_confusion(
    path: str | os.PathLike, confusion: np.ndarray, labels: Sequence[str], title: str
) -> None:
    """Draws a confusion matrix of counts; colors are fractions of the gold label.

    With more than 30 labels the counts are omitted, with more than 60 some label names, too.

    Args:
        path: PNG file to write.
        confusion: counts [gold, predicted].
        labels: names of the rows and columns.
        title: title of the figure.
    """
    confusion = np.asarray(confusion)
    n = len(labels)
    if confusion.shape != (n, n):
        raise ValueError(f"confusion has shape {confusion.shape} for {n} labels")
    totals = confusion.sum(axis=1, keepdims=True)
    shares = np.divide(confusion, totals, out=np.zeros((n, n)), where=totals > 0)

    style = "counts" if n <= MAX_LABELS_WITH_COUNTS else "colors"
    if n <= _MAX_LABELS_WITH_SHARES:
        style = "shares"
    side = min(max(n * _CELL_INCHES[style], 2.4), _MAX_MATRIX_INCHES)
    with drawing():
        from matplotlib.figure import Figure

        figure = Figure(figsize=(side + 2.6, side + 2.0), layout="constrained")
        axes = figure.add_subplot()
        # ConfusionMatrixDisplay can show only the value that colors a cell.
        image = axes.imshow(shares, cmap="Blues", vmin=0, vmax=1)
        bar = figure.colorbar(image, ax=axes, fraction=0.04, pad=0.02, aspect=30)
        bar.set_label("fraction of the gold label")
        bar.outline.set_visible(False)
        axes.set_title(printable(title), parse_math=False, pad=10)
        axes.set_xlabel("predicted")
        axes.set_ylabel("gold")
        names = [shorten(printable(label)) for label in labels]
        shown = range(0, n, math.ceil(n / MAX_TICK_LABELS))
        font_size = 10 if n <= _MAX_LABELS_WITH_SHARES else 8 if style == "counts" else 6
        options = {"parse_math": False, "fontsize": font_size}
        axes.set_yticks(shown, [names[i] for i in shown], **options)
        upright = max(map(len, names)) > 3 and (n > 4 or max(map(len, names)) > 8)
        slant = {"rotation": 45, "ha": "right", "rotation_mode": "anchor"} if upright else {}
        axes.set_xticks(shown, [names[i] for i in shown], **options, **slant)
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)
        if n <= _MAX_LABELS_WITH_LINES:
            axes.set_xticks(np.arange(n + 1) - 0.5, minor=True)
            axes.set_yticks(np.arange(n + 1) - 0.5, minor=True)
            width = 1.5 if style == "shares" else 0.6
            axes.grid(which="minor", color="white", linewidth=width)
            axes.tick_params(which="minor", length=0)
        if style != "colors":
            _write_cells(axes, confusion, shares, with_shares=style == "shares")
        save_figure(figure, path)


def _write_cells(
    axes: "Axes", confusion: np.ndarray, shares: np.ndarray, *, with_shares: bool
) -> None:
    longest = len(str(int(confusion.max(initial=0))))
    font_size = 11 if with_shares else min(8, 34 / max(longest, 1))
    for gold, predicted in np.ndindex(confusion.shape):
        count, share = int(confusion[gold, predicted]), shares[gold, predicted]
        color = "white" if share > 0.55 else "0.1" if count else "0.75"
        text = f"{count:,}" if with_shares else f"{count}"
        place = {"ha": "center", "va": "center", "color": color}
        if with_shares and count:
            axes.text(predicted, gold - 0.12, text, fontsize=font_size, **place)
            axes.text(predicted, gold + 0.24, f"{share:.0%}", fontsize=7, **place)
        else:
            axes.text(predicted, gold, text, fontsize=font_size, **place)
