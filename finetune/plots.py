"""Pictures of results: confusion matrices and learning curves, as PNG files.

matplotlib is imported when the first picture is drawn. The same input gives the same
bytes. Figures are made without pyplot, so that no state is shared and no display needed.
"""

import contextlib
import functools
import io
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from electra_tf.util.files import write_atomically

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MAX_LABELS_WITH_COUNTS = 30
_MAX_LABELS_WITH_SHARES = 10
_MAX_TICK_LABELS = 60
_MAX_LABEL_LENGTH = 24
_DPI = 120
_CELL_INCHES = {"shares": 0.75, "counts": 0.42, "colors": 0.2}
_MAX_MATRIX_INCHES = 16.0
# Fonts with Korean letters, by the systems that bring them.
_KOREAN_FONTS = (
    "Noto Sans CJK KR",
    "Noto Sans KR",
    "NanumGothic",
    "NanumBarunGothic",
    "Apple SD Gothic Neo",
    "AppleGothic",
    "Malgun Gothic",
    "Source Han Sans KR",
    "UnDotum",
)
_DEFAULT_FONT = "DejaVu Sans"
# Keys of log records that are no metric of a dev set.
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
        "seconds_left",
        "steps_per_second",
        "sequences_per_second",
        "tokens_per_second",
    }
)
_METRIC_DASHES = ("-", "--", ":", "-.")


def plot_confusion(
    path: str | os.PathLike, confusion: np.ndarray, labels: Sequence[str], title: str
) -> None:
    """Draws a confusion matrix; colours show shares of the gold label, cells say counts.

    Above 30 labels the cells carry no text, above 60 only some labels are named.

    Args:
        path: PNG file to write.
        confusion: counts [gold, predicted].
        labels: names of the rows and columns.
        title: stands above the matrix.
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
    with _drawing():
        from matplotlib.figure import Figure

        figure = Figure(figsize=(side + 2.6, side + 2.0), layout="constrained")
        axes = figure.add_subplot()
        image = axes.imshow(shares, cmap="Blues", vmin=0, vmax=1)
        bar = figure.colorbar(image, ax=axes, fraction=0.04, pad=0.02, aspect=30)
        bar.set_label("share of the gold label")
        bar.outline.set_visible(False)
        axes.set_title(printable(title), parse_math=False, pad=10)
        axes.set_xlabel("predicted")
        axes.set_ylabel("gold")
        names = [_shorten(printable(label)) for label in labels]
        shown = range(0, n, math.ceil(n / _MAX_TICK_LABELS))
        font_size = 10 if n <= _MAX_LABELS_WITH_SHARES else 8 if style == "counts" else 6
        options = {"parse_math": False, "fontsize": font_size}
        axes.set_yticks(shown, [names[i] for i in shown], **options)
        upright = max(map(len, names)) > 3 and (n > 4 or max(map(len, names)) > 8)
        slant = {"rotation": 45, "ha": "right", "rotation_mode": "anchor"} if upright else {}
        axes.set_xticks(shown, [names[i] for i in shown], **options, **slant)
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)
        axes.set_xticks(np.arange(n + 1) - 0.5, minor=True)
        axes.set_yticks(np.arange(n + 1) - 0.5, minor=True)
        axes.grid(which="minor", color="white", linewidth=1.5 if style == "shares" else 0.6)
        axes.tick_params(which="minor", length=0)
        if style != "colors":
            _write_cells(axes, confusion, shares, with_shares=style == "shares")
        _save(figure, path)


def plot_learning_curves(
    path: str | os.PathLike,
    records: Sequence[Mapping[str, Any]],
    title: str,
    *,
    metrics: Sequence[str] | None = None,
) -> None:
    """Draws the training loss and the dev metrics against the step, a line for each trial.

    A dev loss, where there is one, is dashed beside the training loss. A dot marks the best
    evaluation by the first metric; the higher, the better, and the first of equals.

    Args:
        path: PNG file to write.
        records: of the log, with "step", "kind" ("train" or "eval"), "loss" and metrics;
            "trial" and "fold" tell runs apart. None and NaN leave a gap.
        title: stands above the panels.
        metrics: keys to draw; all metrics of the "eval" records if left out.
    """
    if metrics is None:
        metrics = _metric_names(records)
    runs = _runs(records)
    with _drawing():
        from matplotlib.figure import Figure
        from matplotlib.ticker import MaxNLocator

        figure = Figure(figsize=(11, 4.2), layout="constrained")
        figure.suptitle(printable(title), parse_math=False)
        loss_axes, metric_axes = figure.subplots(1, 2)
        colors = _colors(len(runs))
        for color, (name, run) in zip(colors, runs.items(), strict=True):
            line = {"color": color, "linewidth": 1.6}
            steps, losses = _series(run, "train", "loss")
            loss_axes.plot(steps, losses, label=name, **line, **_dots(steps))
            steps, losses = _series(run, "eval", "loss")
            loss_axes.plot(steps, losses, linestyle="--", alpha=0.7, **line, **_dots(steps))
            for i, metric in enumerate(metrics):
                steps, values = _series(run, "eval", metric)
                dashes = _METRIC_DASHES[i % len(_METRIC_DASHES)]
                metric_axes.plot(steps, values, linestyle=dashes, **line, **_dots(steps))
                if i == 0 and np.isfinite(values).any():
                    best = int(np.nanargmax(values))
                    metric_axes.plot(
                        steps[best],
                        values[best],
                        marker="o",
                        markersize=8,
                        color=color,
                        markeredgecolor="black",
                        zorder=5,
                    )
        loss_axes.set_ylabel("loss")
        metric_axes.set_ylabel(
            printable(metrics[0]) if len(metrics) == 1 else "dev metrics", parse_math=False
        )
        for axes in (loss_axes, metric_axes):
            axes.set_xlabel("step")
            axes.xaxis.set_major_locator(MaxNLocator(nbins=7, integer=True))
            axes.grid(color="0.9")
            axes.set_axisbelow(True)
            axes.spines[["top", "right"]].set_visible(False)
            if not any(np.isfinite(line.get_ydata()).any() for line in axes.lines):
                axes.set_ylim(0, 1)
                axes.text(0.5, 0.5, "nothing logged", ha="center", transform=axes.transAxes)
        has_dev_loss = any(_series(run, "eval", "loss")[0].size for run in runs.values())
        _add_legends(
            loss_axes,
            metric_axes,
            dict(zip(runs, colors, strict=True)),
            metrics,
            has_dev_loss=has_dev_loss,
        )
        _save(figure, path)


def printable(text: str) -> str:
    r"""Returns `text` with each character that no font at hand can draw as `\uXXXX`."""
    glyphs = _glyphs()
    return "".join(
        c if c.isprintable() and ord(c) in glyphs else c.encode("unicode_escape").decode()
        for c in text
    )


@contextlib.contextmanager
def _drawing() -> Iterator[None]:
    """Draws with the defaults of matplotlib, whatever the user's matplotlibrc says."""
    import matplotlib

    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams["font.family"] = list(_font_files())
        yield


