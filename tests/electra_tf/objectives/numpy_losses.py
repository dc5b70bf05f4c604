"""What the losses of objectives are made of, in NumPy, and settings of tiny models."""

import numpy as np
import tensorflow as tf

from electra_tf.masking.base import TokenStatistics
from electra_tf.model.batch_types import PretrainInputs
from electra_tf.model.randomness import Randomness

FACTS = TokenStatistics(np.zeros(40, bool), np.arange(40, dtype=np.int64))
WITHOUT_DROPOUT = Randomness(0, 0, dropout=False)
TINY_SHAPE = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 1,
    "intermediate_size": 64,
    "max_position_embeddings": 16,
}
NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
TWO_STAGE = {
    "objective": "two_stage",
    "embedding_sharing": "none",
    "embedding_size": 16,
    "generator_hidden_size": 1.0,
    # The generator has the heads and intermediate size of its width.
    "model_hparam_overrides": TINY_SHAPE,
}


def options(objective: str) -> dict:
    return TWO_STAGE if objective == "two_stage" else {"objective": objective}


def log_softmax(logits) -> np.ndarray:
    logits = np.asarray(logits, np.float64)
    logits = logits - logits.max(axis=-1, keepdims=True)
    return logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))


def at(log_probs: np.ndarray, ids) -> np.ndarray:
    return np.take_along_axis(log_probs, np.asarray(ids)[..., None], axis=-1)[..., 0]


def binary_cross_entropy(logits, labels) -> np.ndarray:
    logits, labels = np.asarray(logits, np.float64), np.asarray(labels)
    return np.log1p(np.exp(-np.where(labels > 0, logits, -logits)))


def mean(values, weights) -> float:
    return float(np.sum(np.asarray(values) * weights) / np.sum(weights))


def original_ids(inputs) -> np.ndarray:
    ids = inputs.input_ids.numpy().copy()
    for row, positions in enumerate(inputs.masked_lm_positions.numpy()):
        for slot, position in enumerate(positions):
            if inputs.masked_lm_weights[row, slot] > 0:
                ids[row, position] = inputs.masked_lm_ids[row, slot]
    return ids


def masked_mask(inputs) -> np.ndarray:
    mask = np.zeros(inputs.input_ids.shape)
    for row, positions in enumerate(inputs.masked_lm_positions.numpy()):
        for slot, position in enumerate(positions):
            mask[row, position] += inputs.masked_lm_weights[row, slot]
    return mask


def three_masked_tokens() -> PretrainInputs:
    """Two rows of six tokens; masked are 1 and 3 of the first, and 2 of the second."""
    ids = [[2, 7, 8, 9, 10, 3], [2, 7, 8, 3, 0, 0]]
    mask = [[1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 0, 0]]
    return PretrainInputs(
        input_ids=tf.constant(ids),
        input_mask=tf.constant(mask),
        segment_ids=tf.zeros([2, 6], tf.int32),
        masked_lm_positions=tf.constant([[1, 3], [2, 0]]),
        masked_lm_ids=tf.constant([[7, 9], [8, 0]]),
        masked_lm_weights=tf.constant([[1.0, 1.0], [1.0, 0.0]]),
    )
