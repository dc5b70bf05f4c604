"""Predictions as GLUE's evaluation server takes them."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

# Similarity of two sentences in STS-B.
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
    """One file for the server: `file_name`, and its whole content `text`."""

    file_name: str
    text: str


def glue_submission(
    task_name: str, split: str, predictions: Sequence[Mapping[str, Any]]
) -> Submission | None:
    """Returns the file of a test split, or None for what the server does not take.

    Args:
        task_name, split: such as "mnli", "test_matched".
        predictions: what the task's `predictions` returned, one for each line of the
            test file, in its order: the server's index counts them from 0.
    """
    file_name = _FILES.get((task_name, split))
    if file_name is None:
        return None
    lines = ["index\tprediction"]
    for index, prediction in enumerate(predictions):
        value = prediction["prediction"]
        if isinstance(value, float):
            # The server takes scores of the labels' range alone.
            value = f"{min(max(value, STS_RANGE[0]), STS_RANGE[1]):.3f}"
        lines.append(f"{index}\t{value}")
    return Submission(file_name, "\n".join(lines) + "\n")
