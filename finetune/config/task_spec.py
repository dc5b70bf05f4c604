"""Descriptions of custom tasks; see `finetune.config.task_spec_parser`."""

import dataclasses
import os
from collections.abc import Mapping

from electra_tf.util.errors import UserError
from finetune.config.task_kinds import SPAN, TaskKind

DEV_FRACTION = 0.1
# A name or an index; a tuple of them if the items of a list are in several columns.
Column = str | int | tuple[str | int, ...]

_EXTENSIONS = {
    ".tsv": "tsv",
    ".csv": "csv",
    ".jsonl": "jsonl",
    ".parquet": "parquet",
    ".conll": "conll",
    ".iob": "conll",
    ".iob2": "conll",
    ".json": "squad",
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class TaskSpec:
    """A custom task.

    Attributes:
        name: name of the task in `--task_names`, results and variables.
        kind: kind of the task.
        files: path of each split; "train" is required. "dev" selects checkpoints, "test" and
            "test_..." are predicted without reading labels, and any other split ("heldout")
            is evaluated after dev.
        format: format of all files; None chooses it by extension (before `.gz`).
        header: whether the first line of a tsv or csv file has the column names; None is true.
        columns: column of each role, by name or by index (negative from the end); a tuple of
            several columns for a role of `kind.list_columns`.
        group_column: column of train, by name or index, that groups examples: folds and a
            held-out dev never split a group. None groups the questions about a paragraph,
            and no other examples.
        labels: labels in the order of their ids; None takes the sorted labels of train. For
            multiple choice, names of the choices in order.
        label_separator: separator of the labels of a cell, for multilabel tasks.
        min_label, max_label: regression labels that the head learns as 0 and 1; None takes the
            minimum and maximum of train.
        metric: main metric, one of `kind.main_metrics(level)`.
        dev_fraction: fraction of train to hold out if there is no dev file.
        dev_seed: random seed of the held-out examples; independent of `--seed`, so a model
            is never evaluated on examples that another run trained it on.
        level: unit of tagging metrics, "span" (entities) or "token".
        unanswerable: whether questions may have no answer; None detects it in train.
        spec_file: file of the description; None for inline JSON and flags.
        source: name of the description in errors.
    """

    name: str
    kind: TaskKind
    files: Mapping[str, str]
    format: str | None = None
    header: bool | None = None
    columns: Mapping[str, Column] = dataclasses.field(default_factory=dict)
    group_column: str | int | None = None
    labels: tuple[str, ...] | None = None
    label_separator: str = ","
    min_label: float | None = None
    max_label: float | None = None
    metric: str = ""
    dev_fraction: float | None = None
    dev_seed: int = 0
    level: str = SPAN
    unanswerable: bool | None = None
    spec_file: str | None = None
    source: str = "--task_spec"

    @property
    def held_out_fraction(self) -> float:
        """Fraction of train to hold out as dev; 0 if there is a dev file."""
        if "dev" in self.files:
            return 0.0
        return DEV_FRACTION if self.dev_fraction is None else self.dev_fraction

    def candidate_paths(self, split: str, raw_data_dir: str) -> tuple[str, ...]:
        """Returns the possible paths of a split's file, in order of precedence.

        A relative path is relative to the folder of the description (the working directory
        if inline), or to the task's folder in `raw_data_dir`.
        """
        given = os.path.expanduser(self.files[split])
        if os.path.isabs(given):
            return (given,)
        beside_spec = os.path.normpath(
            os.path.join(os.path.dirname(self.spec_file or ""), given)
        )
        return (beside_spec, os.path.join(raw_data_dir, self.name, given))

    def path(self, split: str, raw_data_dir: str) -> str:
        """Returns the path of a split's file: the first candidate that exists.

        Raises:
            UserError: none exists; the message lists all.
        """
        candidates = self.candidate_paths(split, raw_data_dir)
        for candidate in candidates:
            if os.path.isfile(candidate):
                return candidate
        raise UserError(
            f"{self.source}: the {split} file of task {self.name!r} is missing: tried "
            f"{' and '.join(candidates)}"
        )

    def format_of(self, path: str) -> str:
        """Returns the format of a file, as given or by extension.

        Raises:
            UserError: the extension is unknown, or unsupported by the kind.
        """
        found = self.format
        if found is None:
            stem = path.lower().removesuffix(".gz")
            found = _EXTENSIONS.get(os.path.splitext(stem)[1])
        if not self.columns:
            found = self.kind.formats_without_columns.get(found, found)
        if found not in self.kind.file_formats:
            raise UserError(
                f"{path}: the extension is not one of a {self.kind.name} file; "
                f'set "format" of task {self.name!r} ({self.source}) to one of '
                f"{', '.join(self.kind.file_formats)}"
            )
        return found

    def column(self, role: str) -> Column:
        """Returns the column of a role; by default the column of that name."""
        if role in self.columns:
            return self.columns[role]
        synonyms = {role: word for word, role in self.kind.column_synonyms.items()}
        return synonyms.get(role, role)
