"""Masking, gathering, scattering and sampling, under the authors' names."""

from collections.abc import Mapping

import tensorflow as tf

from electra_tf.config.hyperparameters import NoHparams
from electra_tf.config.pretraining import PretrainingConfig, max_predictions
from electra_tf.masking.base import MaskingStrategy
from electra_tf.masking.token import TokenMasking
from electra_tf.masking.units import choose_whole_units
from electra_tf.model import randomness
from electra_tf.model.batch_types import (
    MaskedLMOutput,
    PretrainInputs,
    SpecialTokenIds,
)
from electra_tf.model.heads import MaskedLMHead, softmax_cross_entropy
from electra_tf.model.kernels import fused
from electra_tf.model.randomness import Randomness
from electra_tf.model.schedules import mask_prob_of

# Fraction of the masked positions replaced by [MASK]; the rest keep their token.
MASK_TOKEN_PROB = 0.85
# Subtracted from the logit of a token that must not be sampled.
DISALLOWED_LOGIT = 1e9
# Bounds in the authors' Gumbel transform.
GUMBEL_EPSILON = 1e-9
DEFAULT_MASKING = TokenMasking(NoHparams(), None)
# Added to sums of weights, as in the authors' code, to avoid division by zero.
WEIGHT_EPSILON = 1e-6


def gather_positions(sequence: tf.Tensor, positions: tf.Tensor) -> tf.Tensor:
    """Returns `sequence` [batch, seq, ...] at `positions` [batch, n]: [batch, n, ...]."""
    return tf.gather(sequence, positions, batch_dims=1)


