"""Submission files of GLUE's evaluation server."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

# Range of similarities in STS-B.
STS_RANGE = (0.0, 5.0)
_FILES = {
    ("cola", "test"): "CoLA.tsv",
    ("sst", "test"): "SST-2.tsv",
    ("mrpc", "test"): "MRPC.tsv",
    ("sts", "test"): "STS-B.tsv",
    ("qqp", "test"): "QQP.tsv",
    ("mnli", "test_matched"): "MNLI-m.tsv",
    ("mnli", "test_mismatched"): "MNLI-mm.tsv",
    ("mnli", "diagnostic"): "AX.tsv",
    ("qnli", "test"): "QNLI.tsv",
    ("rte", "test"): "RTE.tsv",
    ("wnli", "test"): "WNLI.tsv",
}


class Submission(NamedTuple):
    """One file of a submission: `file_name`, and its content `text`."""

    file_name: str
    text: str


def glue_submission(
    task_name: str, split: str, predictions: Sequence[Mapping[str, Any]]
) -> Submission | None:
    """Returns the file of a test split, or None if the server does not take it.

    Args:
        task_name, split: such as "mnli", "test_matched".
        predictions: result of the task's `predictions`. The server's index of a line is its
            "eid", which also counts skipped lines.
    """
    file_name = _FILES.get((task_name, split))
    if file_name is None:
        return None
    lines = ["index\tprediction"]
    for prediction in predictions:
        value = prediction["prediction"]
        if isinstance(value, float):
            # The server only accepts scores within the range of the labels.
            value = f"{min(max(value, STS_RANGE[0]), STS_RANGE[1]):.3f}"
        lines.append(f"{prediction['eid']}\t{value}")
    return Submission(file_name, "\n".join(lines) + "\n")
