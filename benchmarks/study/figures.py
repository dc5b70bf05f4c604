"""The study's figures, in the shape of the paper's."""

import pathlib
from collections.abc import Mapping, Sequence

from benchmarks.study.models import RANDOM_START, Model
from benchmarks.study.scores import Score
from benchmarks.study.variants import EFFICIENCY, GENERATOR_SIZE, MODEL_SIZE, SHARING, TRAINING

FIGURES = {
    "flops_efficiency": (EFFICIENCY, "Score against FLOPs (the paper's Figure 1 and Table 5)"),
    "model_size": (MODEL_SIZE, "Score against hidden size (the paper's Figure 4)"),
    "flops_training": (TRAINING, "Training algorithms (the paper's Figure 3, right)"),
    "generator_size": (GENERATOR_SIZE, "Size of the generator (the paper's Figure 3, left)"),
    "sharing": (SHARING, "What the models share (the paper's section 3.2)"),
}


def plot(
    models: Sequence[Model], averages: Mapping[tuple[str, float], Score], folder: pathlib.Path
) -> None:
    """Writes the figures of `FIGURES` into a folder."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    for name, (question, title) in FIGURES.items():
        figure, axes = plt.subplots(figsize=(7, 4.2))
        chosen = [model for model in models if question in model.questions]
        if question in (EFFICIENCY, TRAINING):
            for model in chosen:
                points = sorted(
                    (share * model.flops, score)
                    for (start, share), score in averages.items()
                    if start == model.name
                )
                axes.errorbar(
                    [flops for flops, _ in points],
                    [score.mean for _, score in points],
                    [score.error for _, score in points],
                    marker="o",
                    capsize=3,
                    label=model.name,
                )
            axes.set_xlabel("training FLOPs")
            axes.legend()
        elif question == MODEL_SIZE:
            # "ELECTRA 64" is ELECTRA of 64 units.
            for family in dict.fromkeys(model.name.split()[0] for model in chosen):
                found = sorted(
                    (
                        (model.hidden_size, averages[model.name, 1.0])
                        for model in chosen
                        if model.name.split()[0] == family and (model.name, 1.0) in averages
                    ),
                    key=lambda point: point[0],
                )
                axes.errorbar(
                    [size for size, _ in found],
                    [score.mean for _, score in found],
                    [score.error for _, score in found],
                    marker="o",
                    capsize=3,
                    label=family,
                )
            axes.set_xticks(sorted({model.hidden_size for model in chosen}))
            axes.set_xlabel("hidden size")
            if axes.lines:
                axes.legend()
        else:
            scores = [(m.name, averages.get((m.name, 1.0))) for m in chosen]
            scores = [(label, score) for label, score in scores if score]
            axes.errorbar(
                range(len(scores)),
                [score.mean for _, score in scores],
                [score.error for _, score in scores],
                fmt="o",
                capsize=4,
            )
            axes.set_xticks(range(len(scores)), [label for label, _ in scores])
        if RANDOM_START in averages:
            axes.axhline(averages[RANDOM_START].mean, linestyle=":", color="grey")
        axes.set_ylabel("average score (dotted: random weights)")
        axes.set_title(title, fontsize=10)
        figure.tight_layout()
        figure.savefig(folder / f"{name}.png", dpi=120)
        plt.close(figure)
