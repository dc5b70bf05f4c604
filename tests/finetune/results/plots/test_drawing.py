"""Confusion matrices and learning curves as pictures."""

import json
import struct
import subprocess
import sys
import types
import warnings

import numpy as np
import pytest
from matplotlib import font_manager

from finetune.results.plots import confusion, drawing, learning_curves
from finetune.results.plots import confusion as results_confusion

PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"


@pytest.fixture(autouse=True)
def _no_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def size(path) -> tuple[int, int]:
    """Returns width and height in pixels."""
    content = path.read_bytes()
    assert content.startswith(PNG_SIGNATURE)
    assert content[12:16] == b"IHDR"
    return struct.unpack(">II", content[16:24])


def pixels(path) -> np.ndarray:
    """Returns the picture, float32 [height, width, channels]."""
    from matplotlib.image import imread

    return imread(path)[..., :3]


def has_color(image: np.ndarray, color: tuple[float, float, float]) -> bool:
    return bool((np.abs(image - np.array(color)).max(axis=-1) < 0.02).any())


@pytest.mark.parametrize("n", [2, 5, 30, 31, 70])
def test_confusion_of_any_number_of_labels(tmp_path, n):
    path = tmp_path / "plots" / "confusion.png"
    confusion = np.random.default_rng(0).integers(0, 900, (n, n))
    results_confusion.plot_confusion(path, confusion, [f"label {i}" for i in range(n)], "title")
    width, height = size(path)
    assert 300 < width < 2500
    assert 300 < height < 2500
    assert pixels(path).std() > 0.01
    assert [path.name for path in (tmp_path / "plots").iterdir()] == ["confusion.png"]


def test_colors_are_shares_of_the_gold_label(tmp_path):
    from matplotlib import colormaps

    path = tmp_path / "confusion.png"
    # Row by row 75 % and 25 %, whatever the counts; the third row is empty.
    confusion = np.array([[3, 1, 0], [0, 300, 100], [0, 0, 0]])
    results_confusion.plot_confusion(path, confusion, ["a", "b", "c"], "title")
    image = pixels(path)
    matrix = image[:, : int(image.shape[1] * 0.75)]  # without the colour bar
    for share in (0.75, 0.25, 0.0):
        assert has_color(matrix, colormaps["Blues"](share)[:3])
    for share in (0.9, 0.5):
        assert not has_color(matrix, colormaps["Blues"](share)[:3])


