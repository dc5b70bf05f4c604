"""Tests of cross-validation folds."""

import types

import numpy as np
import pytest

from electra_tf.util.errors import UserError
from finetune.data.folds import fold_indices, hold_out, make_folds, stratification_labels


@pytest.mark.parametrize("labels", [["a"] * 20 + ["b"] * 10, [None] * 30])
def test_each_example_is_held_out_once(labels):
    folds = fold_indices(labels, 5, seed=0)
    assert len(folds) == 5
    held_out = np.concatenate([dev for _, dev in folds])
    assert sorted(held_out) == list(range(30))
    assert list(held_out) != list(range(30))
    for train, dev in folds:
        assert sorted([*train, *dev]) == list(range(30))
        assert len(dev) == 6


def test_folds_have_the_shares_of_the_labels():
    labels = ["a"] * 20 + ["b"] * 10
    for _, dev in fold_indices(labels, 5, seed=3):
        assert sorted(labels[i] for i in dev) == ["a"] * 4 + ["b"] * 2


def test_the_seed_decides():
    def held_out(seed):
        return [dev.tolist() for _, dev in fold_indices(["a", "b"] * 10, 2, seed)]

    assert held_out(1) == held_out(1)
    assert held_out(1) != held_out(2)


def test_too_few_examples_are_refused():
    with pytest.raises(
        UserError, match=r"--num_folds=3 .* examples with the labels 'b' \(2\), 'c' \(1\)"
    ):
        fold_indices(["a"] * 9 + ["c", "b", "b"], 3, seed=0)
    with pytest.raises(UserError, match=r"--num_folds=3 needs .* the train split has 2"):
        fold_indices([None, None], 3, seed=0)


def test_only_single_names_stratify():
    def examples(*labels):
        return [types.SimpleNamespace(label=label) for label in labels]

    assert stratification_labels(examples("a", "b")) == ["a", "b"]
    assert stratification_labels(examples(2.5, ("a", "b"))) == [None, None]
    assert stratification_labels([types.SimpleNamespace(tags=["O"])]) == [None]


def test_a_share_is_held_out_of_each_label():
    labels = ["a"] * 60 + ["b"] * 30 + ["c"] * 9 + ["d"]
    train, dev = hold_out(labels, 0.1, seed=0)
    assert sorted([*train, *dev]) == list(range(100))
    assert [labels[i] for i in dev] == ["a"] * 6 + ["b"] * 3 + ["c"]
    assert dev.tolist() == hold_out(labels, 0.1, seed=0)[1].tolist()
    assert dev.tolist() != hold_out(labels, 0.1, seed=1)[1].tolist()
    assert dev[:6].tolist() != list(range(6))


def test_small_shares_of_many_labels_add_up():
    labels = [f"label {i % 20}" for i in range(80)]
    _, dev = hold_out(labels, 0.1, seed=0)
    assert len(dev) == len({labels[i] for i in dev}) == 8


def test_one_example_of_each_label_trains():
    train, dev = hold_out(["a", "a", "b", "c"], 0.9, seed=0)
    assert (len(train), len(dev)) == (3, 1)
    assert dev[0] < 2
    with pytest.raises(UserError, match="too few examples"):
        hold_out(["a", "b"], 0.5, seed=0)


def test_examples_without_label_are_held_out_too():
    train, dev = hold_out([None] * 10, 0.3, seed=0)
    assert (len(train), len(dev)) == (7, 3)


GROUPS = [f"group {i // 3}" for i in range(60)]


def groups_of(indices):
    return {GROUPS[i] for i in indices}


@pytest.mark.parametrize("labels", [["a", "b", "b"] * 20, [None] * 60])
def test_a_group_is_in_one_part_of_a_fold(labels):
    folds = make_folds(labels, GROUPS, num_folds=4, seed=1, selection_fraction=0.2)
    assert sorted(i for fold in folds for i in fold.held_out) == list(range(60))
    for fold in folds:
        parts = [groups_of(part) for part in (fold.train, fold.selection, fold.held_out)]
        assert all(parts)
        assert sum(map(len, parts)) == len(set().union(*parts)) == 20
        assert fold.by_group
    _, dev = hold_out(labels, 0.2, 0, GROUPS)
    assert len(dev) == 12
    assert len(groups_of(dev)) == 4


