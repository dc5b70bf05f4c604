"""Masks a batch: how many tokens, which ones, and what replaces them.

The paper's section 2. A strategy orders the positions (`electra_tf.masking.base`); this
module takes the first ones, writes [MASK], and restores the original tokens.
"""

from collections.abc import Mapping

import tensorflow as tf

from electra_tf.config.hyperparameters import NoHparams
from electra_tf.config.pretraining import PretrainingConfig, max_predictions
from electra_tf.masking.base import MaskingOrder, MaskingStrategy
from electra_tf.masking.token import TokenMasking
from electra_tf.masking.units import choose_whole_units
from electra_tf.model import randomness
from electra_tf.model.batch_types import PretrainInputs, SpecialTokenIds
from electra_tf.model.positions import gather_positions, require_positions, scatter_update
from electra_tf.model.randomness import Randomness
from electra_tf.model.schedules import mask_prob_of
from electra_tf.util.errors import UserError

# Fraction of the masked positions replaced by [MASK]; the rest keep their token.
MASK_TOKEN_PROB = 0.85
DEFAULT_MASKING = TokenMasking(NoHparams(), None)


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
    """Masks a random fraction of each sequence (paper, section 2).

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
    slots = max_predictions_per_seq
    position_key, token_key = tf.unstack(randomness.split(key, 2))
    batch = tf.shape(inputs.input_ids)[0]
    slot_counters = randomness.counters([batch, slots], first_example)
    wanted = num_to_predict(inputs.input_mask, mask_prob, slots)
    if with_replacement:
        noise = randomness.uniform(position_key, slot_counters)
        positions, wanted = _draw_with_replacement(candidates, wanted, noise)
    else:
        order = strategy.order(inputs.input_ids, candidates, position_key, first_example)
        name = f"{type(strategy).__name__}.order"
        require_positions(order.priority, candidates, f"{name}: priority")
        if order.units is not None:
            require_positions(order.units, candidates, f"{name}: units")
        order = order._replace(priority=_above_other_positions(order.priority))
        positions, wanted = _first_in_order(order, candidates, wanted, slots)
    weights = tf.cast(tf.range(slots)[None, :] < wanted[:, None], tf.float32)
    used = tf.cast(weights, tf.int32)
    positions = tf.ensure_shape(positions * used, [None, slots])
    ids = gather_positions(inputs.input_ids, positions) * used

    replace = randomness.uniform(token_key, slot_counters) < MASK_TOKEN_PROB
    # Positions that keep their token become 0, which is never written.
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


def _above_other_positions(priority: tf.Tensor) -> tf.Tensor:
    """Returns the priorities, with -inf and NaN replaced by the lowest one of a candidate.

    Otherwise [SEP] or padding, whose priority is the lowest number, would come before them.
    """
    lowest = priority.dtype.min / 2
    return tf.where(priority >= lowest, priority, lowest)


def _first_in_order(
    order: MaskingOrder, candidates: tf.Tensor, wanted: tf.Tensor, slots: int
) -> tuple[tf.Tensor, tf.Tensor]:
    """Chooses the first candidates of an order, without replacement.

    Args:
        order: order of the positions.
        candidates: bool [batch, seq], positions that may be masked.
        wanted: int32 [batch], number of positions to mask.
        slots: columns of the result.

    Returns:
        int32 [batch, slots], of which the first ones are used, and int32 [batch], how many.
    """
    wanted = tf.minimum(wanted, tf.reduce_sum(tf.cast(candidates, tf.int32), axis=-1))
    chosen = candidates
    if order.units is not None:
        chosen, wanted = choose_whole_units(order, candidates, wanted)
    lowest = order.priority.dtype.min
    priority = tf.where(chosen, order.priority, lowest)
    # Pads sequences with fewer positions than slots, because top_k needs k columns.
    missing = tf.maximum(slots - tf.shape(candidates)[1], 0)
    priority = tf.pad(priority, [[0, 0], [0, missing]], constant_values=lowest)
    return tf.math.top_k(priority, slots).indices, wanted


def _draw_with_replacement(
    candidates: tf.Tensor, wanted: tf.Tensor, noise: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Draws candidates uniformly and independently, as the authors' code does.

    Args:
        candidates: bool [batch, seq], positions that may be masked.
        wanted: int32 [batch], number of positions to mask.
        noise: float32 [batch, slots], uniform in (0, 1).

    Returns:
        As `_first_in_order`; a row without candidates uses no slot.
    """
    counted = tf.cumsum(tf.cast(candidates, tf.int32), axis=-1)
    available = counted[:, -1:]
    rank = tf.cast(noise * tf.cast(available, tf.float32), tf.int32)
    rank = tf.minimum(rank, tf.maximum(available - 1, 0))
    # The candidate of rank r is where r + 1 of them have been counted.
    positions = tf.searchsorted(counted, rank + 1, side="left")
    return positions, tf.where(available[:, 0] > 0, wanted, 0)


def mask_batch(
    config: PretrainingConfig,
    special: SpecialTokenIds,
    strategy: MaskingStrategy,
    features: Mapping[str, tf.Tensor],
    *,
    randomness: Randomness,
) -> PretrainInputs:
    """Masks a batch with the settings of a run (section 2).

    Args:
        config: configuration of the run.
        special: ids of the special tokens.
        strategy: chooses the positions.
        features: `input_ids`, `input_mask`, `segment_ids` [batch, seq], tensors or arrays,
            which become int32.
        randomness: random stream of masking.

    Raises:
        UserError: the strategy was created without the word list of the run.
    """
    if config.word_list and getattr(strategy.tokens, "words", None) is None:
        raise UserError(
            f"--word_list={config.word_list} has not been read, so the model cannot mask by "
            "it: pass token_counts to create_model or load_model"
        )
    names = ("input_ids", "input_mask", "segment_ids")
    inputs = PretrainInputs(*(tf.cast(features[name], tf.int32) for name in names))
    return mask(
        inputs,
        special,
        randomness.key("masking"),
        mask_prob=mask_prob_of(config, randomness),
        max_predictions_per_seq=max_predictions(config, inputs.input_ids.shape[1]),
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


def num_masked_tokens(inputs: PretrainInputs) -> tf.Tensor:
    """Returns the number of masked tokens, float32: the weight of the masked-LM loss."""
    return tf.reduce_sum(inputs.masked_lm_weights)


def num_real_tokens(inputs: PretrainInputs) -> tf.Tensor:
    """Returns the number of non-padding tokens, float32."""
    return tf.reduce_sum(tf.cast(inputs.input_mask, tf.float32))
