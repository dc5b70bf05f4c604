"""Features of examples: what a task hands to the batching, and the batching to the model."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

# One row of features: a number, or a vector with one entry a token (unpadded).
Row = dict[str, int | float | np.ndarray]

INPUT_IDS = "input_ids"
INPUT_MASK = "input_mask"
SEGMENT_IDS = "segment_ids"
TASK_ID = "task_id"


class FeatureSpec(NamedTuple):
    """A feature of a task.

    Attributes:
        name: under the authors' names, such as `cola_label_ids`.
        dtype: "int32" or "float32".
        per_token: whether a row holds a vector, which is padded with zeros to the
            length of its batch, as `input_ids` is; else it holds a number.
        size: length of a vector that is never padded (a multilabel target), or None.
    """

    name: str
    dtype: str = "int32"
    per_token: bool = False
    size: int | None = None


# Every task has these. `input_mask` follows from the length of `input_ids`.
SHARED_SPECS = (
    FeatureSpec(INPUT_IDS, per_token=True),
    FeatureSpec(SEGMENT_IDS, per_token=True),
    FeatureSpec(TASK_ID),
)


def row_length(row: Mapping[str, object]) -> int:
    """Returns the number of tokens of a row."""
    return len(row[INPUT_IDS])
