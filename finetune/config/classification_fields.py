"""Hyperparameters of classification and multiple choice; see `TaskKind.hyperparameters`.

No TensorFlow is imported here.
"""

import dataclasses

from electra_tf.config.hyperparameters import EVALUATION, hyperparameter
from electra_tf.text.framing import NUM_SPECIAL
from electra_tf.util.errors import UserError
from finetune.config.class_weights import NO_WEIGHTS

TRUNCATE, WINDOWS = "truncate", "windows"
MEAN, MAX = "mean", "max"


@dataclasses.dataclass(frozen=True, kw_only=True)
class ClassificationFields:
    """The training loss of classification, and how it reads long texts."""

    class_weights: str = hyperparameter(
        NO_WEIGHTS,
        "Classification: weights of the classes in the training loss: none, balanced "
        "(inversely to their frequency in the training data), or such as spam=2,ham=0.5; "
        "labels that are not named have 1.",
    )
    label_smoothing: float = hyperparameter(
        0.0,
        "Classification and multiple choice: share of the target probability that is spread "
        "over all labels, or over the choices of an example, in training.",
    )
    focal_gamma: float = hyperparameter(
        0.0,
        "Classification and multiple choice: exponent of the focal loss, which weighs easy "
        "examples down in training; 2 is usual, 0 is cross-entropy.",
    )
    long_text: str = hyperparameter(
        TRUNCATE,
        "Classification: what becomes of texts over --max_seq_length: truncate them, or divide "
        "them into windows, each a training example, whose predictions are pooled.",
        (TRUNCATE, WINDOWS),
    )
    window_stride: int = hyperparameter(
        0,
        "Classification: tokens between the starts of two windows of --long_text=windows; 0 is "
        "half of --max_seq_length.",
    )
    window_pooling: str = hyperparameter(
        MEAN,
        "Classification: pooling of the logits of the windows of --long_text=windows.",
        (MEAN, MAX),
        influence=EVALUATION,
    )

    def check_windows(self, max_seq_length: int) -> None:
        """Raises UserError if settings of windows are invalid, or there are no windows.

        Args:
            max_seq_length: maximum sequence length, in tokens.
        """
        for name, choices in (
            ("long_text", (TRUNCATE, WINDOWS)),
            ("window_pooling", (MEAN, MAX)),
        ):
            value = getattr(self, name)
            if value not in choices:
                raise UserError(f"--{name} must be one of {', '.join(choices)}, not {value!r}")
        if self.long_text != WINDOWS:
            for name in ("window_stride", "window_pooling"):
                if getattr(self, name) != getattr(ClassificationFields, name):
                    raise UserError(f"--{name} needs --long_text={WINDOWS}")
        most = max_seq_length - NUM_SPECIAL[1]
        if not 0 <= self.window_stride <= most:
            raise UserError(
                f"--window_stride must be from 0 to {most}, the tokens of a window of "
                f"--max_seq_length={max_seq_length}, not {self.window_stride}"
            )
