"""The statistics of records as a self-contained HTML page, without scripts or network."""

import pathlib
import types
from collections.abc import Mapping, Sequence
from typing import Any

from electra_tf.util.console import percent
from electra_tf.util.extras import import_extra
from pretrain_data.inspect.charts import length_chart
from pretrain_data.inspect.console_report import spread, table_rows

_TEMPLATES = pathlib.Path(__file__).with_name("templates")


def import_template_engine() -> types.ModuleType:
    """Returns Jinja2; raises UserError if it is not installed."""
    return import_extra("jinja2", "demo", "--html")


def render_page(
    report: Mapping[str, Any], examples: Sequence[Sequence[Mapping[str, Any]]], title: str
) -> str:
    """Returns the page.

    Args:
        report: report of `inspection.inspect_files`.
        examples: the tokens of masked examples: `token`, `state`, `segment` and `joins`
            of each (see `electra_tf.inference.masked_examples.ExampleToken`).
        title: heading of the page.
    """
    jinja2 = import_template_engine()
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    total = report["total"]
    charts = [
        (heading, spread(total[key]), length_chart(total[key], key))
        for heading, key in (
            ("Tokens per record, with [CLS] and [SEP]", "lengths"),
            ("First segment", "first_segment"),
            ("Second segment", "second_segment"),
        )
    ]
    rows = table_rows(report, report["files"], num_frequent=5)
    return environment.get_template("page.html").render(
        title=title,
        report=report,
        total=total,
        percent=percent,
        charts=charts,
        rows=rows,
        examples=examples,
    )
