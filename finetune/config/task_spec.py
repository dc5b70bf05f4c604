"""What a user says of a task of their own, instead of code; see `spec_parser.py`."""

import dataclasses
import os
from collections.abc import Mapping

from electra_tf.util.errors import UserError
from finetune.config.task_kinds import SPAN, TaskKind

DEV_FRACTION = 0.1

_EXTENSIONS = {
    ".tsv": "tsv",
    ".csv": "csv",
    ".jsonl": "jsonl",
    ".conll": "conll",
    ".iob": "conll",
    ".iob2": "conll",
    ".json": "squad",
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class TaskSpec:
    """One task of a user's own.

    Attributes:
        name: under which `--task_names`, results and variables know it.
        kind: decides what the files hold and what is learned from them.
        files: path of each split; "train" must be there. "dev" selects checkpoints,
            "test" and "test_..." are predicted without a look at their labels, and any
            other split ("heldout") is evaluated after dev.
        format: of all files; that of each file's extension (before `.gz`) if None.
        header: whether the first line of a tsv or csv file names its columns.
        columns: name, or index from 0 or from -1 backwards, of the columns that the task
            reads, by their role.
        labels: in the order of their ids; those of the train split, sorted, if None.
        label_separator: between the labels of one cell of a multilabel task.
        min_label: the regression label that the head learns as 0; the smallest if None.
        max_label: the regression label that the head learns as 1; the largest if None.
        metric: main metric, one of `kind.main_metrics(level)`.
        dev_fraction: share of train that is held out as dev if no dev file is named.
        dev_seed: which share; `--seed` has no say in it, so that a model is never
            evaluated on what another run trained it on.
        level: what a tagging metric counts, "span" (entities) or "token".
        unanswerable: whether questions may have no answer; None looks into train.
        spec_file: what the specification was read from; None for inline JSON and flags.
        source: how errors call the specification.
    """

    name: str
    kind: TaskKind
    files: Mapping[str, str]
    format: str | None = None
    header: bool = True
    columns: Mapping[str, str | int] = dataclasses.field(default_factory=dict)
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
        """Share of train that becomes dev: 0 if there is a dev file."""
        if "dev" in self.files:
            return 0.0
        return DEV_FRACTION if self.dev_fraction is None else self.dev_fraction

    def candidate_paths(self, split: str, raw_data_dir: str) -> tuple[str, ...]:
        """Returns where the file of a split may be, in the order they are tried.

        A relative path begins at the specification's folder (the working folder, if it is
        inline), or else at the task's folder in `raw_data_dir`.
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
            UserError: if none does, naming all places.
        """
        candidates = self.candidate_paths(split, raw_data_dir)
        for candidate in candidates:
            if os.path.isfile(candidate):
                return candidate
        raise UserError(
            f"{self.source}: the {split} file of task {self.name!r} is missing: there is no "
            f"{' and no '.join(candidates)}"
        )

    def format_of(self, path: str) -> str:
        """Returns the format of a file: the given one, else that of its extension.

        Raises:
            UserError: for an extension that says nothing, or one of another kind of task.
        """
        found = self.format
        if found is None:
            stem = path.lower().removesuffix(".gz")
            found = _EXTENSIONS.get(os.path.splitext(stem)[1])
        if not self.columns:
            found = self.kind.formats_without_columns.get(found, found)
        if found not in self.kind.file_formats:
            raise UserError(
                f"{path}: the extension does not tell the format of a {self.kind.name} file; "
                f'set "format" of task {self.name!r} ({self.source}) to one of '
                f"{', '.join(self.kind.file_formats)}"
            )
        return found

    def column(self, role: str) -> str | int:
        """Returns the column of a role; the one of that name where none is given."""
        if role in self.columns:
            return self.columns[role]
        synonyms = {role: word for word, role in self.kind.column_synonyms.items()}
        return synonyms.get(role, role)
