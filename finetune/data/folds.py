"""Training and held-out examples: folds of cross-validation, or a single split."""

import collections
from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.model_selection import KFold, StratifiedKFold

from electra_tf.util.errors import UserError


def fold_indices(
    labels: Sequence[str | None], num_folds: int, seed: int
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Splits examples into folds of about equal size, stratified by label.

    Args:
        labels: labels of the examples; if any is None, the folds are not stratified.
        num_folds: at least 2.
        seed: random seed of the shuffling.

    Returns:
        For each fold, the indices of training and held-out examples, int64, ascending.

    Raises:
        UserError: there are fewer examples, or fewer of one label, than folds.
    """
    if len(labels) < num_folds:
        raise UserError(
            f"--num_folds={num_folds} needs at least as many examples, but the train split "
            f"has {len(labels)}"
        )
    if None in labels:
        splitter = KFold(num_folds, shuffle=True, random_state=seed)
        return list(splitter.split(np.zeros(len(labels))))
    counts = collections.Counter(labels)
    rare = [f"{label!r} ({count})" for label, count in counts.items() if count < num_folds]
    if rare:
        raise UserError(
            f"--num_folds={num_folds} exceeds the number of train examples of "
            f"{', '.join(sorted(rare))}; reduce it, or merge or drop these labels"
        )
    splitter = StratifiedKFold(num_folds, shuffle=True, random_state=seed)
    return list(splitter.split(np.zeros(len(labels)), np.array(labels, dtype=object)))


def hold_out(
    labels: Sequence[str | None], fraction: float, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Holds out a fraction of the examples, stratified by label.

    At least one example is held out, and one of each label is kept. None counts as a label.

    Args:
        labels: labels of the examples.
        fraction: fraction to hold out, in (0, 1).
        seed: random seed.

    Returns:
        The indices of training and held-out examples, int64, ascending.

    Raises:
        UserError: no label has two examples.
    """
    members = collections.defaultdict(list)
    for index, label in enumerate(labels):
        members[label].append(index)
    spare = sum(len(indices) - 1 for indices in members.values())
    if not spare:
        raise UserError("there are too few examples to hold out a dev set")
    total = min(max(1, round(fraction * len(labels))), spare)
    shares = {label: fraction * len(indices) for label, indices in members.items()}
    taken = {label: min(int(share), len(members[label]) - 1) for label, share in shares.items()}
    # The rest is assigned to the labels furthest below their quota.
    while sum(taken.values()) < total:
        open_labels = [label for label in taken if taken[label] < len(members[label]) - 1]
        taken[max(open_labels, key=lambda label: shares[label] - taken[label])] += 1
    generator = np.random.default_rng(seed)
    is_held_out = np.zeros(len(labels), bool)
    for label, indices in members.items():
        is_held_out[generator.permutation(indices)[: taken[label]]] = True
    return np.flatnonzero(~is_held_out), np.flatnonzero(is_held_out)


def stratification_labels(examples: Sequence[Any]) -> list[str | None]:
    """Returns the label of each example to stratify by, or None.

    Only classification examples have a single label; numbers, label sets, tag sequences and
    answers are not used.
    """
    labels = (getattr(example, "label", None) for example in examples)
    return [label if isinstance(label, str) else None for label in labels]
