"""The page of a report, and what headless Chromium makes of it."""

import dataclasses
import json
import pathlib
import re
import shutil
import sys

import numpy as np
import pytest

from electra_tf.report.figures import (
    MAX_LABELS,
    confusion_matrix,
    curves,
    lines_of,
    logged_metrics,
)
from electra_tf.report.layers import layer_figures
from electra_tf.report.page import report_page, write_report
from electra_tf.report.reference import find_references
from electra_tf.report.runs import Confusion, ReportRun, read_training_run
from electra_tf.report.tables import settings_tables
from electra_tf.training.monitoring.run_info import LOG_FILE, write_run_info
from electra_tf.util.errors import UserError
from electra_tf.util.files import read_lines
from tests.browser import CHROMIUM, browse

QUICKSTART = pathlib.Path(__file__).parents[1] / "training/monitoring/quickstart_log.jsonl"


def write_run(folder: pathlib.Path, data: dict | None = None, **settings) -> pathlib.Path:
    """Writes what pre-training leaves in its folder."""
    folder.mkdir()
    shutil.copy(QUICKSTART, folder / LOG_FILE)
    hyperparameters = {"num_train_steps": 2000, "mask_prob": 0.2, **settings}
    description = {"version": 2, "hyperparameters": hyperparameters, "variables": {}}
    (folder / "config.json").write_text(json.dumps(description))
    write_run_info(str(folder), ["/device:CPU:0"], data or {"unigram_accuracy": 0.07})
    return folder


def open_page(path: pathlib.Path, folder: pathlib.Path, *flags: str) -> str:
    """Returns the page after its scripts, which must not fail."""
    result = browse(
        path.as_uri(),
        folder / "profile",
        "--enable-logging=stderr",
        *flags,
        "--virtual-time-budget=20000",
        "--dump-dom",
    )
    assert [line for line in result.stderr.splitlines() if "CONSOLE" in line] == []
    return result.stdout


@pytest.fixture
def runs(tmp_path) -> list[ReportRun]:
    first = write_run(tmp_path / "first", learning_rate=0.002, seed=1)
    second = write_run(
        tmp_path / "<b>second",
        {"unigram_accuracy": 0.5, "unknown_share": 0.2},
        learning_rate=0.01,
        seed=1,
    )
    sentences = [
        {"step": step, "sentences": [[["</script>", "a", 0.5], ["##s", "##s", 0.123]]]}
        for step in range(100)
    ]
    confusion = Confusion("task/dev", ["</script>", "b"], [[3, 1], [2, 4]])
    return [
        read_training_run(first),
        dataclasses.replace(
            read_training_run(second), confusions=[confusion], sentences=sentences
        ),
    ]


def test_a_matrix_of_very_many_labels_is_left_out(runs):
    def page(count: int) -> str:
        labels = [f"label {i}" for i in range(count)]
        confusion = Confusion("task/dev", labels, np.eye(count, dtype=int).tolist())
        return report_page([dataclasses.replace(runs[0], confusions=[confusion])])

    drawn, without = page(MAX_LABELS), page(MAX_LABELS + 1)
    assert "too many for a matrix" not in drawn
    assert "task/dev: 201 labels are too many for a matrix" in without
    assert "<td>label 200</td><td>1.000</td>" in without  # precision, in the table by class
    assert len(without) < len(drawn) - 1_000_000


def test_the_page_is_self_contained_and_compares_the_runs(runs):
    page = report_page(runs)
    own = page.replace(re.search(r"<script>(.*?)</script>\n</head>", page, re.S)[1], "")
    assert not re.search(r"(src|href)=\"?(https?:)?//", own)
    # Names are text, also those that look like HTML.
    assert "<b>second" not in own
    assert "&lt;b&gt;second: since step 0: 20.0% of the words" in own
    assert "the generator predicts no better" in own
    assert "first: since" not in own
    different = own.split("Different settings")[1].split("Settings and environment")[0]
    assert "<td>learning_rate</td><td>0.002</td><td>0.01</td>" in different
    assert "seed" not in different
    assert "<td>seed</td><td>1</td>" in own
    shown = json.loads(
        re.search(r'<script type="application/json" id="sentences">(.*?)</script>', own)[1]
    )
    assert [len(each) for each in shown] == [40]
    assert [shown[0][0]["step"], shown[0][-1]["step"]] == [0, 99]
    assert "<td>devices</td><td>/device:CPU:0</td>" in own
    # The last held-out values.
    first = "<td>first</td><td>2,000</td><td>held-out text</td><td>9.533</td><td>0.210</td>"
    assert first in own
    assert "<td>b</td><td>0.800</td><td>0.667</td><td>0.727</td><td>6</td>" in own


