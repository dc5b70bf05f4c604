"""Lengths that batches are padded to; a graph is compiled for each of them."""

import collections
from collections.abc import Collection, Sequence

# Compiling an encoder for another length takes as long as scoring this many tokens divided by
# the square of its width: 1.5 seconds for ELECTRA-small's generator, 64 wide, which scores
# 60,000 tokens a second on two CPU cores. Both are proportional to the number of layers.
_COMPILATION_COST = 60_000 * 1.5 * 64**2


def compilation_cost(width: int) -> float:
    """Returns the number of tokens that an encoder scores in the time of a compilation."""
    return _COMPILATION_COST / width**2


def padded_lengths(
    lengths: Sequence[int], batch_size: int, *, cost: float, compiled: Collection[int] = ()
) -> list[int]:
    """Returns the length to pad each batch to, so that the total time is the shortest.

    Args:
        lengths: length of the longest row of each batch.
        batch_size: rows per batch.
        cost: number of tokens that take as long as a compilation.
        compiled: lengths that are compiled already.
    """
    if not lengths:
        return []
    counts = collections.Counter(lengths)
    candidates = sorted({*counts, *compiled})
    costs, starts = [0.0], [0]  # of the batches up to a candidate, and where its group starts
    for end, length in enumerate(candidates, start=1):
        own = 0.0 if length in compiled else cost
        tokens, best = 0, (float("inf"), 0)
        for start in range(end - 1, -1, -1):
            tokens += counts[candidates[start]] * batch_size * length
            best = min(best, (costs[start] + tokens + own, start))
        costs.append(best[0])
        starts.append(best[1])
    # Longer lengths, compiled for other texts, may end the last group.
    ends = range(candidates.index(max(lengths)) + 1, len(candidates) + 1)
    padded, end = {}, min(ends, key=costs.__getitem__)
    while end:
        padded |= dict.fromkeys(candidates[starts[end] : end], candidates[end - 1])
        end = starts[end]
    return [padded[length] for length in lengths]
