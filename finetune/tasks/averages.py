"""Averages the outputs of an ensemble's models for a row."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import scipy.special

_LOGITS, _PREDICTIONS = "logits", "predictions"
# Outputs of the model for one row, by name, such as {"logits": [num_labels]}. Outputs per token
# have the padded length of the row's batch.
Outputs = Mapping[str, np.ndarray]
# Averages the outputs of the models for a row.
Average = Callable[[Sequence[Outputs]], Outputs]


def mean_of_softmax(outputs: Sequence[Outputs]) -> Outputs:
    """Averages the probabilities of classes; the logits are their logarithms.

    Args:
        outputs: of each model, with "logits", float32 [..., classes].
    """
    log_probs = scipy.special.log_softmax(_logits(outputs), axis=-1)
    mean = _log_mean(log_probs)
    return _averaged(outputs, mean, mean.argmax(axis=-1))


def mean_of_sigmoid(outputs: Sequence[Outputs]) -> Outputs:
    """Averages the probabilities of independent labels; the logits are those of the means.

    Args:
        outputs: of each model, with "logits", float32 [labels].
    """
    logits = _logits(outputs)
    present = _log_mean(-np.logaddexp(0, -logits))
    absent = _log_mean(-np.logaddexp(0, logits))
    return _averaged(outputs, present - absent, present > absent)


def mean_of_numbers(outputs: Sequence[Outputs]) -> Outputs:
    """Averages predicted numbers.

    Args:
        outputs: of each model, with "predictions", float32 [].
    """
    return _means(outputs, list(outputs[0]))


def _logits(outputs: Sequence[Outputs]) -> np.ndarray:
    return np.stack([np.asarray(each[_LOGITS], np.float64) for each in outputs])


def _log_mean(log_probs: np.ndarray) -> np.ndarray:
    """Returns the logarithm of the mean over the models, which are the first axis."""
    return scipy.special.logsumexp(log_probs, axis=0) - np.log(len(log_probs))


def _averaged(
    outputs: Sequence[Outputs], logits: np.ndarray, predictions: np.ndarray
) -> Outputs:
    """Returns logits and predictions, and the means of everything else, such as "loss"."""
    others = [name for name in outputs[0] if name not in (_LOGITS, _PREDICTIONS)]
    values = {_LOGITS: logits.astype(np.float32), _PREDICTIONS: predictions.astype(np.int32)}
    return values | _means(outputs, others)


def _means(outputs: Sequence[Outputs], names: Sequence[str]) -> dict[str, np.ndarray]:
    return {
        name: np.mean([each[name] for each in outputs], axis=0, dtype=np.float32)
        for name in names
    }
