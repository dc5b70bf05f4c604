"""Features of examples, and reports of dropped data."""

import collections
import dataclasses
import json
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from electra_tf.text.framing import INPUT_IDS, INPUT_MASK, SEGMENT_IDS
from electra_tf.util.files import write_atomically

# One row of features: a number, or an unpadded vector with one entry per token.
Row = dict[str, int | float | np.ndarray]

TASK_ID = "task_id"


class SequenceNames(NamedTuple):
    """Names of the encoder's inputs for one sequence of a row."""

    input_ids: str
    input_mask: str
    segment_ids: str


def sequence_names(index: int) -> SequenceNames:
    """Returns the names of a row's sequence: `input_ids`, ... for 0, `input_ids/1`, ... for 1.

    Rows of most tasks have a single sequence. A multiple-choice example has one per choice; the
    features of its other sequences are shared by all such tasks of a run.
    """
    names = SequenceNames(INPUT_IDS, INPUT_MASK, SEGMENT_IDS)
    # Task names contain no slash.
    return SequenceNames(*(f"{name}/{index}" for name in names)) if index else names


class FeatureSpec(NamedTuple):
    """A feature of a task.

    Attributes:
        name: the authors' name, such as `cola_label_ids`; see `sequence_names`.
        dtype: "int32" or "float32".
        per_token: whether it is a vector with one entry per token, padded with zeros like
            `input_ids`; otherwise it is a number.
        size: length of a fixed-size vector (a multilabel target), or None.
    """

    name: str
    dtype: str = "int32"
    per_token: bool = False
    size: int | None = None


# Features of every task. An `input_mask` is derived from the length of its `input_ids`.
SHARED_SPECS = (
    FeatureSpec(INPUT_IDS, per_token=True),
    FeatureSpec(SEGMENT_IDS, per_token=True),
    FeatureSpec(TASK_ID),
)


def sequence_specs(num_sequences: int) -> tuple[FeatureSpec, ...]:
    """Returns the features of the sequences after the first (that has `SHARED_SPECS`)."""
    names = [sequence_names(index) for index in range(1, num_sequences)]
    return tuple(
        FeatureSpec(name, per_token=True)
        for sequence in names
        for name in (sequence.input_ids, sequence.segment_ids)
    )


def row_length(row: Mapping[str, object]) -> int:
    """Returns the number of tokens of a row's longest sequence."""
    return max(len(row[name]) for name in row if is_input_ids(name))


def is_input_ids(name: str) -> bool:
    """Whether a feature holds the token ids of one of a row's sequences."""
    return name == INPUT_IDS or name.startswith(f"{INPUT_IDS}/")


def is_segment_ids(name: str) -> bool:
    """Whether a feature holds the segment ids of one of a row's sequences."""
    return name == SEGMENT_IDS or name.startswith(f"{SEGMENT_IDS}/")


@dataclasses.dataclass
class DataReport:
    """Problems in the data of one task and split, by kind, with their locations.

    Nothing is dropped silently: whatever a reader or featurizer drops or truncates is added
    here, counted in the output and listed in a JSON file.
    """

    task_name: str
    split: str
    problems: dict[str, list[dict]] = dataclasses.field(
        default_factory=lambda: collections.defaultdict(list)
    )

    def add(self, problem: str, **where: object) -> None:
        """Adds one case, such as `add("answer not in the context", id=qas_id)`."""
        self.problems[problem].append(where)

    def counts(self) -> list[str]:
        """Returns each kind of problem and the number of its cases."""
        return [f"{len(cases):,} x {problem}" for problem, cases in self.problems.items()]

    def lines(self) -> list[str]:
        """Returns one line per kind of problem."""
        return [f"{self.task_name} {self.split}: {count}" for count in self.counts()]

    def write(self, path: str) -> None:
        """Writes all cases as JSON: {problem: [{where}, ...]}."""
        write_atomically(path, json.dumps(self.problems, indent=1, ensure_ascii=False) + "\n")
