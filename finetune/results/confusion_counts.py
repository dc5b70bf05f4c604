"""The confusion matrix of a trial on a split, as a JSON file."""

import os
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from electra_tf.util.errors import UserError
from electra_tf.util.files import read_json, to_json, write_atomically

CONFUSION_SUFFIX = "_confusion.json"


def write_confusion(
    path: str | os.PathLike, labels: Sequence[str], counts: Sequence[Sequence[int]]
) -> None:
    """Writes the counts [gold, predicted] of a confusion matrix."""
    rows = [[int(count) for count in row] for row in counts]
    write_atomically(path, to_json({"labels": list(map(str, labels)), "counts": rows}))


def read_confusion(path: pathlib.Path) -> Mapping[str, Any]:
    """Returns the "labels" and "counts" [gold, predicted] of a file.

    Raises:
        UserError: the file is not one that `write_confusion` wrote.
    """
    content = read_json(str(path))
    labels, counts = content.get("labels"), content.get("counts")
    is_square = isinstance(labels, list) and isinstance(counts, list) and counts
    is_square = is_square and all(
        isinstance(row, list) and len(row) == len(labels) == len(counts) for row in counts
    )
    if not is_square or not all(type(count) is int for row in counts for count in row):
        raise UserError(f"{path} is not a confusion matrix of run_finetuning.py")
    return content
