"""The discriminator's scores by token: AUC within a token id, and sentences to display.

A discriminator that knows only how often each token is replaced already has a high AUC:
generators write frequent tokens where rare ones were. The AUC within a token id compares
occurrences of the same token, so token frequencies alone give 0.5.
"""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from electra_tf.util.console import warn_once

WITHIN_TOKEN_AUC = "disc_auc_within_token"
# 64 MB of keys: all of 100 batches of 128 x 512 tokens. Later tokens are left out.
MAX_TOKENS = 2**23
# Bits of a key, from the lowest: the label, the logit, the token id.
_LOGIT_SHIFT, _ID_SHIFT = 1, 33


class TokenScores(NamedTuple):
    """Scores of the tokens of a batch, each [batch, seq].

    `ids` int32, the tokens that the discriminator sees; `originals` int32; `logits` float32;
    `labels` int32, 1 for replaced tokens; `weights` float32, 1 for tokens of its loss;
    `input_mask` int32.
    """

    ids: tf.Tensor
    originals: tf.Tensor
    logits: tf.Tensor
    labels: tf.Tensor
    weights: tf.Tensor
    input_mask: tf.Tensor


class ShownSentences(NamedTuple):
    """First rows of a batch, NumPy arrays [rows, seq] once fetched.

    `ids` int32, with replacements; `originals` int32; `probabilities` float32, of being
    replaced; `input_mask` int32.
    """

    ids: np.ndarray
    originals: np.ndarray
    probabilities: np.ndarray
    input_mask: np.ndarray


def shown_sentences(scores: TokenScores, count: int) -> ShownSentences:
    """Returns the first `count` rows of a batch, as tensors."""
    return ShownSentences(
        ids=scores.ids[:count],
        originals=scores.originals[:count],
        probabilities=tf.sigmoid(scores.logits[:count]),
        input_mask=scores.input_mask[:count],
    )


def score_keys(scores: TokenScores) -> tf.Tensor:
    """Returns int64 [batch * seq], keys that sort by token id, then logit; -1 without weight.

    The keys hold id, logit and label exactly.
    """
    # Adding 0 turns -0 into 0. As integers, negative floats are in reverse order.
    bits = tf.bitcast(scores.logits + 0.0, tf.int32)
    ordered = tf.where(bits >= 0, bits, tf.bitwise.bitwise_xor(bits, 0x7FFFFFFF))
    keys = (
        tf.cast(scores.ids, tf.int64) * 2**_ID_SHIFT
        + (tf.cast(ordered, tf.int64) + 2**31) * 2**_LOGIT_SHIFT
        + tf.cast(scores.labels, tf.int64)
    )
    return tf.reshape(tf.where(scores.weights > 0, keys, tf.constant(-1, tf.int64)), [-1])


class WithinTokenAUC:
    """Collects keys of `score_keys` on the host, eight bytes a token.

    Args:
        max_tokens: tokens to keep; later ones are left out.
    """

    def __init__(self, max_tokens: int = MAX_TOKENS) -> None:
        self._max_tokens = max_tokens
        self._keys: list[np.ndarray] = []
        self._count = 0
        self._num_left_out = 0

    def add(self, keys: np.ndarray) -> None:
        """Adds the keys of a batch."""
        tokens = keys[keys >= 0]
        kept = tokens[: self._max_tokens - self._count]
        self._keys.append(kept)
        self._count += len(kept)
        self._num_left_out += len(tokens) - len(kept)

    def result(self) -> float:
        """Returns the AUC within a token id; NaN if no id is both replaced and original.

        Warns of tokens that are left out.
        """
        if self._num_left_out:
            warn_once(
                f"{WITHIN_TOKEN_AUC} covers only the first {self._count:,} tokens of the "
                f"evaluation, not the other {self._num_left_out:,}, unlike the other metrics"
            )
        return within_token_auc(self._keys)


def within_token_auc(keys: Iterable[np.ndarray]) -> float:
    """Returns the mean over token ids of the AUC among the tokens of each id.

    Each id is weighted by its pairs of a replaced and an original token, so this is the chance
    that, of two occurrences of the same token, the replaced one has the higher score; ties
    count half.

    Args:
        keys: int64 arrays of `score_keys`, none negative.
    """
    keys = np.sort(np.concatenate([np.empty(0, np.int64), *keys]))
    scores, labels = keys >> _LOGIT_SHIFT, keys & 1
    starts = np.flatnonzero(np.diff(scores, prepend=-1))  # of each (id, logit)
    if not len(starts):
        return float("nan")
    positives = np.add.reduceat(labels, starts)
    negatives = np.diff(starts, append=len(keys)) - positives
    ids = scores[starts] >> (_ID_SHIFT - _LOGIT_SHIFT)
    first = np.flatnonzero(np.diff(ids, prepend=-1))  # of each id, among the (id, logit)
    per_id = np.diff(first, append=len(ids))
    before = np.cumsum(negatives) - negatives
    below = before - np.repeat(before[first], per_id)
    ordered = np.sum(positives * (below + 0.5 * negatives))
    pairs = np.sum(np.add.reduceat(positives, first) * np.add.reduceat(negatives, first))
    return float(ordered / pairs) if pairs else float("nan")
