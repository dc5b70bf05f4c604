"""Reliability diagrams as PNG files."""

import os

import numpy as np

from finetune.results.calibration import Calibration, Reliability
from finetune.results.plots.drawing import drawing, printable, save_figure


def plot_reliability(path: str | os.PathLike, calibration: Calibration, title: str) -> None:
    """Draws the accuracy by confidence, as predicted and with the temperature, and the counts.

    Args:
        path: PNG file to write.
        calibration: calibration on a split.
        title: title of the figure.
    """
    parts = [("as predicted", calibration.reliability, "tab:blue")]
    if calibration.scaled_reliability is not None:
        name = f"temperature {calibration.temperature:.2f}"
        parts.append((name, calibration.scaled_reliability, "tab:orange"))
    with drawing():
        from matplotlib.figure import Figure

        figure = Figure(figsize=(5, 5.6), layout="constrained")
        axes, count_axes = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
        axes.set_title(printable(title), parse_math=False, pad=10)
        axes.plot([0, 1], [0, 1], color="0.6", linestyle="--", linewidth=1)
        for name, part, color in parts:
            shown = part.counts > 0
            axes.plot(
                part.confidences[shown],
                part.accuracies[shown],
                color=color,
                marker="o",
                markersize=4,
                label=f"{name}, ECE {100 * part.error:.2f} %",
            )
            _draw_counts(count_axes, part, color)
        axes.set_ylabel("accuracy")
        axes.set_ylim(0, 1.02)
        axes.legend(frameon=False, loc="upper left")
        count_axes.set_ylabel("examples")
        count_axes.set_xlabel("confidence")
        count_axes.set_xlim(0, 1)
        for each in (axes, count_axes):
            each.grid(color="0.9")
            each.set_axisbelow(True)
            each.spines[["top", "right"]].set_visible(False)
        save_figure(figure, path)


def _draw_counts(axes, part: Reliability, color: str) -> None:
    edges = np.linspace(0, 1, len(part.counts) + 1)
    axes.stairs(part.counts, edges, color=color, linewidth=1.5)
