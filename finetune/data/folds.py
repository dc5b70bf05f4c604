"""Training and held-out examples: folds of cross-validation, or a single split."""

import collections
import dataclasses
import hashlib
import json
from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.model_selection import GroupKFold, KFold, StratifiedGroupKFold, StratifiedKFold

from electra_tf.util.console import warn_once
from electra_tf.util.errors import UserError

# Groups of examples, such as the questions about a paragraph; None for single examples.
Groups = Sequence[str] | None
# Number of groups among which the next one to hold out is chosen.
_CANDIDATES = 100


@dataclasses.dataclass(frozen=True)
class Fold:
    """The examples of one fold of cross-validation, as indices in the train split.

    Attributes:
        train: examples to train on.
        selection: examples that choose the weights (`keep_best`, early stopping); none if
            the last weights are used. They are neither trained on nor reported.
        held_out: examples whose scores are reported.
        by_group: whether no group is in two of these parts.
    """

    train: tuple[int, ...]
    selection: tuple[int, ...]
    held_out: tuple[int, ...]
    by_group: bool

    @property
    def digest(self) -> str:
        """Digest of the indices."""
        parts = [self.train, self.selection, self.held_out]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def make_folds(
    labels: Sequence[str | None],
    groups: Groups,
    *,
    num_folds: int,
    seed: int,
    selection_fraction: float,
) -> list[Fold]:
    """Returns the folds of cross-validation.

    Args:
        labels, groups: of each example; see `fold_indices`.
        num_folds: at least 2.
        seed: random seed of the shuffling.
        selection_fraction: fraction of each training part that chooses the weights; 0 for
            none.

    Raises:
        UserError: there are too few examples or groups.
    """
    folds = []
    indices = fold_indices(labels, num_folds, seed, groups)
    for number, (rest, held_out) in enumerate(indices, start=1):
        train, selection = rest, rest[:0]
        if selection_fraction:
            try:
                kept, chosen = hold_out(
                    [labels[i] for i in rest],
                    selection_fraction,
                    seed,
                    None if groups is None else [groups[i] for i in rest],
                    stratifies_groups=True,
                )
            except UserError as error:
                raise UserError(
                    f"--keep_best and --early_stopping_patience need examples of their own in "
                    f"every fold of --num_folds={num_folds}: {error}"
                ) from error
            train, selection = rest[kept], rest[chosen]
        fold = f"fold {number} of --num_folds={num_folds}, seed {seed},"
        warn_of_unseen_labels(fold, labels, train)
        parts = (tuple(part.tolist()) for part in (train, selection, held_out))
        folds.append(Fold(*parts, by_group=groups is not None))
    return folds


