"""Features of examples: what a task hands to the batching, and the batching to the model."""

import collections
import dataclasses
import json
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from electra_tf.util.files import write_atomically

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


@dataclasses.dataclass
class DataReport:
    """Counts problems of one task and split by kind, and remembers where they were.

    Nothing is dropped silently: what a loader or featurizer leaves out or cuts is added
    here, printed as counts and listed in a JSON file.
    """

    task_name: str
    split: str
    problems: dict[str, list[dict]] = dataclasses.field(
        default_factory=lambda: collections.defaultdict(list)
    )

    def add(self, problem: str, **where: object) -> None:
        """Adds one case, such as `add("answer not in the context", id=qas_id)`."""
        self.problems[problem].append(where)

    def lines(self) -> list[str]:
        """Returns one line for each kind of problem."""
        return [
            f"{self.task_name} {self.split}: {len(cases):,} x {problem}"
            for problem, cases in self.problems.items()
        ]

    def write(self, path: str) -> None:
        """Writes all cases as JSON: {problem: [{where}, ...]}."""
        write_atomically(path, json.dumps(self.problems, indent=1, ensure_ascii=False) + "\n")
