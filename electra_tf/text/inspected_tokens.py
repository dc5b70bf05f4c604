"""Sentences with replaced tokens, and a discriminator's prediction for each token."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from electra_tf.text.vocabulary import Vocabulary


class InspectedToken(NamedTuple):
    """One token of a corrupted sentence.

    Attributes:
        token: token in the corrupted sentence.
        original: original token.
        probability: predicted probability of being replaced.
    """

    token: str
    original: str
    probability: float


def inspected_tokens(
    vocabulary: Vocabulary,
    originals: np.ndarray,
    ids: np.ndarray,
    probabilities: np.ndarray,
    input_mask: np.ndarray,
) -> list[list[InspectedToken]]:
    """Returns the tokens of each row, without the first and the last: [CLS] and [SEP].

    Args:
        vocabulary: vocabulary of the ids.
        originals, ids: int [rows, seq], before and after the replacement.
        probabilities: float [rows, seq], of being replaced.
        input_mask: int [rows, seq], 1 for tokens, 0 for padding.
    """
    return [
        [
            InspectedToken(
                vocabulary.tokens[ids[row, i]],
                vocabulary.tokens[originals[row, i]],
                float(probabilities[row, i]),
            )
            for i in range(1, length - 1)
        ]
        for row, length in enumerate(np.sum(input_mask, axis=1))
    ]


def render(tokens: Sequence[InspectedToken], *, color: bool) -> str:
    """Formats a sentence: suspected tokens are red, replaced ones underlined.

    Without `color` they are `token?` and `token(original)`. A token is suspected if its
    probability is at least 0.5, or among the n highest if n tokens were replaced (at least 1).
    """
    threshold = _threshold(tokens)
    words = []
    for item in tokens:
        believed = item.probability >= threshold
        replaced = item.token != item.original
        if color:
            codes = [code for code, on in (("1;31", believed), ("4", replaced)) if on]
            start = f"\x1b[{';'.join(codes)}m" if codes else ""
            words.append(f"{start}{item.token}\x1b[0m" if codes else item.token)
        else:
            mark = "?" if believed else ""
            original = f"({item.original})" if replaced else ""
            words.append(f"{item.token}{mark}{original}")
    return " ".join(words).replace(" ##", "")


def _threshold(tokens: Sequence[InspectedToken]) -> float:
    replaced = sum(item.token != item.original for item in tokens)
    ranked = sorted((item.probability for item in tokens), reverse=True)
    if not ranked:
        return 0.5
    return min(0.5, ranked[min(len(ranked), max(1, replaced)) - 1])
