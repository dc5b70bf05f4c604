"""Held-out sentences of a run as the page shows them, one evaluation at a time."""

from collections.abc import Mapping, Sequence
from typing import Any

# Maximum number of evaluations on the page.
_MAX_EVALUATIONS = 40


def shown_sentences(records: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Returns `step` and `sentences` of evaluations spread evenly, with the first and last."""
    count = len(records)
    if count > _MAX_EVALUATIONS:
        last = _MAX_EVALUATIONS - 1
        records = [records[round(i * (count - 1) / last)] for i in range(_MAX_EVALUATIONS)]
    return [{"step": r["step"], "sentences": r["sentences"]} for r in records]


def sentences_html(number: int, count: int) -> str:
    """Returns the element that the script of the page fills.

    Args:
        number: of the run among those with sentences.
        count: number of evaluations.
    """
    return (
        f'<div class="card sentences" data-run="{number}">'
        f'<label>Evaluation <input type="range" min="0" max="{count - 1}" '
        f'value="{count - 1}"> at step <output></output></label><div class="texts"></div>'
        "</div>"
    )
