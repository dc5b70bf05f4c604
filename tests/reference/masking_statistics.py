"""Counts of repeated random masking, and how far two samples of counts are apart."""

from typing import NamedTuple

import numpy as np

from electra_tf.model.batch_types import PretrainInputs

# The last class of multiplicities holds this many and more.
MAX_MULTIPLICITY = 4


class Draws(NamedTuple):
    """Repeated masking of the same sequences.

    `counts` [rows, draws, seq] says how often a draw took a position, `replaced` of that
    shape which positions show [MASK], `slots` [rows, draws] how many slots were in use;
    `candidates` is bool [rows, seq]; `ids_agree` tells whether the slots hold the
    original tokens and all other tokens are unchanged.
    """

    counts: np.ndarray
    replaced: np.ndarray
    slots: np.ndarray
    candidates: np.ndarray
    ids_agree: bool

    @classmethod
    def of(
        cls,
        masked: PretrainInputs,
        input_ids: np.ndarray,
        candidates: np.ndarray,
        mask_id: int,
        draws: int,
    ) -> "Draws":
        """Counts a batch whose rows are `draws` copies of each sequence, in blocks."""
        batch, length = input_ids.shape
        positions = np.asarray(masked.masked_lm_positions)
        used = np.asarray(masked.masked_lm_weights) > 0
        counts = np.zeros([batch, length], np.int64)
        rows = np.broadcast_to(np.arange(batch)[:, None], positions.shape)
        np.add.at(counts, (rows[used], positions[used]), 1)
        shown = np.asarray(masked.input_ids)
        replaced = (shown == mask_id) & (counts > 0)
        ids_agree = bool(
            (np.asarray(masked.masked_lm_ids)[used] == input_ids[rows, positions][used]).all()
            and (replaced | (shown == input_ids)).all()
        )
        split = [batch // draws, draws, length]
        return cls(
            counts.reshape(split),
            replaced.reshape(split),
            used.sum(-1).reshape(split[:2]),
            np.asarray(candidates).reshape(split)[:, 0],
            ids_agree,
        )

    def all_candidates(self) -> bool:
        """Whether only candidates were drawn."""
        candidates = np.broadcast_to(self.candidates[:, None], self.counts.shape)
        return not self.counts[~candidates].any()

    def distinct(self) -> np.ndarray:
        """Returns [rows, draws], the number of different positions."""
        return (self.counts > 0).sum(-1)

    def slot_counts(self) -> np.ndarray:
        """Returns [rows, seq], the slots that fell on each position in all draws."""
        return self.counts.sum(1)

    def position_counts(self) -> np.ndarray:
        """Returns [rows, seq], the draws that took each position."""
        return (self.counts > 0).sum(1)

    def distinct_histogram(self, size: int) -> np.ndarray:
        """Returns [rows, size], the draws by their number of different positions."""
        return np.stack([np.bincount(row, minlength=size) for row in self.distinct()])

    def replaced_by_multiplicity(self) -> np.ndarray:
        """Returns [rows, 5, 2]: positions drawn c times, and how many show [MASK]."""
        multiplicity = np.minimum(self.counts, MAX_MULTIPLICITY)
        classes = [multiplicity == c for c in range(MAX_MULTIPLICITY + 1)]
        classes[0] = np.zeros_like(classes[0])
        return np.stack(
            [
                np.stack([c.sum((1, 2)), (c & self.replaced).sum((1, 2))], axis=-1)
                for c in classes
            ],
            axis=1,
        )


def deviations(
    first: np.ndarray, first_trials: np.ndarray, second: np.ndarray, second_trials: np.ndarray
) -> np.ndarray:
    """Returns by how many standard deviations two binomial samples' shares differ.

    The variance is that of the pooled share, with one success and one failure added, so
    that a handful of rare events is not taken for a difference. Without trials it is 0.
    """
    first, second = np.asarray(first, np.float64), np.asarray(second, np.float64)
    first_trials = np.broadcast_to(np.asarray(first_trials, np.float64), first.shape)
    second_trials = np.broadcast_to(np.asarray(second_trials, np.float64), second.shape)
    both = (first_trials > 0) & (second_trials > 0)
    n, m = np.where(both, first_trials, 1), np.where(both, second_trials, 1)
    pooled = (first + second + 1) / (n + m + 2)
    # Shares above 1 are no binomial sample; the floor makes them differ by very much.
    variance = np.maximum(pooled * (1 - pooled) * (1 / n + 1 / m), 1e-12)
    return np.where(both, np.abs(first / n - second / m) / np.sqrt(variance), 0.0)
