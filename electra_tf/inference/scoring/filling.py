"""Packs several texts into a row, instead of padding; they do not attend to each other.

A graph is compiled for each row length, so only a few lengths are used.
"""

import bisect
import collections
import math
from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np

# Compiling an encoder for another length takes as long as scoring this many tokens divided by
# the square of its width: 1.5 seconds for ELECTRA-small's generator, 64 wide, which scores
# 60,000 tokens a second on two CPU cores. Both are proportional to the number of layers.
_COMPILATION_COST = 60_000 * 1.5 * 64**2
# Row lengths: one of the short ones, or a multiple of the step, up to this much longer than the
# longest text.
_SHORT_ROWS, _STEP = (8, 16, 32), 64
_LONGER = 2 * _STEP
# Texts that the number of rows is estimated from.
_SAMPLE = 500


class FilledRows(NamedTuple):
    """Texts side by side, int32 [rows, row_length] each.

    Attributes:
        input_ids: ids of the texts; 0 where there is none.
        text_numbers: number of the text in its row, from 1; 0 where there is none.
        position_ids: positions in the text.
    """

    input_ids: np.ndarray
    text_numbers: np.ndarray
    position_ids: np.ndarray


def row_lengths(
    lengths: Sequence[int],
    batch_size: int,
    width: int,
    *,
    text_tokens: int = 1,
    compiled: Collection[int] = (),
) -> list[int]:
    """Returns the row length for each text that minimizes the total time.

    The time for a token grows with the length of its row: a layer takes 2 * (12 width^2 +
    2 length * width) operations, the second term being attention's.

    Args:
        lengths: number of tokens of each text.
        batch_size: rows that are computed at once, full or empty.
        width: hidden size of the encoder.
        text_tokens: a row has at most one text per this many tokens.
        compiled: row lengths that are compiled already.
    """
    if not lengths:
        return []
    ordered = sorted(lengths)
    candidates = _candidates(ordered[-1], compiled)
    # Number of texts, from the shortest, that fit in a row of each candidate length.
    ends = [0, *(bisect.bisect_right(ordered, candidate) for candidate in candidates)]
    costs, starts = [0.0], [0]  # of the texts up to a candidate, and where its group starts
    for end, candidate in enumerate(candidates, start=1):
        own = 0.0 if candidate in compiled else _COMPILATION_COST / width**2
        pass_cost = batch_size * candidate * (1 + candidate / (6 * width))
        best = (float("inf"), 0)
        for start in range(end - 1, -1, -1):
            texts = ordered[ends[start] : ends[end]]
            num_rows = _estimate_rows(texts, candidate, candidate // text_tokens)
            cost = math.ceil(num_rows / batch_size) * pass_cost + (own if texts else 0.0)
            best = min(best, (costs[start] + cost, start))
        costs.append(best[0])
        starts.append(best[1])
    # Longer rows, compiled for other texts, may end the last group.
    longest = bisect.bisect_left(candidates, ordered[-1]) + 1
    end = min(range(longest, len(costs)), key=costs.__getitem__)
    chosen = list(candidates)
    while end:
        group = range(starts[end], end)
        chosen[group.start : end] = [candidates[end - 1]] * len(group)
        end = group.start
    return [chosen[bisect.bisect_left(candidates, length)] for length in lengths]


def _estimate_rows(lengths: Sequence[int], row_length: int, max_texts: int) -> float:
    """Returns how many rows texts need; of many texts, it is estimated from a sample."""
    if not lengths:
        return 0.0
    sample = lengths[:: math.ceil(len(lengths) / _SAMPLE)]
    return len(fill_rows(sample, row_length, max_texts)) * len(lengths) / len(sample)


def _candidates(longest: int, compiled: Collection[int]) -> list[int]:
    steps = range(_STEP, longest + _LONGER + _STEP, _STEP)
    return sorted({*_SHORT_ROWS, *steps, *compiled})


def fill_rows(lengths: Sequence[int], row_length: int, max_texts: int) -> list[list[int]]:
    """Returns which texts are in each row: the longest first, each where it fits best.

    That is best fit decreasing, which needs at most 11/9 of the fewest rows, and a constant
    (Johnson 1973, "Near-optimal bin packing algorithms").

    Args:
        lengths: number of tokens of each text, at most `row_length`.
        row_length: number of tokens of a row.
        max_texts: largest number of texts in a row.
    """
    rows: list[list[int]] = []
    room: dict[int, list[int]] = collections.defaultdict(list)  # rows by their free tokens
    free: list[int] = []  # the keys of those, in order
    for text in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        length = lengths[text]
        at = bisect.bisect_left(free, length)
        if at == len(free):
            row, left = len(rows), row_length
            rows.append([])
        else:
            left = free[at]
            row = room[left].pop()
            if not room[left]:
                free.pop(at)
        rows[row].append(text)
        left -= length
        if left and len(rows[row]) < max_texts:
            if not room[left]:
                bisect.insort(free, left)
            room[left].append(row)
    return rows


def lay_out(
    rows: Sequence[Sequence[Sequence[int]]], num_rows: int, row_length: int
) -> FilledRows:
    """Lays out the texts of each row side by side, and adds empty rows up to `num_rows`."""
    arrays = FilledRows(*np.zeros([3, num_rows, row_length], np.int32))
    for i, texts in enumerate(rows):
        start = 0
        for number, ids in enumerate(texts, start=1):
            place = slice(start, start + len(ids))
            arrays.input_ids[i, place] = ids
            arrays.text_numbers[i, place] = number
            arrays.position_ids[i, place] = range(len(ids))
            start = place.stop
    return arrays
