"""The part of RELIABILITY.md about serving under load."""

from collections.abc import Mapping
from typing import Any

from electra_tf.util.console import markdown_table

_NAMES = {"page": "`serve_demo.py`", "saved_model": "SavedModels in process"}
_TEXT = """\
## Serving under load

{clients} clients at once send requests, drawn at random (`tests/faults/serving.py`): valid
ones; malformed ones, such as broken JSON, other paths, hosts and bytes; oversized texts,
headers and bodies; slow ones, which are whole in time or never; and connections that are closed
early. A valid answer must equal that of a single request on an idle server within 1e-5. Every
other answer must have an expected status and no traceback. Afterwards, no more files may be
open than before. *Busy* requests were answered with 503, since 32 connections are served at
once. Latencies are those of valid requests. Slopes are fitted to the last four fifths, with
95 % intervals.
"""


def promise(serving: Mapping[str, Any]) -> str:
    """Returns the row of the table of promises."""
    count = sum(sum(serving[part]["requests"].values()) for part in _NAMES if part in serving)
    return (
        "| Under load, every answer is that of a quiet request; other requests are refused. | "
        f"`tests/faults/serving.py` | {count:,} requests |"
    )


def section(serving: Mapping[str, Any]) -> str:
    """Returns the section with its tables."""
    parts = [part for part in _NAMES if part in serving]
    kinds = sorted({kind for part in parts for kind in serving[part]["requests"]})
    columns = ["", *kinds, "busy", "seconds", "p50, ms", "p99, ms", "memory, MB"]
    columns.append("MB in a million requests")
    rows = []
    for part in parts:
        each = serving[part]
        memory = each["memory_mb"]
        rows.append(
            [
                _NAMES[part],
                *(f"{each['requests'].get(kind, 0):,}" for kind in kinds),
                f"{each['busy']:,}",
                f"{each['seconds']:,.0f}",
                f"{each['p50_ms']:,.1f}",
                f"{each['p99_ms']:,.1f}",
                f"{memory['last']:,.0f}",
                f"{memory['per_million_requests']:,.0f} ± {memory['half_interval']:,.0f}",
            ]
        )
    text = _TEXT.format(clients=serving[parts[0]]["clients"])
    return f"{text}\n{markdown_table(columns, rows, text_columns=1)}"
