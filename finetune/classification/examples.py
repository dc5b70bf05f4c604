"""One text or pair with its label."""

import dataclasses

# A class, several classes, or a number.
Label = str | tuple[str, ...] | float


@dataclasses.dataclass(frozen=True)
class InputExample:
    """One text or pair of texts.

    Attributes:
        eid: number within its split, from 0.
        text_a: the text.
        text_b: the second text; None or empty for none.
        label: a class (classification), classes (multilabel) or a number (regression). An
            unlabeled example carries a dummy.
        guid: the example's name in its file, if it has one.
    """

    eid: int
    text_a: str
    text_b: str | None
    label: Label
    guid: str | None = None
