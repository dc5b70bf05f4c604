"""The labels of a user's own task, and what is wrong with others."""

from collections.abc import Iterable, Sequence

from electra_tf.util.errors import UserError
from finetune.custom.spec import TaskSpec


class Labels:
    """The labels of a task: those of its specification, or those of its train file.

    Args:
        spec: of the task.
        names: the labels, in the order of their ids.
        train_path: where they were found, in any order; None if they were given.
    """

    def __init__(
        self, spec: TaskSpec, names: Iterable[str], train_path: str | None = None
    ) -> None:
        self._spec = spec
        self._train_path = train_path
        self.names = tuple(names)
        if train_path is not None:
            self.names = tuple(sorted(set(self.names), key=_numbers_first))
        self._known = frozenset(self.names)

    def check(self, label: str, where: str) -> str:
        """Returns the label.

        Args:
            label: as it stands in a file.
            where: file and line.

        Raises:
            UserError: if it is unknown.
        """
        if label in self._known:
            return label
        listed = ", ".join(self.names[:20]) + (", ..." if len(self.names) > 20 else "")
        spec = self._spec
        if self._train_path is None:
            raise UserError(
                f"{where}: unknown label {label!r}; task {spec.name!r} has the labels {listed} "
                f'("labels" in {spec.source})'
            )
        raise UserError(
            f"{where}: label {label!r} is nowhere in {self._train_path}, which has {listed}; "
            f'mend the line, or list all labels as "labels" in {spec.source}'
        )


def refuse_single_label(
    labels: Sequence[str], train_path: str, of: str = "examples", role: str = "label"
) -> None:
    """Raises UserError if all examples (or words) of a train file have the same label."""
    if len(set(labels)) == 1:
        raise UserError(
            f"{train_path}: all {len(labels)} {of} have the {role} {labels[0]!r}, so there is "
            'nothing to learn; is the right column named in "columns"?'
        )


def _numbers_first(label: str) -> tuple[bool, int, str]:
    """Sorts whole numbers by value, before all others."""
    is_number = label.isascii() and label.isdigit()
    return (not is_number, int(label) if is_number else 0, label)
