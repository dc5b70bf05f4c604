"""The setting `--class_weights`."""

import numpy as np
import pytest

from electra_tf.util.errors import UserError
from finetune.config.class_weights import (
    balanced_class_weights,
    named_class_weights,
    parse_class_weights,
)


def test_named_weights_and_one_for_the_others():
    assert parse_class_weights("spam=2, a=b=0.5") == {"spam": 2.0, "a=b": 0.5}
    weights = named_class_weights("spam=2,a=b=0.5", ("ham", "spam", "a=b"), "mail")
    assert weights.tolist() == [1, 2, 0.5]
    assert named_class_weights("none", ("ham", "spam"), "mail") is None
    assert named_class_weights("balanced", ("ham", "spam"), "mail") is None


def test_labels_may_contain_commas():
    weights = {"a, or b": 2.0, "c=d,e": 0.5, "f": 10.0}
    assert parse_class_weights("a, or b=2, c=d,e=.5,f=1e1") == weights


@pytest.mark.parametrize(
    "text",
    ["a=1.2.3", "a=1,", "a=1,=2", "", "spam", "spam=", "=2", "a=0", "a=-1", "a=nan", "a=inf"],
)
def test_bad_weights_are_refused(text):
    with pytest.raises(UserError, match=r"--class_weights must be none, balanced or .*, not "):
        parse_class_weights(text)


def test_unknown_and_repeated_labels_are_named():
    with pytest.raises(UserError, match="has the label 'a' twice"):
        parse_class_weights("a=1,a=2")
    with pytest.raises(UserError, match=r"'mail' has no label 'spma', only .*mean 'spam'"):
        named_class_weights("spma=2", ("ham", "spam"), "mail")


def test_balanced_classes_weigh_alike():
    label_ids = np.array([0, 0, 0, 2, 0, 0, 2, 0])  # six, none and two of three classes
    weights = balanced_class_weights(label_ids, 3)
    np.testing.assert_allclose(weights, [8 / (2 * 6), 1, 8 / (2 * 2)])
    assert weights[label_ids].mean() == pytest.approx(1)
