"""Sliding windows over texts that exceed the maximum length, in Python and in the graph.

In a pair, windows slide over the longer text (the second, if both are equally long), and the
shorter one is kept whole, up to half of the room. Every token of the longer text is in some
window.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from electra_tf.text.cached_tokenizer import CachedTokenizer
from electra_tf.text.framing import NUM_SPECIAL, frame
from electra_tf.text.text_inputs import EncoderInputs, frame_rows
from electra_tf.text.vocabulary import Vocabulary
from finetune.config.classification_fields import MAX, MEAN
from finetune.data.features import DataReport, Row
from finetune.tasks.text.examples import (
    TRUNCATED,
    InputExample,
    framed_row,
    report_lost_texts,
)

WINDOWED = "text divided into windows"
_POOLING = {MEAN: np.mean, MAX: np.max}
_SEGMENT_POOLING = {MEAN: tf.math.segment_mean, MAX: tf.math.segment_max}


class Window(NamedTuple):
    """Token ranges of a window, with exclusive ends, in the first and the second text."""

    start_a: int
    end_a: int
    start_b: int
    end_b: int


class WindowedInputs(NamedTuple):
    """`inputs` of all windows of a batch; `owners` int32 [windows], the row of each window."""

    inputs: EncoderInputs
    owners: tf.Tensor


def text_windows(length_a: int, length_b: int, room: int, stride: int) -> list[Window]:
    """Returns the windows over one text or pair.

    Args:
        length_a, length_b: number of tokens; 0 if there is no second text.
        room: number of tokens of a window, without special tokens.
        stride: number of tokens between the starts of two windows; at most their width.
    """
    if length_a + length_b <= room:
        return [Window(0, length_a, 0, length_b)]
    long, short = max(length_a, length_b), min(length_a, length_b)
    kept = min(short, room // 2)
    width = room - kept
    step = min(stride, width)
    count = 1 + -(-max(long - width, 0) // step)
    spans = [(i * step, min(i * step + width, long)) for i in range(count)]
    if length_a > length_b:
        return [Window(*span, 0, kept) for span in spans]
    return [Window(0, kept, *span) for span in spans]


def window_rows(
    task_name: str,
    examples: Sequence[InputExample],
    tokenizer: CachedTokenizer,
    max_seq_length: int,
    stride: int,
    report: DataReport,
) -> list[list[Row]]:
    """Returns the rows of each example, one per window, as `text_rows` does.

    `report` counts examples with several windows, and those whose shorter text is truncated.
    """
    ids_a = tokenizer.tokenize([example.text_a for example in examples])
    ids_b = tokenizer.tokenize([example.text_b or "" for example in examples])
    found = []
    for example, a, b in zip(examples, ids_a, ids_b, strict=True):
        report_lost_texts(example, a, b, report)
        room = max_seq_length - NUM_SPECIAL[2 if len(b) else 1]
        windows = text_windows(len(a), len(b), room, stride)
        if len(windows) > 1:
            report.add(WINDOWED, eid=example.eid, tokens=len(a) + len(b), windows=len(windows))
        if min(len(a), len(b)) > room // 2 and len(a) + len(b) > room:
            report.add(TRUNCATED, eid=example.eid, tokens=min(len(a), len(b)), kept=room // 2)
        framed = [
            frame(
                tokenizer.vocabulary,
                a[window.start_a : window.end_a],
                b[window.start_b : window.end_b] if len(b) else None,
            )
            for window in windows
        ]
        found.append([framed_row(task_name, example, each) for each in framed])
    return found


def pool_logits(logits: Sequence[Sequence[np.ndarray]], pooling: str) -> np.ndarray:
    """Returns the mean or maximum of the logits of windows, float64 [examples, classes].

    Args:
        logits: float [classes] of each window of each example.
        pooling: `MEAN` or `MAX`.
    """
    pool = _POOLING[pooling]
    return np.stack([pool(np.asarray(rows, np.float64), axis=0) for rows in logits])


def pool_by_owner(logits: tf.Tensor, owners: tf.Tensor, pooling: str) -> tf.Tensor:
    """Returns the pooled logits [batch, classes] of windows [windows, classes]."""
    return _SEGMENT_POOLING[pooling](logits, owners)


def windowed_inputs(
    vocabulary: Vocabulary,
    tokens_a: tf.RaggedTensor,
    tokens_b: tf.RaggedTensor | None,
    max_seq_length: int,
    stride: int,
) -> WindowedInputs:
    """Returns the windows of a batch; the equivalent of `text_windows` in the graph.

    Args:
        vocabulary: provides the special tokens.
        tokens_a, tokens_b: int32 ragged [batch, pieces]; `tokens_b` is None for single texts.
        max_seq_length: maximum length of a row.
        stride: as for `text_windows`.
    """
    length_a = tf.cast(tokens_a.row_lengths(), tf.int32)
    length_b = tf.zeros_like(length_a)
    if tokens_b is not None:
        length_b = tf.cast(tokens_b.row_lengths(), tf.int32)
    has_b = tf.cast(length_b > 0, tf.int32)
    room = max_seq_length - NUM_SPECIAL[1] - has_b
    fits = length_a + length_b <= room
    a_slides = length_a > length_b
    long, short = tf.maximum(length_a, length_b), tf.minimum(length_a, length_b)
    kept = tf.where(fits, short, tf.minimum(short, room // 2))
    width = room - kept
    step = tf.minimum(stride, width)
    count = 1 - tf.maximum(long - width, 0) // -step
    owners = tf.repeat(tf.range(tf.size(count)), count)
    starts = tf.ragged.range(count).values * tf.gather(step, owners)  # (windows,)
    ends = tf.minimum(starts + tf.gather(width, owners), tf.gather(long, owners))
    slides, kept = tf.gather(a_slides, owners), tf.gather(kept, owners)
    first = _slice(tokens_a, owners, tf.where(slides, starts, 0), tf.where(slides, ends, kept))
    if tokens_b is None:
        return WindowedInputs(frame_rows(vocabulary, first), owners)
    second = _slice(tokens_b, owners, tf.where(slides, 0, starts), tf.where(slides, kept, ends))
    has_second = tf.gather(has_b, owners)
    return WindowedInputs(frame_rows(vocabulary, first, second, has_second=has_second), owners)


def _slice(
    tokens: tf.RaggedTensor, rows: tf.Tensor, starts: tf.Tensor, ends: tf.Tensor
) -> tf.RaggedTensor:
    """Returns the tokens from `starts` to `ends` of `rows`, ragged [windows, pieces]."""
    offsets = tf.gather(tf.cast(tokens.row_starts(), tf.int32), rows)
    indices = tf.ragged.range(offsets + starts, offsets + ends)
    return indices.with_values(tf.gather(tokens.values, indices.values))
