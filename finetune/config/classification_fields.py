"""Hyperparameters of classification tasks alone; see `TaskKind.hyperparameters`.

No TensorFlow is imported here.
"""

import dataclasses

from electra_tf.config.hyperparameters import hyperparameter
from finetune.config.class_weights import NO_WEIGHTS


@dataclasses.dataclass(frozen=True, kw_only=True)
class ClassificationFields:
    """The training loss of classification."""

    class_weights: str = hyperparameter(
        NO_WEIGHTS,
        "Classification: weights of the classes in the training loss: none, balanced "
        "(inversely to their frequency in the training data), or such as spam=2,ham=0.5; "
        "labels that are not named have 1.",
    )
    label_smoothing: float = hyperparameter(
        0.0,
        "Classification: share of the target probability that is spread over all labels, in "
        "training.",
    )
    focal_gamma: float = hyperparameter(
        0.0,
        "Classification: exponent of the focal loss, which weighs easy examples down in "
        "training; 2 is usual, 0 is cross-entropy.",
    )