def fold_indices(
    labels: Sequence[str | None], num_folds: int, seed: int, groups: Groups = None
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Splits examples into folds of about equal size, stratified by label.

    Args:
        labels: labels of the examples; if any is None, the folds are not stratified.
        num_folds: at least 2.
        seed: random seed of the shuffling.
        groups: group of each example; the examples of a group are in the same fold.

    Returns:
        For each fold, the indices of training and held-out examples, int64, ascending.

    Raises:
        UserError: there are fewer examples or groups, or fewer of one label, than folds.
    """
    if len(labels) < num_folds:
        raise UserError(
            f"--num_folds={num_folds} needs at least as many examples, but the train split "
            f"has {len(labels)}"
        )
    if groups is not None and len(set(groups)) < num_folds:
        raise UserError(
            f"--num_folds={num_folds} needs at least as many groups of examples, but the "
            f"train split has {len(set(groups))}"
        )
    if None in labels and groups is not None:
        splitter = GroupKFold(num_folds, shuffle=True, random_state=seed)
        return list(splitter.split(np.zeros(len(labels)), groups=np.array(groups, object)))
    if None in labels:
        splitter = KFold(num_folds, shuffle=True, random_state=seed)
        return list(splitter.split(np.zeros(len(labels))))
    counts = collections.Counter(labels)
    rare = [f"{label!r} ({count})" for label, count in counts.items() if count < num_folds]
    if rare:
        raise UserError(
            f"--num_folds={num_folds} exceeds the number of train examples with the labels "
            f"{', '.join(sorted(rare))}; reduce it, or merge or drop these labels"
        )
    kind = StratifiedKFold if groups is None else StratifiedGroupKFold
    splitter = kind(num_folds, shuffle=True, random_state=seed)
    names = None if groups is None else np.array(groups, object)
    folds = splitter.split(np.zeros(len(labels)), np.array(labels, dtype=object), names)
    return list(folds)


def hold_out(
    labels: Sequence[str | None],
    fraction: float,
    seed: int,
    groups: Groups = None,
    *,
    stratifies_groups: bool = False,
) -> tuple[np.ndarray, np.ndarray]:
    """Holds out a fraction of the examples, stratified by label, or of the groups.

    At least one example is held out, and one of each label is kept. None counts as a label.

    Args:
        labels: labels of the examples.
        fraction: fraction to hold out, in (0, 1).
        seed: random seed.
        groups: group of each example. If given, whole groups are held out.
        stratifies_groups: hold out groups whose label distribution is close to that of all
            examples, if every example has a label and some groups can be spared. Otherwise,
            groups are drawn regardless of labels, as in earlier versions.

    Returns:
        The indices of training and held-out examples, int64, ascending.

    Raises:
        UserError: no label has two examples, or there is one group.
    """
    if groups is not None and stratifies_groups and None not in labels:
        is_held_out = _stratified_groups(labels, fraction, seed, groups)
        if is_held_out.any():
            return np.flatnonzero(~is_held_out), np.flatnonzero(is_held_out)
    if groups is not None:
        names = list(dict.fromkeys(groups))
        try:
            _, chosen = hold_out([None] * len(names), fraction, seed)
        except UserError as error:
            raise UserError(f"{error}: all are in the same group") from error
        held_out = {names[i] for i in chosen}
        is_held_out = np.array([group in held_out for group in groups])
        return np.flatnonzero(~is_held_out), np.flatnonzero(is_held_out)
    members = collections.defaultdict(list)
    for index, label in enumerate(labels):
        members[label].append(index)
    spare = sum(len(indices) - 1 for indices in members.values())
    if not spare:
        raise UserError("there are too few examples to hold out a dev set")
    total = min(max(1, round(fraction * len(labels))), spare)
    shares = {label: fraction * len(indices) for label, indices in members.items()}
    taken = {label: min(int(share), len(members[label]) - 1) for label, share in shares.items()}
    # The remaining examples go to the labels furthest below their quota.
    while sum(taken.values()) < total:
        open_labels = [label for label in taken if taken[label] < len(members[label]) - 1]
        taken[max(open_labels, key=lambda label: shares[label] - taken[label])] += 1
    generator = np.random.default_rng(seed)
    is_held_out = np.zeros(len(labels), bool)
    for label, indices in members.items():
        is_held_out[generator.permutation(indices)[: taken[label]]] = True
    return np.flatnonzero(~is_held_out), np.flatnonzero(is_held_out)


def _stratified_groups(
    labels: Sequence[str], fraction: float, seed: int, groups: Sequence[str]
) -> np.ndarray:
    """Returns which examples to hold out, bool [examples], as whole groups.

    Adds groups until the fraction of all examples is reached: among the next `_CANDIDATES` in
    random order, the one that brings the fraction of every label closest to `fraction`. Never
    holds out all examples of a label; returns False everywhere if every group has all of one.
    """
    _, label_ids = np.unique(np.array(labels, object), return_inverse=True)
    names, group_ids = np.unique(np.array(groups, object), return_inverse=True)
    counts = np.zeros((len(names), label_ids.max() + 1))  # (groups, labels)
    np.add.at(counts, (group_ids, label_ids), 1)
    totals, held_out = counts.sum(axis=0), np.zeros(counts.shape[1])
    wanted = fraction * len(labels)

    waiting, taken = np.random.default_rng(seed).permutation(len(names)), []
    while waiting.size and held_out.sum() < wanted:
        candidates = waiting[:_CANDIDATES]
        sums = held_out + counts[candidates]
        distances = np.square(sums / totals - fraction).sum(axis=1)
        distances[(sums >= totals).any(axis=1)] = np.inf  # for all rounds: sums only grow
        nearest = distances.argmin()
        if np.isfinite(distances[nearest]):
            # Stop if that would overshoot by at least as much as is missing now.
            if taken and sums[nearest].sum() - wanted >= wanted - held_out.sum():
                break
            taken.append(candidates[nearest])
            held_out = sums[nearest]
            distances[nearest] = np.inf
        waiting = np.concatenate(
            [candidates[np.isfinite(distances)], waiting[len(candidates) :]]
        )
    return np.isin(group_ids, taken)


def warn_of_unseen_labels(
    name: str, labels: Sequence[str | None], train: Sequence[int]
) -> None:
    """Warns of labels without training examples, because whole groups are held out.

    Args:
        name: subject of the message, such as a task and split.
        labels: label of each example; None has no label.
        train: indices of the training examples.
    """
    if missing := sorted(set(labels) - {labels[i] for i in train} - {None}):
        warn_once(
            f"{name} trains on no example of the labels {', '.join(map(repr, missing))}: all "
            "of them are in groups that are held out"
        )


def stratification_labels(examples: Sequence[Any]) -> list[str | None]:
    """Returns the label of each example to stratify by, or None.

    Only classification examples have a single label; numbers, label sets, tag sequences and
    answers are not used.
    """
    labels = (getattr(example, "label", None) for example in examples)
    return [label if isinstance(label, str) else None for label in labels]


def example_groups(examples: Sequence[Any]) -> list[str] | None:
    """Returns the group of each example; None if they are not grouped."""
    groups = [getattr(example, "group", None) for example in examples]
    return None if None in groups else groups