def scatter_update(
    sequence: tf.Tensor, updates: tf.Tensor, positions: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Writes `updates` into a sequence; position 0 is never written.

    As in the authors' code, a position that occurs several times gets the mean of its
    updates, rounded down for integers.

    Args:
        sequence: [batch, seq] or [batch, seq, depth].
        updates: [batch, n] or [batch, n, depth], of the same dtype.
        positions: int32 [batch, n].

    Returns:
        The updated sequence, and int32 [batch, seq], 1 at updated positions.
    """
    length = tf.shape(sequence)[1]
    one_hot = tf.one_hot(positions, length, dtype=sequence.dtype)  # (batch, n, seq)
    one_hot *= tf.cast(positions > 0, sequence.dtype)[..., None]
    counts = tf.reduce_sum(one_hot, axis=1)  # (batch, seq)
    if sequence.shape.rank == 2:
        sums = tf.reduce_sum(one_hot * updates[..., None], axis=1)
        divisors, written = tf.maximum(counts, 1), counts > 0
    else:
        sums = tf.einsum("bns,bnd->bsd", one_hot, updates)
        divisors, written = tf.maximum(counts, 1)[..., None], (counts > 0)[..., None]
    means = sums // divisors if sequence.dtype.is_integer else sums / divisors
    return tf.where(written, means, sequence), tf.cast(counts > 0, tf.int32)


def candidates_mask(
    inputs: PretrainInputs, special: SpecialTokenIds, disallow: tf.Tensor | None = None
) -> tf.Tensor:
    """Returns bool [batch, seq]: real tokens other than [CLS], [SEP], [MASK] and `disallow`."""
    candidates = tf.cast(inputs.input_mask, tf.bool)
    for token_id in special:
        candidates &= inputs.input_ids != token_id
    return candidates if disallow is None else candidates & ~disallow


def num_to_predict(
    input_mask: tf.Tensor, mask_prob: tf.Tensor | float, max_predictions_per_seq: int
) -> tf.Tensor:
    """Returns the number of positions to mask per sequence, int32 [batch].

    As in the authors' code, [CLS] and [SEP] count, and halves round to even in float32.
    """
    tokens = tf.reduce_sum(tf.cast(input_mask, tf.float32), axis=-1)
    wanted = tf.cast(tf.round(tokens * mask_prob), tf.int32)
    return tf.maximum(1, tf.minimum(max_predictions_per_seq, wanted))


def mask(
    inputs: PretrainInputs,
    special: SpecialTokenIds,
    key: tf.Tensor,
    *,
    mask_prob: tf.Tensor | float,
    max_predictions_per_seq: int,
    strategy: MaskingStrategy = DEFAULT_MASKING,
    with_replacement: bool = False,
    first_example: tf.Tensor | int = 0,
) -> PretrainInputs:
    """Masks a random fraction of each sequence (paper, section 2.1).

    Positions are the first ones in the strategy's order, without replacement. If a row has
    fewer candidates than slots, all are masked; if it has none, its weights are all 0.

    Args:
        inputs: a batch; its masked_lm_* fields are ignored.
        special: ids that are never masked.
        key: uint32 [2], key of the random stream.
        mask_prob: masking rate, relative to the number of real tokens.
        max_predictions_per_seq: maximum number of masked tokens (slots) per sequence.
        strategy: order of the positions.
        with_replacement: sample positions with replacement, as the authors' code does.
        first_example: index of row 0 within the global batch.

    Returns:
        `inputs` with masked `input_ids` and the masked_lm_* fields.
    """
    candidates = candidates_mask(inputs, special)
    batch, length = tf.shape(inputs.input_ids)[0], tf.shape(inputs.input_ids)[1]
    slots = max_predictions_per_seq
    position_key, token_key = tf.unstack(randomness.split(key, 2))
    slot_counters = randomness.counters([batch, slots], first_example)

    available = tf.reduce_sum(tf.cast(candidates, tf.int32), axis=-1)
    wanted = num_to_predict(inputs.input_mask, mask_prob, slots)
    if with_replacement:
        wanted = tf.where(available > 0, wanted, 0)
        rank = randomness.uniform(position_key, slot_counters)
        rank = tf.cast(rank * tf.cast(available, tf.float32)[:, None], tf.int32)
        rank = tf.minimum(rank, tf.maximum(available - 1, 0)[:, None])
        order = tf.cumsum(tf.cast(candidates, tf.int32), axis=-1)
        positions = tf.searchsorted(order, rank + 1, side="left")
    else:
        wanted = tf.minimum(wanted, available)
        order = strategy.order(inputs.input_ids, candidates, position_key, first_example)
        lowest = order.priority.dtype.min
        chosen = candidates
        if order.units is not None:
            chosen, wanted = choose_whole_units(order, candidates, wanted)
        priority = tf.where(chosen, order.priority, lowest)
        # Pads sequences with fewer positions than slots, because top_k needs k columns.
        priority = tf.pad(
            priority, [[0, 0], [0, tf.maximum(slots - length, 0)]], constant_values=lowest
        )
        positions = tf.math.top_k(priority, slots).indices
    weights = tf.cast(tf.range(slots)[None, :] < wanted[:, None], tf.float32)
    used = tf.cast(weights, tf.int32)
    positions = tf.ensure_shape(positions * used, [None, slots])
    ids = gather_positions(inputs.input_ids, positions) * used

    replace = randomness.uniform(token_key, slot_counters) < MASK_TOKEN_PROB
    mask_positions = tf.where(replace, positions, 0)
    masked, _ = scatter_update(
        inputs.input_ids, tf.fill(tf.shape(positions), special.mask), mask_positions
    )
    return inputs._replace(
        input_ids=masked,
        masked_lm_positions=positions,
        masked_lm_ids=ids,
        masked_lm_weights=weights,
    )


def mask_batch(
    config: PretrainingConfig,
    special: SpecialTokenIds,
    strategy: MaskingStrategy,
    features: Mapping[str, tf.Tensor],
    *,
    randomness: Randomness,
) -> PretrainInputs:
    """Masks a batch with the settings of a run (section 2.1).

    Args:
        config: configuration of the run.
        special: ids of the special tokens.
        strategy: chooses the positions.
        features: `input_ids`, `input_mask`, `segment_ids`, int32 [batch, seq].
        randomness: random stream of masking.
    """
    return mask(
        PretrainInputs(features["input_ids"], features["input_mask"], features["segment_ids"]),
        special,
        randomness.key("masking"),
        mask_prob=mask_prob_of(config, randomness),
        max_predictions_per_seq=max_predictions(config, features["input_ids"].shape[1]),
        strategy=strategy,
        with_replacement=config.masking_with_replacement,
        first_example=randomness.first_example,
    )


def masked_positions(inputs: PretrainInputs) -> tf.Tensor:
    """Returns float32 [batch, seq], 1 at masked positions."""
    length = tf.shape(inputs.input_ids)[1]
    hits = tf.one_hot(inputs.masked_lm_positions, length) * inputs.masked_lm_weights[..., None]
    return tf.reduce_max(hits, axis=1)


def unmask(inputs: PretrainInputs) -> PretrainInputs:
    """Returns `inputs` with the original tokens restored at the masked positions."""
    ids, _ = scatter_update(inputs.input_ids, inputs.masked_lm_ids, inputs.masked_lm_positions)
    return inputs._replace(input_ids=ids)


def sample_from_softmax(
    logits: tf.Tensor,
    key: tf.Tensor | None = None,
    *,
    temperature: tf.Tensor | float = 1.0,
    disallow: tf.Tensor | None = None,
    uniform_noise: tf.Tensor | None = None,
    first_example: tf.Tensor | int = 0,
) -> tf.Tensor:
    """Samples one token per position from softmax(logits / temperature).

    Args:
        logits: [batch, n, vocab].
        key: uint32 [2], key of the random stream.
        temperature: softmax temperature, a number or a float32 scalar; above 1 flattens the
            distribution.
        disallow: int32 [batch, n], one token per position that must not be sampled.
        uniform_noise: float32 of the shape of `logits`, used instead of `key` with the
            authors' Gumbel transform, to compare with their code.
        first_example: index of row 0 within the global batch.

    Returns:
        int32 [batch, n].
    """
    if disallow is None:
        disallow = tf.fill(tf.shape(logits)[:2], -1)
    if uniform_noise is not None:
        scores = sampling_logits(logits, temperature, disallow)
        exponential = -tf.math.log(uniform_noise + GUMBEL_EPSILON)
        scores -= tf.math.log(exponential + GUMBEL_EPSILON)
    else:
        first = tf.cast(tf.convert_to_tensor(first_example), tf.int32)
        logits = tf.stop_gradient(logits)
        if tf.is_tensor(temperature):  # the kernel is compiled for a number
            logits, temperature = sampling_logits(logits, temperature), 1.0
        scores = _gumbel_scores(logits, disallow, key, first, temperature=temperature)
    return tf.argmax(scores, axis=-1, output_type=tf.int32)


def most_likely_tokens(logits: tf.Tensor, disallow: tf.Tensor | None = None) -> tf.Tensor:
    """Returns the most likely token of each position, int32 [batch, n].

    Args:
        logits: [batch, n, vocab].
        disallow: int32 [batch, n], one token per position that is not taken.
    """
    scores = sampling_logits(tf.stop_gradient(logits), 1.0, disallow)
    return tf.argmax(scores, axis=-1, output_type=tf.int32)


def sampling_logits(
    logits: tf.Tensor, temperature: tf.Tensor | float, disallow: tf.Tensor | None = None
) -> tf.Tensor:
    """Returns the logits of the distribution that `sample_from_softmax` samples from.

    Args:
        logits: [batch, n, vocab].
        temperature: softmax temperature; above 1 flattens the distribution.
        disallow: int32 [batch, n], one token per position that is never sampled; an id
            outside the vocabulary allows all.

    Returns:
        float32 [batch, n, vocab].
    """
    scores = tf.cast(logits, tf.float32) / temperature
    if disallow is None:
        return scores
    forbidden = tf.one_hot(disallow, logits.shape[-1], dtype=tf.float32)
    return scores - DISALLOWED_LOGIT * forbidden


@fused("temperature")
def _gumbel_scores(
    logits: tf.Tensor,
    disallow: tf.Tensor,
    key: tf.Tensor,
    first_example: tf.Tensor,
    *,
    temperature: float,
) -> tf.Tensor:
    counter = randomness.counters(tf.shape(logits), first_example)
    return sampling_logits(logits, temperature, disallow) + randomness.gumbel(key, counter)


def get_token_logits(
    x: tf.Tensor, embedding_table: tf.Tensor, head: MaskedLMHead, *, float32: bool = False
) -> tf.Tensor:
    """Applies the tied output layer: [batch, n, hidden] to logits [batch, n, vocab]."""
    return head(x, embedding_table, float32=float32)


def get_softmax_output(
    logits: tf.Tensor, targets: tf.Tensor, weights: tf.Tensor
) -> MaskedLMOutput:
    """Returns cross-entropy and predictions.

    Args:
        logits: [batch, n, vocab], of any float dtype; the softmax is float32.
        targets: int32 [batch, n].
        weights: float32 [batch, n].
    """
    per_example_loss = softmax_cross_entropy(logits, targets)
    loss = tf.reduce_sum(weights * per_example_loss) / (tf.reduce_sum(weights) + WEIGHT_EPSILON)
    preds = tf.argmax(logits, axis=-1, output_type=tf.int32)
    return MaskedLMOutput(logits, per_example_loss, preds, loss)


def num_masked_tokens(inputs: PretrainInputs) -> tf.Tensor:
    """Returns the number of masked tokens, float32: the weight of the masked-LM loss."""
    return tf.reduce_sum(inputs.masked_lm_weights)


def num_real_tokens(inputs: PretrainInputs) -> tf.Tensor:
    """Returns the number of non-padding tokens, float32."""
    return tf.reduce_sum(tf.cast(inputs.input_mask, tf.float32))
