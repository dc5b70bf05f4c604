"""Examples as a model sees them in training: decoded, with masked tokens marked."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from electra_tf import model_builder
from electra_tf.config.pretraining import PretrainingConfig
from electra_tf.masking.base import (
    MaskingStrategy,
    create_masking,
    masking_class,
    token_statistics,
)
from electra_tf.masking.masked_batch import mask_batch
from electra_tf.model.batch_types import PretrainInputs
from electra_tf.model.randomness import Randomness
from electra_tf.text.framing import INPUT_IDS, INPUT_MASK, SEGMENT_IDS
from electra_tf.text.vocabulary import CLS, CONTINUATION, MASK, SEP, Vocabulary
from electra_tf.training.distribution.strategies import create_strategy

# States of a token; KEPT ones are also predicted, but not replaced by [MASK].
PLAIN, SPECIAL, MASKED, KEPT = "plain", "special", "masked", "kept"
_COLORS = {SPECIAL: "2", MASKED: "1;31", KEPT: "1;33"}


class ExampleToken(NamedTuple):
    """One token of an example.

    Attributes:
        token: the original token.
        state: `PLAIN`, `SPECIAL` ([CLS], [SEP]), `MASKED` or `KEPT`.
        segment: 0 or 1.
        joins: whether it is shown joined to the token before: a `##` piece, both `PLAIN`.
    """

    token: str
    state: str
    segment: int
    joins: bool


def load_masking(
    config: PretrainingConfig, vocabulary: Vocabulary, token_counts: model_builder.TokenCounter
) -> MaskingStrategy:
    """Returns the masking strategy of a run, with its latest weights if it is trained.

    Args:
        config: configuration of the run.
        vocabulary: vocabulary of the run.
        token_counts: counts the tokens of the records, for strategies that need it.

    Raises:
        UserError: the strategy is trained with the model, and the run has no checkpoint.
    """
    chosen = masking_class(config)
    if chosen.learns:
        device = create_strategy(config)
        model, _, _ = model_builder.load_model(config, vocabulary, device, token_counts)
        return model.masking
    counts = token_counts(vocabulary.size) if chosen.needs_counts else None
    return create_masking(config, token_statistics(config, vocabulary, counts))


def masked_examples(
    config: PretrainingConfig,
    vocabulary: Vocabulary,
    masking: MaskingStrategy,
    rows: Sequence[Mapping[str, np.ndarray]],
) -> list[list[ExampleToken]]:
    """Masks rows with the masking rate and strategy of a run, as in its first step.

    Args:
        config: configuration of the run.
        vocabulary: vocabulary of the run.
        masking: result of `load_masking`.
        rows: `input_ids`, `input_mask` and `segment_ids`, int32 [length]; lengths may differ.

    Returns:
        The tokens of each row, without padding.
    """
    special = model_builder.special_token_ids(vocabulary)
    examples = []
    for number, row in enumerate(rows):
        features = {name: tf.constant(values)[None] for name, values in row.items()}
        randomness = Randomness(config.seed, 0, first_example=number)
        inputs = mask_batch(config, special, masking, features, randomness=randomness)
        examples.append(_decode(vocabulary, row, inputs))
    return examples


def _decode(
    vocabulary: Vocabulary, row: Mapping[str, np.ndarray], inputs: PretrainInputs
) -> list[ExampleToken]:
    used = inputs.masked_lm_weights[0].numpy() > 0
    predicted = set(inputs.masked_lm_positions[0].numpy()[used].tolist())
    masked = inputs.input_ids[0].numpy() == vocabulary.mask_id
    tokens = []
    before = SPECIAL
    for position in np.flatnonzero(row[INPUT_MASK]).tolist():
        token = vocabulary.tokens[row[INPUT_IDS][position]]
        state = SPECIAL if token in (CLS, SEP) else PLAIN
        if position in predicted:
            state = MASKED if masked[position] else KEPT
        joins = token.startswith(CONTINUATION) and state == before == PLAIN
        before = state
        tokens.append(ExampleToken(token, state, int(row[SEGMENT_IDS][position]), joins))
    return tokens


def legend(*, color: bool) -> str:
    """Returns a legend for the marks of `render`."""
    marks = ("Red", "yellow") if color else (f"{MASK}(token)", "token(kept)")
    return f"{marks[0]}: masked, to be predicted; {marks[1]}: to be predicted, but not masked."


def render(tokens: Sequence[ExampleToken], *, color: bool) -> str:
    """Formats an example; pieces are joined to words unless one of the two is marked."""
    text = ""
    for item in tokens:
        shown = item.token.removeprefix(CONTINUATION) if item.joins else item.token
        if color and item.state in _COLORS:
            shown = f"\x1b[{_COLORS[item.state]}m{shown}\x1b[0m"
        elif item.state == MASKED:
            shown = f"{MASK}({shown})"
        elif item.state == KEPT:
            shown = f"{shown}(kept)"
        text += shown if item.joins or not text else f" {shown}"
    return text
