"""The text of a label to the label, or what is wrong with it."""

import math
from collections.abc import Callable, Sequence

from electra_tf.util.errors import nearest_name_hint
from finetune.classification.examples import Label

# Returns the label of a text, or raises ValueError with what is wrong.
LabelParser = Callable[[str], Label]


def class_label(labels: Sequence[str]) -> LabelParser:
    """Returns a parser that takes one of `labels`."""

    def parse(text: str) -> str:
        if text not in labels:
            raise ValueError(
                f"unknown label {text!r}; the labels are {', '.join(labels)}."
                f"{nearest_name_hint(text, labels)}"
            )
        return text

    return parse


def number_label(min_label: float, max_label: float) -> LabelParser:
    """Returns a parser that takes a number from `min_label` to `max_label`."""

    def parse(text: str) -> float:
        try:
            number = float(text)
        except ValueError:
            number = math.nan
        if not min_label <= number <= max_label:
            raise ValueError(
                f"the label must be a number from {min_label:g} to {max_label:g}, not {text!r}"
            )
        return number

    return parse


def label_set(labels: Sequence[str], separator: str = ",") -> LabelParser:
    """Returns a parser that takes any number of `labels`, none included."""
    parse_one = class_label(labels)

    def parse(text: str) -> tuple[str, ...]:
        parts = [part.strip() for part in text.split(separator)] if text.strip() else []
        return tuple(dict.fromkeys(parse_one(part) for part in parts))

    return parse
