"""The setting `--class_weights`: weights of the classes in the training loss.

No TensorFlow is imported here.
"""

import re
from collections.abc import Mapping, Sequence

import numpy as np

from electra_tf.util.errors import UserError, nearest_name_hint

NO_WEIGHTS, BALANCED = "none", "balanced"
# A weight, and what follows its comma. A label may contain commas and equals signs.
_WEIGHT = re.compile(
    r"\s*(?P<label>\S.*?)\s*=\s*(?P<weight>[+-]?[0-9]*\.?[0-9]+(?:e[+-]?[0-9]+)?)\s*"
    r"(?:,(?P<others>.*))?$",
    re.IGNORECASE | re.DOTALL,
)


def parse_class_weights(text: str) -> dict[str, float] | None:
    """Returns the weights by label; None for "none" and "balanced".

    Args:
        text: "none", "balanced" or `label=weight,label=weight`.

    Raises:
        UserError: it is anything else, or a weight is not a positive number.
    """
    if text in (NO_WEIGHTS, BALANCED):
        return None
    weights: dict[str, float] = {}
    unparsed = text
    while unparsed is not None:
        parsed = _WEIGHT.match(unparsed)
        label, value = parsed.group("label", "weight") if parsed else ("", "0")
        weight = float(value)
        if not label or not 0 < weight < float("inf"):
            raise UserError(
                f"--class_weights must be {NO_WEIGHTS}, {BALANCED} or positive weights such as "
                f"spam=2,ham=0.5, not {text!r}"
            )
        if label in weights:
            raise UserError(f"--class_weights has the label {label!r} twice")
        weights[label] = weight
        unparsed = parsed.group("others")
    return weights


def named_class_weights(text: str, labels: Sequence[str], task: str) -> np.ndarray | None:
    """Returns the weights of `labels`, float64 [labels]; None for "none" and "balanced".

    A label that is not named has the weight 1.

    Raises:
        UserError: as `parse_class_weights`, or a label is unknown.
    """
    weights: Mapping[str, float] | None = parse_class_weights(text)
    if weights is None:
        return None
    for label in weights:
        if label not in labels:
            raise UserError(
                f"--class_weights: task {task!r} has no label {label!r}, only "
                f"{', '.join(labels)}.{nearest_name_hint(label, labels)}"
            )
    return np.array([weights.get(label, 1.0) for label in labels])


def balanced_class_weights(label_ids: np.ndarray, num_labels: int) -> np.ndarray:
    """Returns weights that give every class the same total weight, float64 [num_labels].

    The weight of a class is n / (classes * examples of the class), as in scikit-learn, where
    `classes` is the number of those that occur: the mean weight of an example is 1. A class
    that does not occur has the weight 1.

    Args:
        label_ids: int [n], n > 0.
        num_labels: number of classes.
    """
    counts = np.bincount(label_ids, minlength=num_labels)
    shares = len(label_ids) / (np.count_nonzero(counts) * np.maximum(counts, 1))
    return np.where(counts > 0, shares, 1.0)
