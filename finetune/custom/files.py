"""The files of a user's own task by split, and their records."""

from collections.abc import Sequence

from electra_tf.util.errors import UserError
from finetune.config import FinetuningConfig
from finetune.custom.spec import TaskSpec
from finetune.folds import hold_out
from finetune.record_readers import Record, read_records
from finetune.task import PREDICT

TRAIN, DEV, TEST = "train", "dev", "test"
CONLL = "conll"
_CONLL_COLUMNS = {"words": 0, "tags": -1}
HELD_OUT = "no dev file: examples of train are held out as dev"


class TaskFiles:
    """Finds and reads the files of a task.

    Args:
        spec: of the task.
        config: hyperparameters.

    Attributes:
        dev_splits: splits to evaluate on: dev first, then all that are of no other use.
        test_splits: "test" and those whose names begin with "test_".
        held_out_fraction: share of train that is dev; cross-validation holds out none.
    """

    def __init__(self, spec: TaskSpec, config: FinetuningConfig) -> None:
        self.spec = spec
        self._raw_data_dir = config.raw_data_dir
        self._predict_file = config.predict_file
        self.held_out_fraction = 0.0 if config.num_folds else spec.held_out_fraction
        self.test_splits = tuple(s for s in spec.files if _is_test(s))
        others = (s for s in spec.files if s not in (TRAIN, DEV) and not _is_test(s))
        has_dev = DEV in spec.files or spec.held_out_fraction > 0
        self.dev_splits = (*((DEV,) if has_dev else ()), *others)

    def source_split(self, split: str) -> str:
        """Returns the split whose file holds `split`: train for a dev that is held out."""
        return TRAIN if split == DEV and self.held_out_fraction else split

    def is_labeled(self, split: str) -> bool:
        """Whether labels are read; those of what is only to be predicted are not."""
        return split != PREDICT and split not in self.test_splits

    def path(self, split: str) -> str:
        """Returns the path of a split's file.

        Raises:
            UserError: if it does not exist, or the task has no such split.
        """
        source = self.source_split(split)
        if source == PREDICT and self._predict_file:
            return self._predict_file
        if source not in self.spec.files:
            raise UserError(
                f"{self.spec.source}: task {self.spec.name!r} has no split {split!r}, only "
                f"{', '.join(self.spec.files)}"
            )
        return self.spec.path(source, self._raw_data_dir)

    def fingerprint_files(self, split: str) -> list[str]:
        """Returns the files that the examples of a split follow from: labels are train's."""
        paths = [] if self.spec.spec_file is None else [self.spec.spec_file]
        for source in dict.fromkeys((self.source_split(split), TRAIN)):
            try:
                paths.append(self.path(source))
            except UserError:
                continue  # one that is missing is told of where it is read
        return paths

    def records(
        self, path: str, roles: Sequence[str], optional: Sequence[str] = ()
    ) -> list[Record]:
        """Reads the given columns of a file, and the optional ones that "columns" names.

        Raises:
            UserError: as `read_records`.
        """
        spec = self.spec
        file_format = spec.format_of(path)
        named = [role for role in optional if role in spec.columns]
        columns = {role: spec.column(role) for role in dict.fromkeys((*roles, *named))}
        if file_format == CONLL and not spec.columns:
            columns = {role: _CONLL_COLUMNS[role] for role in roles}
        elif file_format == CONLL and "id" in columns:
            raise UserError(f'{spec.source}: sentences of a conll file have no "id" column')
        return read_records(
            path,
            file_format=file_format,
            columns=columns,
            optional=optional,
            header=spec.header,
        )

    def divide(self, groups: Sequence[str | None], split: str) -> list[int]:
        """Returns which examples of the train file are in `split`, "train" or "dev".

        Args:
            groups: label of each example, to be in both with the same share; or None.
            split: which part.

        Raises:
            UserError: if there are too few examples.
        """
        if not self.held_out_fraction:
            return list(range(len(groups)))
        try:
            train, dev = hold_out(groups, self.held_out_fraction, self.spec.dev_seed)
        except UserError as error:
            raise UserError(f"{self.path(TRAIN)}: {error}") from error
        return (dev if split == DEV else train).tolist()


def _is_test(split: str) -> bool:
    return split == TEST or split.startswith(f"{TEST}_")