def test_small_cells_are_not_hidden_by_lines(tmp_path):
    path = tmp_path / "confusion.png"
    labels = [str(i) for i in range(1000)]
    results_confusion.plot_confusion(path, np.eye(1000, dtype=int), labels, "title")
    height, width, _ = pixels(path).shape
    inside = pixels(path)[height // 5 : height // 2, width // 5 : width // 2]
    assert inside.min() < 0.3  # the diagonal is dark


def test_cells_carry_text_up_to_thirty_labels(tmp_path, monkeypatch):
    written = []
    monkeypatch.setattr(confusion, "_write_cells", lambda *_, **how: written.append(how))
    for n in (2, 30, 31):
        labels = [str(i) for i in range(n)]
        results_confusion.plot_confusion(
            tmp_path / "c.png", np.eye(n, dtype=int), labels, "title"
        )
    assert written == [{"with_shares": True}, {"with_shares": False}]


def test_confusion_refuses_other_shapes(tmp_path):
    with pytest.raises(ValueError, match=r"shape \(2, 2\) for 3 labels"):
        results_confusion.plot_confusion(
            tmp_path / "c.png", np.eye(2), ["a", "b", "c"], "title"
        )
    assert not list(tmp_path.iterdir())


def test_labels_in_any_script(tmp_path):
    labels = ["긍정", "$x_1$", "a\nb", "\U0001f600", "l" * 90]
    path = tmp_path / "confusion.png"
    results_confusion.plot_confusion(path, np.eye(5, dtype=int), labels, "부정 $")
    assert size(path)[0] < 1500


def test_what_no_font_can_draw_is_escaped(monkeypatch):
    monkeypatch.setattr(drawing, "_glyphs", lambda: frozenset(map(ord, "abé ")))
    assert drawing.printable("ab é") == "ab é"
    assert drawing.printable("a긍\n") == r"a\uae0d\n"
    assert drawing.printable("\U0001f600") == r"\U0001f600"


def test_the_first_font_of_each_script_is_used(monkeypatch):
    fonts = [
        types.SimpleNamespace(name=name, fname=f"/{name}.ttf")
        for name in ("Loma", "Other", "Garuda", "Meiryo")
    ]
    monkeypatch.setattr(font_manager.fontManager, "ttflist", fonts)
    monkeypatch.setattr(font_manager, "findfont", lambda name: f"/{name}.ttf")
    assert list(drawing._font_files.__wrapped__().items()) == [
        ("DejaVu Sans", "/DejaVu Sans.ttf"),
        ("Meiryo", "/Meiryo.ttf"),
        ("Garuda", "/Garuda.ttf"),
    ]


def log(trials: int = 1, folds: int = 0) -> list[dict]:
    """Returns records as a JSON-lines log gives them back."""
    records = []
    for trial in range(1, trials + 1):
        for fold in range(1, folds + 1) or [None]:
            for step in (10, 20, 30):
                run = {"step": step, "trial": trial, "fold": fold}
                records.append(
                    {**run, "kind": "train", "loss": 3 / step, "learning_rate": 1e-4}
                )
                values = {"loss": 4 / step, "f1": {10: 50, 20: 90, 30: 80}[step], "em": None}
                records.append({**run, "kind": "eval", **values})
    return json.loads(json.dumps(records))


@pytest.mark.parametrize(("trials", "folds"), [(1, 0), (3, 0), (1, 5), (2, 3), (20, 0)])
def test_learning_curves(tmp_path, monkeypatch, trials, folds):
    figures = []
    original = learning_curves.save_figure

    def save(figure, path):
        figures.append(figure)
        original(figure, path)

    monkeypatch.setattr(learning_curves, "save_figure", save)
    path = tmp_path / "curves.png"
    records = log(trials, folds)
    for record in records:  # every run has values of its own
        record["loss"] += 10 * record["trial"] + (record["fold"] or 0)
        if record["kind"] == "eval":
            record["f1"] += record["trial"] + 0.1 * (record["fold"] or 0)
    # Trials that are resumed log their steps out of order.
    learning_curves.plot_learning_curves(path, records[::-1], "title")
    assert size(path)[0] > 2 * size(path)[1]

    (figure,) = figures
    assert figure.get_suptitle() == "title"
    loss_axes, metric_axes = figure.axes
    assert (loss_axes.get_ylabel(), metric_axes.get_ylabel()) == ("loss", "f1")
    runs = {(record["trial"], record["fold"]) for record in records}
    expected = {}
    for run in runs:
        for kind, name in (("train", "loss"), ("eval", "loss"), ("eval", "f1")):
            points = [
                (r["step"], r[name])
                for r in records
                if (r["trial"], r["fold"]) == run and r["kind"] == kind
            ]
            expected[kind, name, tuple(sorted(points))] = run
    colors = {}
    for axes in (loss_axes, metric_axes):
        for line in axes.lines:
            points = tuple(zip(*(data.tolist() for data in line.get_data()), strict=True))
            if len(points) == 1:
                continue  # the dot of the best evaluation
            is_dashed = line.get_linestyle() == "--"
            name = "loss" if axes is loss_axes else "f1"
            kind = "eval" if is_dashed or name == "f1" else "train"
            run = expected.pop((kind, name, points))
            colors.setdefault(run, set()).add(line.get_color())
    assert not expected  # each curve is drawn once, in its panel and style
    assert all(len(of_run) == 1 for of_run in colors.values())
    assert len(set().union(*colors.values())) == len(runs)


def test_curves_draw_each_run_in_its_color(tmp_path):
    from matplotlib import colormaps

    first, second = colormaps["tab10"].colors[:2]
    for trials in (1, 2):
        learning_curves.plot_learning_curves(tmp_path / "c.png", log(trials), "title")
        image = pixels(tmp_path / "c.png")
        assert has_color(image, first)
        assert has_color(image, second) == (trials == 2)


def test_the_dot_is_at_the_first_best_evaluation(tmp_path, monkeypatch):
    from matplotlib.axes import Axes

    dots = []
    original = Axes.plot

    def plot(self, x, y, *args, **style):
        if style.get("marker") == "o":
            dots.append((int(x), float(y)))
        return original(self, x, y, *args, **style)

    monkeypatch.setattr(Axes, "plot", plot)
    learning_curves.plot_learning_curves(tmp_path / "c.png", log(), "title")
    assert dots == [(20, 90.0)]
    later = {"step": 40, "kind": "eval", "f1": 90.0}
    learning_curves.plot_learning_curves(
        tmp_path / "c.png", [*log(), later], "title", metrics=["f1"]
    )
    assert dots == [(20, 90.0), (20, 90.0)]


def test_metrics_are_what_evaluations_add():
    assert learning_curves._metric_names(log()) == ["f1"]
    assert list(learning_curves._runs(log(1, 2))) == ["fold 1", "fold 2"]
    assert list(learning_curves._runs(log(2, 1))) == ["trial 1, fold 1", "trial 2, fold 1"]
    assert list(learning_curves._runs(log(11)))[-2:] == ["trial 10", "trial 11"]


@pytest.mark.parametrize(
    "records",
    [
        [],
        [{"step": 1, "kind": "train", "loss": None}],
        [{"step": 1, "kind": "train", "loss": 1.0}],
        [{"step": 1, "kind": "eval", "loss": 1.0, "f1": float("nan")}],
    ],
)
def test_curves_of_hardly_anything(tmp_path, records):
    learning_curves.plot_learning_curves(tmp_path / "c.png", records, "title")
    assert size(tmp_path / "c.png")[0] > 1000


def test_the_same_input_gives_the_same_bytes(tmp_path):
    from matplotlib import rcParams

    def draw() -> tuple[bytes, bytes]:
        results_confusion.plot_confusion(
            tmp_path / "a.png", np.eye(3, dtype=int), ["a", "b", "c"], "t"
        )
        learning_curves.plot_learning_curves(tmp_path / "b.png", log(2), "t")
        return (tmp_path / "a.png").read_bytes(), (tmp_path / "b.png").read_bytes()

    first = draw()
    assert b"Software" not in first[0]
    assert b"tEXt" not in first[1]
    # A user's own style changes nothing, and is left as it was.
    rcParams["axes.facecolor"] = "red"
    try:
        assert draw() == first
        assert rcParams["axes.facecolor"] == "red"
    finally:
        rcParams["axes.facecolor"] = "white"


def test_importing_draws_nothing():
    slow = "{'matplotlib', 'tensorflow'}"
    modules = "finetune.results.plots.confusion, finetune.results.plots.learning_curves"
    code = f"import sys, {modules}; sys.exit(not {slow}.isdisjoint(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0
