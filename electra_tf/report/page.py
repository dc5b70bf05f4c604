"""The page of a report: one self-contained HTML file."""

import html
import importlib.resources
import json
import math
import os
import re
import string
from collections.abc import Mapping, Sequence
from typing import Any

from electra_tf.config.choices import ELECTRA_15
from electra_tf.report import figures
from electra_tf.report.layers import layer_figures
from electra_tf.report.runs import ReportRun, Table
from electra_tf.report.sentences import sentences_html, shown_sentences
from electra_tf.report.tables import class_scores_table, comparison_table, settings_tables
from electra_tf.training.monitoring.diagnoses import RECORDS
from electra_tf.util.files import write_atomically

_SENTENCES = (
    "Underlined: replaced by the generator (point at a token for the original). Red: the "
    "discriminator's probability that the token was replaced."
)
_MASKED_ALONE = (
    f" {ELECTRA_15} trains it on masked tokens alone, most of which are replaced, so it takes "
    "too many of the others for replaced."
)


def write_report(
    path: str | os.PathLike,
    runs: Sequence[ReportRun],
    references: Sequence[ReportRun] = (),
) -> None:
    """Writes the report of some runs, beside reference curves.

    Raises:
        UserError: Plotly is not installed; nothing is written.
    """
    write_atomically(path, report_page(runs, references))


def report_page(runs: Sequence[ReportRun], references: Sequence[ReportRun] = ()) -> str:
    """Returns the HTML page of some runs, which compares them, also with references."""
    drawn: list[dict[str, Any]] = []
    lines = figures.lines_of(runs, references)
    metrics = figures.logged_metrics(lines)
    notes = [
        f'<p class="faint">{html.escape(n)}</p>' for each in references for n in each.notes
    ]
    table = _table(comparison_table([*runs, *references]))
    parts = [_health(runs), _section("Runs", table, *notes)]
    parts += [_section(f"{_prefix(runs, run)}Scores", *map(_table, run.tables)) for run in runs]
    for run in runs:
        cards = []
        for confusion in run.confusions:
            count = len(confusion.labels)
            if count <= figures.MAX_LABELS:
                cards.append(_card(confusion.title, figures.confusion_matrix(confusion), drawn))
            else:
                note = (
                    f"{confusion.title}: {count:,} labels are too many for a matrix; the "
                    "counts are in the file …_confusion.json beside the results"
                )
                cards.append(f'<p class="faint">{html.escape(note)}</p>')
            cards.append(f'<div class="card">{_table(class_scores_table(confusion))}</div>')
        parts.append(_section(f"{_prefix(runs, run)}Confusion", _grid(cards)))
        tables = [_table(table, "errors") for table in run.errors]
        parts.append(_section(f"{_prefix(runs, run)}Worst errors", *tables))
    shown = []
    for run in runs:
        if run.sentences:
            shown.append(shown_sentences(run.sentences))
            learned = _MASKED_ALONE if run.settings.get("objective") == ELECTRA_15 else ""
            legend = f'<p class="faint">{_SENTENCES}{learned}</p>'
            card = sentences_html(len(shown) - 1, len(shown[-1]))
            title = f"{_prefix(runs, run)}Held-out sentences"
            parts.append(_section(title, legend, card))
    if metrics:
        parts.append(_controls(lines))
    for title, names in (
        ("Metrics", [name for name in metrics if name not in figures.SPEEDS]),
        ("Learning rate, gradient, throughput", [n for n in figures.SPEEDS if n in metrics]),
    ):
        cards = [_card(_words(name), figures.curves(name, lines), drawn) for name in names]
        parts.append(_section(title, _grid(cards)))
    cards = [
        _card(title, figure, drawn) for title, figure in layer_figures(figures.lines_of(runs))
    ]
    parts.append(_section("Layers", _grid(cards)))
    different, equal = settings_tables(runs)
    if len(runs) > 1 and different:
        parts.append(_section("Different settings", *(_settings(t) for t in different)))
    elif len(runs) > 1:
        parts.append(_section("Different settings", "<p>None.</p>"))
    folded = "".join(map(_settings, equal))
    parts.append(
        _section(
            "Settings and environment", f"<details><summary>Show</summary>{folded}</details>"
        )
    )
    template = importlib.resources.files(__package__).joinpath("page.html")
    return string.Template(template.read_text(encoding="utf-8")).substitute(
        title=html.escape(", ".join(run.name for run in runs)),
        subtitle=(
            "Drag across a curve to zoom, and double-click to reset. Dotted: held-out data."
        ),
        plotly=figures.plotly_javascript(),
        body="\n".join(part for part in parts if part),
        figures=_script_json(drawn),
        sentences=_script_json(shown),
    )