@functools.cache
def _font_files() -> dict[str, str]:
    """Returns the fonts to draw with by name: the default, then those with Korean letters."""
    from matplotlib import font_manager

    files = {font.name: font.fname for font in font_manager.fontManager.ttflist}
    korean = [name for name in _KOREAN_FONTS if name in files]
    return {
        _DEFAULT_FONT: font_manager.findfont(_DEFAULT_FONT),
        **{name: files[name] for name in korean[:1]},
    }


@functools.cache
def _glyphs() -> frozenset[int]:
    from matplotlib.ft2font import FT2Font

    return frozenset().union(*(FT2Font(file).get_charmap() for file in _font_files().values()))


def _shorten(label: str) -> str:
    return label if len(label) <= _MAX_LABEL_LENGTH else label[: _MAX_LABEL_LENGTH - 1] + "…"


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
    """Returns the records by run, such as "trial 1, fold 2", sorted by step."""
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
    """Returns steps and values [n] of the records that have `name`; None becomes NaN."""
    points = [(r["step"], r[name]) for r in run if r["kind"] == kind and name in r]
    values = [math.nan if value is None else float(value) for _, value in points]
    return np.array([step for step, _ in points]), np.array(values, dtype=float)


def _dots(steps: np.ndarray) -> dict[str, Any]:
    """Returns markers for short lines: a single point has no line to be seen by."""
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
    """Names runs by colour at the right of the figure, and kinds of line inside the panels."""
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


def _save(figure: "Figure", path: str | os.PathLike) -> None:
    buffer = io.BytesIO()
    # The version of matplotlib would be written into the file otherwise.
    figure.savefig(
        buffer,
        format="png",
        dpi=_DPI,
        bbox_inches="tight",
        pad_inches=0.1,
        metadata={"Software": None},
    )
    write_atomically(path, buffer.getvalue())
