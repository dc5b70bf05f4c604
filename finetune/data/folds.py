"""Which examples train and which are held out: folds of cross-validation, or one share."""

import collections
from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.model_selection import KFold, StratifiedKFold

from electra_tf.util.errors import UserError


def fold_indices(
    labels: Sequence[str | None], num_folds: int, seed: int
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Splits examples into folds of about equal size, each the held-out one once.

    Args:
        labels: of the examples; each fold gets about the same share of each. If any is
            None, the folds are drawn without regard to labels.
        num_folds: at least 2.
        seed: of the shuffling.

    Returns:
        For each fold, the indices that train and those held out, int64, ascending.

    Raises:
        UserError: if there are fewer examples, or fewer of one label, than folds.
    """
    if len(labels) < num_folds:
        raise UserError(
            f"--num_folds={num_folds} needs at least as many examples, and the train split "
            f"has {len(labels)}"
        )
    if None in labels:
        splitter = KFold(num_folds, shuffle=True, random_state=seed)
        return list(splitter.split(np.zeros(len(labels))))
    counts = collections.Counter(labels)
    rare = [f"{label!r} ({count})" for label, count in counts.items() if count < num_folds]
    if rare:
        raise UserError(
            f"--num_folds={num_folds} is more than the train split has examples of "
            f"{', '.join(sorted(rare))}; lower it, or merge or drop these labels"
        )
    splitter = StratifiedKFold(num_folds, shuffle=True, random_state=seed)
    return list(splitter.split(np.zeros(len(labels)), np.array(labels, dtype=object)))


def hold_out(
    labels: Sequence[str | None], fraction: float, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Holds out a share of the examples, and about the same share of each label.

    At least one example is held out, and of each label one is kept. None counts as a label.

    Args:
        labels: of the examples.
        fraction: share to hold out, in (0, 1).
        seed: of the choice.

    Returns:
        The indices that train and those held out, int64, ascending.

    Raises:
        UserError: if no label has two examples.
    """
    members = collections.defaultdict(list)
    for index, label in enumerate(labels):
        members[label].append(index)
    spare = sum(len(indices) - 1 for indices in members.values())
    if not spare:
        raise UserError("there are too few examples to hold out any of them as dev")
    total = min(max(1, round(fraction * len(labels))), spare)
    shares = {label: fraction * len(indices) for label, indices in members.items()}
    taken = {label: min(int(share), len(members[label]) - 1) for label, share in shares.items()}
    # What is left goes to the labels that are furthest below their share.
    while sum(taken.values()) < total:
        open_labels = [label for label in taken if taken[label] < len(members[label]) - 1]
        taken[max(open_labels, key=lambda label: shares[label] - taken[label])] += 1
    generator = np.random.default_rng(seed)
    is_held_out = np.zeros(len(labels), bool)
    for label, indices in members.items():
        is_held_out[generator.permutation(indices)[: taken[label]]] = True
    return np.flatnonzero(~is_held_out), np.flatnonzero(is_held_out)


def stratification_labels(examples: Sequence[Any]) -> list[str | None]:
    """Returns the label of each example, or None where it is not a single name.

    Only classification examples have one: numbers, label sets, tag sequences and answers
    do not.
    """
    labels = (getattr(example, "label", None) for example in examples)
    return [label if isinstance(label, str) else None for label in labels]