def _script_json(content: Any) -> str:
    """Returns JSON that can stand within a script element."""
    return json.dumps(content, allow_nan=False).replace("<", "\\u003c")


def _health(runs: Sequence[ReportRun]) -> str:
    lines = [
        f'<p class="health">{_with_flags(_prefix(runs, run) + line)}</p>'
        for run in runs
        for line in run.health
    ]
    judged = [run for run in runs if len(run.unjudged) < len(run.logs)]
    if not lines and any(any(run.logs.values()) for run in judged):
        lines = ['<p class="good">No problems found in the logged values.</p>']
    lines += [
        f'<p class="faint">{html.escape(_prefix(runs, run) + _unjudged(run))}</p>'
        for run in runs
        if run.unjudged and any(run.logs.values())
    ]
    lines += [
        f'<p class="health">{html.escape(_prefix(runs, run))}Nothing has been logged.</p>'
        for run in runs
        if run.logs and not any(run.logs.values())
    ]
    notes = [
        f'<p class="faint">{html.escape(_prefix(runs, run) + line)}</p>'
        for run in runs
        for line in run.notes
    ]
    return _section("Health", *lines, *notes)


def _unjudged(run: ReportRun) -> str:
    """Returns why most diagnoses do not judge some logs of a run."""
    names = f" of {', '.join(run.unjudged)}" if any(run.unjudged) else ""
    return (
        f"Too few records{names} for most diagnoses, which need {RECORDS} after the warm-up "
        "(--log_steps)."
    )


def _with_flags(text: str) -> str:
    """Returns a text as HTML in which the names of flags are not broken over lines."""
    return re.sub(r"--\w+", r"<code>\g<0></code>", html.escape(text))


def _controls(lines: Sequence[figures.Line]) -> str:
    boxes = "".join(
        f'<label><input type="checkbox" value="{number}" checked>'
        f'<i style="background:{line.color}"></i>{html.escape(line.name)}</label>'
        for number, line in enumerate(lines)
    )
    longest = max((len(line.records) for line in lines), default=0)
    weight = 0.6 if longest > 60 else 0
    return (
        '<div id="controls"><label>Smoothing <input id="smoothing" type="range" min="0" '
        f'max="0.98" step="0.02" value="{weight}"></label><div id="lines">{boxes}</div></div>'
    )


def _section(title: str, *content: str) -> str:
    inside = "".join(content)
    return f"<section><h2>{html.escape(title)}</h2>{inside}</section>" if inside else ""


def _grid(cards: Sequence[str]) -> str:
    return f'<div class="grid">{"".join(cards)}</div>' if cards else ""


def _card(title: str, figure: Mapping[str, Any], drawn: list[dict[str, Any]]) -> str:
    drawn.append({"data": _plain(figure["data"]), "layout": _plain(figure["layout"])})
    return (
        f'<div class="card"><h3>{html.escape(title)}</h3>'
        f'<div class="figure" data-figure="{len(drawn) - 1}"></div></div>'
    )


def _table(table: Table, kind: str = "") -> str:
    def row(cells: Sequence[str], tag: str) -> str:
        return (
            "<tr>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in cells) + "</tr>"
        )

    caption = f"<caption>{html.escape(table.title)}</caption>" if table.title else ""
    return (
        f'<div class="scroll"><table class="{kind}">{caption}<thead>{row(table.header, "th")}'
        f"</thead><tbody>{''.join(row(cells, 'td') for cells in table.rows)}</tbody></table>"
        "</div>"
    )


def _settings(table: Table) -> str:
    return _table(table, "settings")


def _prefix(runs: Sequence[ReportRun], run: ReportRun) -> str:
    return f"{run.name}: " if len(runs) > 1 else ""


def _words(name: str) -> str:
    return name.replace("_", " ")


def _plain(value: Any) -> Any:
    """Returns tuples as lists, and numbers that JSON does not have as None."""
    if isinstance(value, Mapping):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
