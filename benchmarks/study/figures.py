"""The study's figures, in the shape of the paper's."""

import pathlib
import typing
from collections.abc import Mapping, Sequence

from benchmarks.study.models import Model, Start, random_start
from benchmarks.study.scores import Score
from benchmarks.study.variants import (
    EFFICIENCY,
    GENERATOR_SIZE,
    HIDDEN_SIZE,
    MODEL_SIZE,
    SHARING,
    TRAINING,
)

if typing.TYPE_CHECKING:
    import matplotlib.axes

FIGURES = {
    "flops_efficiency": (EFFICIENCY, "Score against FLOPs (the paper's Figure 1 and Table 5)"),
    "model_size": (MODEL_SIZE, "Score against hidden size (the paper's Figure 4)"),
    "flops_training": (TRAINING, "Training algorithms (the paper's Figure 3, right)"),
    "generator_size": (GENERATOR_SIZE, "Size of the generator (the paper's Figure 3, left)"),
    "sharing": (SHARING, "What the models share (the paper's section 3.2)"),
}


def plot(
    models: Sequence[Model], averages: Mapping[Start, Score], folder: pathlib.Path
) -> None:
    """Writes the figures of `FIGURES` into a folder."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    for name, (question, title) in FIGURES.items():
        figure, axes = plt.subplots(figsize=(7, 4.2))
        chosen = [model for model in models if question in model.questions]
        _AXES.get(question, _side_by_side)(axes, chosen, averages)
        axes.set_title(title, fontsize=10)
        figure.tight_layout()
        figure.savefig(folder / f"{name}.png", dpi=120)
        plt.close(figure)


def _against_flops(
    axes: "matplotlib.axes.Axes", models: Sequence[Model], averages: Mapping[Start, Score]
) -> None:
    for model in models:
        points = [
            (share * model.flops, score)
            for (name, share), score in averages.items()
            if name == model.name
        ]
        _line(axes, points, label=model.name)
    axes.set_xlabel("training FLOPs")
    axes.legend()
    _random(axes, averages)


def _against_size(
    axes: "matplotlib.axes.Axes", models: Sequence[Model], averages: Mapping[Start, Score]
) -> None:
    sizes = sorted({model.hidden_size for model in models})
    # "ELECTRA 64" is ELECTRA of 64 units.
    starts = [(m.name.split()[0], m.hidden_size, (m.name, 1.0)) for m in models]
    starts += [("random weights", size, random_start(size)) for size in sizes]
    for family in dict.fromkeys(family for family, _, _ in starts):
        points = [
            (size, averages[start])
            for of, size, start in starts
            if of == family and start in averages
        ]
        _line(axes, points, label=family)
    axes.set_xticks(sizes)
    axes.set_xlabel("hidden size")
    axes.set_ylabel("average score")
    axes.legend()


def _side_by_side(
    axes: "matplotlib.axes.Axes", models: Sequence[Model], averages: Mapping[Start, Score]
) -> None:
    names = [model.name for model in models if (model.name, 1.0) in averages]
    _line(axes, [(i, averages[name, 1.0]) for i, name in enumerate(names)], linestyle="")
    axes.set_xticks(range(len(names)), names)
    _random(axes, averages)


_AXES = {EFFICIENCY: _against_flops, TRAINING: _against_flops, MODEL_SIZE: _against_size}


def _random(axes: "matplotlib.axes.Axes", averages: Mapping[Start, Score]) -> None:
    """Names the scores, and marks the one without pre-training."""
    random = averages.get(random_start(HIDDEN_SIZE))
    if random:
        axes.axhline(random.mean, linestyle=":", color="grey")
    axes.set_ylabel("average score" + (" (dotted: random weights)" if random else ""))


def _line(
    axes: "matplotlib.axes.Axes",
    points: Sequence[tuple[float, Score]],
    **style: str,
) -> None:
    """Draws scores against numbers, with error bars."""
    points = sorted(points, key=lambda point: point[0])
    axes.errorbar(
        [x for x, _ in points],
        [score.mean for _, score in points],
        [score.error for _, score in points],
        marker="o",
        capsize=3,
        **style,
    )