def test_a_figure_has_the_logged_values(runs):
    page = report_page(runs[:1])
    figures = json.loads(
        re.search(r'<script type="application/json" id="figures">(.*?)</script>', page)[1]
    )
    records = [json.loads(line) for line in read_lines(QUICKSTART)]
    logged, smoothed, held_out = figures[0]["data"]
    for trace, kind in ((logged, "train"), (smoothed, "train"), (held_out, "eval")):
        assert trace["x"] == [r["step"] for r in records if r["kind"] == kind]
        assert trace["y"] == [r["loss"] for r in records if r["kind"] == kind]


def test_values_by_layer_are_one_figure(runs):
    layers = {"update_ratio/electra/layer_0": 1e-3, "update_ratio/generator": 0.0}
    records = [{**record, **layers} for record in runs[0].logs[""]]
    assert "update_ratio/" not in logged_metrics(lines_of(runs))
    lines = lines_of([dataclasses.replace(runs[0], logs={"": records})])
    assert not [name for name in logged_metrics(lines) if "/" in name]
    ((title, figure),) = layer_figures(lines)
    assert title == "update / weight by layer"
    (heatmap,) = figure["data"]
    assert list(heatmap["y"]) == ["electra/layer_0", "generator"]
    assert set(heatmap["z"][0]) == {-3.0}
    assert set(heatmap["z"][1]) == {None}
    assert layer_figures(lines_of(runs)) == []


def test_a_run_is_shown_beside_the_reference_of_its_settings(tmp_path, runs):
    folder = tmp_path / "reference"
    folder.mkdir()
    content = {
        "name": "quick",
        "source": "demo/corpus",
        "settings": {"learning_rate": 0.002},
        "records": [{"step": 7, "kind": "train", "loss": 3.25}],
    }
    (folder / "quick.json").write_text(json.dumps(content))
    assert find_references(folder, runs[1].settings) == []
    references = find_references(folder, runs[0].settings)
    page = report_page(runs[:1], references)
    # Not held-out text, as of the run above it.
    assert "<td>reference: quick</td><td>7</td><td>training text</td><td>3.25</td>" in page
    assert "reference: quick: demo/corpus" in page
    lines = lines_of(runs[:1], references)
    traces = curves("loss", lines)["data"]
    assert [trace["name"] for trace in traces][:2] == ["reference: quick"] * 2
    assert list(traces[0]["y"]) == [3.25]
    # One run still: its settings are not compared with the reference's.
    assert "Different settings" not in page
    (folder / "quick.json").write_text("{}")
    with pytest.raises(UserError, match=r"quick\.json is not a reference curve"):
        find_references(folder, {})


@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium: apt-get install chromium")
@pytest.mark.parametrize(
    ("size", "scheme"), [("1200,900", "light"), ("400,900", "dark")], ids=["wide", "narrow"]
)
def test_a_browser_draws_all_figures_without_an_error(runs, tmp_path, size, scheme):
    path = tmp_path / "report.html"
    write_report(path, runs)
    content = open_page(
        path,
        tmp_path,
        f"--window-size={size}",
        f"--blink-settings=preferredColorScheme={int(scheme == 'light')}",
    )
    count = int(re.search(r'<body data-drawn="(\d+)"', content)[1])
    assert count == content.count('data-figure="')
    drawn = re.findall(r'<div class="[^"]*svg-container', content)
    assert count == len(drawn)
    assert count > 15
    assert "<output>99</output>" in content
    (replaced, original) = re.findall(r"<span([^>]*)>[^<]+</span>", content)
    assert 'class="replaced"' in replaced
    assert 'title="replaced: 12 %"' in original


