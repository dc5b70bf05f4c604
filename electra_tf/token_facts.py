"""What masking and the unigram generator know of the vocabulary's tokens."""

import dataclasses

import numpy as np

CONTINUATION_PREFIX = "##"


@dataclasses.dataclass(frozen=True)
class TokenFacts:
    """Facts by token id.

    Attributes:
        continues_word: bool [vocab], True of pieces that go on with the word before them.
        counts: int64 [vocab], how often each token is met in the records; None where
            nothing needs them.
    """

    continues_word: np.ndarray
    counts: np.ndarray | None = None

    @classmethod
    def of(cls, tokens: tuple[str, ...], counts: np.ndarray | None = None) -> "TokenFacts":
        """Returns the facts of WordPiece tokens in the order of their ids."""
        continues = np.array([token.startswith(CONTINUATION_PREFIX) for token in tokens])
        return cls(continues, counts)

    def log_frequencies(self, smoothing: float = 1.0) -> np.ndarray:
        """Returns float32 [vocab], log((count + smoothing) / sum of that over all tokens).

        Raises:
            ValueError: the tokens were not counted.
        """
        if self.counts is None:
            raise ValueError("The tokens of the records have to be counted first")
        smoothed = self.counts.astype(np.float64) + smoothing
        return np.log(smoothed / smoothed.sum()).astype(np.float32)