@pytest.mark.parametrize("seed", range(5))
def test_the_groups_that_choose_have_the_labels_of_all(seed):
    """One of 5 groups is of "b" alone, and one of 5 has both labels."""
    labels = [label for i in range(60) for label in ("aaaa", "a", "aa", "bbb", "ab")[i % 5]]
    lengths = [(4, 1, 2, 3, 2)[i % 5] for i in range(60)]
    groups = [f"group {i}" for i, length in enumerate(lengths) for _ in range(length)]
    folds = make_folds(labels, groups, num_folds=3, seed=seed, selection_fraction=0.2)
    for fold in folds:
        for label in "ab":
            chosen, trained = (
                sum(labels[i] == label for i in part) for part in (fold.selection, fold.train)
            )
            assert abs(chosen - 0.2 * (chosen + trained)) < 4  # the largest group
        assert not {groups[i] for i in fold.selection} & {groups[i] for i in fold.train}


@pytest.mark.parametrize(
    ("num_labels", "groups_of_label", "size"), [(20, 6, 10), (200, 2, 1), (2, 300, 2)]
)
def test_groups_of_a_single_label_choose_with_a_fraction_of_all(
    num_labels, groups_of_label, size
):
    names = [f"{label} {i}" for label in range(num_labels) for i in range(groups_of_label)]
    groups = [name for name in names for _ in range(size)]
    labels = [name.split()[0] for name in groups]
    train, chosen = hold_out(labels, 0.1, 0, groups, stratifies_groups=True)
    assert abs(len(chosen) - 0.1 * len(labels)) <= size
    assert len({labels[i] for i in chosen}) >= min(num_labels, len(chosen) // size)
    assert {labels[i] for i in train} == {*labels}


def test_groups_that_choose_leave_some_examples_of_each_label():
    # The groups of "b" are too large for the fraction.
    labels = ["a"] * 12 + ["b"] * 12
    groups = [*"ccddeeffgghh", *"iiiiiijjjjjj"]
    for fold in make_folds(labels, groups, num_folds=2, seed=0, selection_fraction=0.1):
        assert {labels[i] for i in fold.train} == {"a", "b"}
    # Every group has all examples of a label.
    train, dev = hold_out([*"abc"], 0.1, 0, [*"abc"], stratifies_groups=True)
    assert (len(train), len(dev)) == (2, 1)


def test_the_examples_that_choose_are_neither_trained_on_nor_held_out():
    labels = ["a"] * 40 + ["b"] * 20
    folds = make_folds(labels, None, num_folds=3, seed=0, selection_fraction=0.1)
    for fold, (rest, held_out) in zip(folds, fold_indices(labels, 3, 0), strict=True):
        assert fold.held_out == tuple(held_out)
        assert sorted(fold.train + fold.selection) == rest.tolist()
        assert sorted(labels[i] for i in fold.selection) == ["a"] * 3 + ["b"]
    assert len({fold.digest for fold in folds}) == 3
    (first, *_) = make_folds(labels, None, num_folds=3, seed=0, selection_fraction=0.0)
    assert (first.selection, first.by_group) == ((), False)


def test_too_few_groups_are_refused():
    with pytest.raises(UserError, match=r"--num_folds=3 needs .* groups .* has 2"):
        fold_indices([None] * 6, 3, 0, ["a", "b"] * 3)
    with pytest.raises(UserError, match=r"--keep_best .* same group"):
        make_folds([None] * 6, ["a", "b"] * 3, num_folds=2, seed=0, selection_fraction=0.1)


def test_a_fold_that_never_sees_a_label_is_named(capsys):
    labels = ["a", "b"] * 9 + ["c"] * 3
    groups = [f"group {i // 3}" for i in range(21)]
    folds = make_folds(labels, groups, num_folds=3, seed=0, selection_fraction=0.0)
    (without,) = (n for n, f in enumerate(folds, 1) if not {18, 19, 20} & set(f.train))
    assert capsys.readouterr().err == (
        f"warning: fold {without} of --num_folds=3, seed 0, trains on no example of the labels "
        "'c': all of them are in groups that are held out\n"
    )