def test_without_plotly_nothing_is_written_and_the_extra_is_named(runs, tmp_path, monkeypatch):
    for module in ("plotly", "plotly.offline", "plotly.colors", "plotly.graph_objects"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(UserError, match=r"needs plotly.*electra-tf\[report\]"):
        write_report(tmp_path / "report.html", runs)
    assert not (tmp_path / "report.html").exists()


def test_a_folder_that_is_no_run_and_a_damaged_log_are_named(tmp_path):
    with pytest.raises(UserError, match=r"is not a run: it has no train_log\.jsonl"):
        read_training_run(tmp_path)
    folder = write_run(tmp_path / "damaged")
    lines = read_lines(folder / LOG_FILE)
    (folder / LOG_FILE).write_text("\n".join([lines[0], "{", *lines[1:]]))
    with pytest.raises(UserError, match=r"train_log\.jsonl, line 2: not a log record"):
        read_training_run(folder)
    # Truncated, as by a killed run.
    (folder / LOG_FILE).write_text("\n".join([*lines[:3], lines[3][:20]]))
    assert len(read_training_run(folder).logs[""]) == 3


def made_run(name: str, *records: dict, **more) -> ReportRun:
    return ReportRun(name=name, logs={"": [{"kind": "train", **r} for r in records]}, **more)


def test_runs_that_are_fine_and_the_same_say_so():
    # JSON has no NaN.
    record = {"step": 1, "loss": 1.0, "disc_auc": float("nan")}
    same = [made_run(name, record, settings={"seed": 1}) for name in ("a", "b")]
    page = re.sub(r">\s+<", "><", report_page(same))
    assert "No problems found in the logged values." in page
    assert "<p>None.</p>" in page[page.index("Different settings") :]
    alone = report_page([made_run("a", record)])
    assert "Different settings" not in alone
    assert len(report_page([made_run("a")])) < len(alone)  # without values, no controls


def test_names_are_no_markup_for_plotly():
    confusion = Confusion("task/dev", ["<b>a</b>", "&lt;"], [[3, 1], [2, 4]])
    figure = confusion_matrix(confusion)
    names = ["&lt;b&gt;a&lt;/b&gt;", "&amp;lt;"]
    assert list(figure["layout"]["xaxis"]["ticktext"]) == names
    assert figure["data"][0]["customdata"][0][1] == names
    figure = curves("loss", lines_of([made_run("<b>a</b>", {"step": 1, "loss": 1.0})]))
    assert {trace["name"] for trace in figure["data"]} == {names[0]}


def test_lines_have_gaps_where_values_are_not_finite():
    losses = [3.0, 2.0, None, 1.0, None, 4.0]
    records = [{"step": step, "loss": loss} for step, loss in enumerate(losses)]
    lines = lines_of([made_run("a", *records, {"step": 6, "other": None})])
    logged, smoothed = curves("loss", lines)["data"]
    assert list(logged["x"]) == list(range(6))
    assert list(logged["y"]) == list(smoothed["y"]) == losses
    # No line leads to the last two values.
    assert list(smoothed["marker"]["size"]) == [0, 0, 0, 6, 0, 6]
    assert curves("other", lines)["data"] == []


@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium: apt-get install chromium")
def test_a_browser_smooths_around_gaps(tmp_path):
    losses = [4.0] * 40 + [None] + [4.0] * 40
    path = tmp_path / "report.html"
    write_report(path, [made_run("a", *({"step": i, "loss": v} for i, v in enumerate(losses)))])
    drawn = 'JSON.stringify(document.querySelector(".figure").data[1].y)'
    page = path.read_text().replace(
        "document.body.dataset.drawn = plots.length;", f"document.body.title = {drawn};"
    )
    path.write_text(page)
    shown = json.loads(re.search(r'<body title="([^"]*)"', open_page(path, tmp_path))[1])
    assert shown == [value and pytest.approx(value) for value in losses]


@pytest.mark.parametrize("count", [10, 11, 40])
def test_every_line_has_a_color_of_its_own(count):
    runs = [made_run(f"run {i}", {"step": 1, "loss": i}) for i in range(count)]
    lines = lines_of(runs)
    assert len({line.color for line in lines}) == count
    drawn = [trace["line"]["color"] for trace in curves("loss", lines)["data"]]
    assert drawn == [line.color for line in lines for _ in ("logged", "smoothed")]


def test_the_colors_of_lines_and_tokens_are_printed(runs):
    printed = r"\n#lines i, \.texts span \{.* print-color-adjust: exact; \}\n"
    assert re.search(printed, report_page(runs[:1]))


def test_a_run_of_too_few_records_is_not_called_healthy(tmp_path):
    folder = write_run(tmp_path / "short", num_warmup_steps=1900)
    run = read_training_run(folder)  # one record after the warm-up
    page = report_page([run])
    assert "No problems found" not in page
    assert "Too few records for most diagnoses, which need 3 after the warm-up" in page
    # It says nothing of another run.
    judged = read_training_run(write_run(tmp_path / "long"))
    page = report_page([run, judged])
    assert "No problems found" in page
    assert "short: Too few records for most" in page
    assert "long: Too few" not in page


def test_sentences_of_a_discriminator_of_masked_tokens_say_so():
    sentences = [{"step": 1, "sentences": [[["a", "a", 0.9]]]}]
    for objective in ("electra", "electra_15"):
        run = made_run("a", settings={"objective": objective}, sentences=sentences)
        page = report_page([run])
        assert "the token was replaced." in page
        assert ("electra_15 trains it on masked tokens alone" in page) == (
            objective == "electra_15"
        )


def test_settings_that_all_differ_leave_none_that_are_equal():
    runs = [made_run(name, settings={"seed": seed}) for name, seed in (("a", 1), ("b", 2))]
    ((title, header, rows),), equal = (
        [(t.title, t.header, t.rows) for t in tables] for tables in settings_tables(runs)
    )
    assert (title, header, rows) == (
        "Settings that differ",
        ["", "a", "b"],
        [["seed", "1", "2"]],
    )
    assert equal == []


def test_values_by_layer_that_are_never_positive_are_no_figure():
    records = [{"step": step, "gradient_norm/electra": 0.0} for step in (1, 2)]
    assert layer_figures(lines_of([made_run("a", *records)])) == []
    records[0]["gradient_norm/electra"] = 0.5
    assert len(layer_figures(lines_of([made_run("a", *records)]))) == 1
