"""Hyperparameters of classification and multiple choice; see `TaskKind.hyperparameters`.

No TensorFlow is imported here.
"""

import dataclasses

from electra_tf.config.hyperparameters import EVALUATION, check_choices, hyperparameter
from electra_tf.text.framing import NUM_SPECIAL
from electra_tf.util.errors import UserError
from finetune.config.class_weights import NO_WEIGHTS

TRUNCATE, WINDOWS = "truncate", "windows"
MEAN, MAX = "mean", "max"


@dataclasses.dataclass(frozen=True, kw_only=True)
class ClassificationFields:
    """Hyperparameters of the classification loss, and of texts longer than a sequence."""

    class_weights: str = hyperparameter(
        NO_WEIGHTS,
        "Classification: class weights in the training loss: none; balanced, inverse to the "
        "class frequencies of the training data; or weights by label, such as spam=2,ham=0.5, "
        "with 1 for the others.",
    )
    label_smoothing: float = hyperparameter(
        0.0,
        "Classification and multiple choice: label smoothing, the fraction of the target "
        "probability that is spread over all labels (or choices) in training.",
    )
    focal_gamma: float = hyperparameter(
        0.0,
        "Classification and multiple choice: exponent (gamma) of the focal loss, which "
        "down-weights easy examples; 2 is common, 0 is cross-entropy.",
    )
    long_text: str = hyperparameter(
        TRUNCATE,
        "Classification: how to handle texts longer than --max_seq_length: truncate them, or "
        "split them into windows, which are trained as separate examples and whose "
        "predictions are pooled.",
        (TRUNCATE, WINDOWS),
    )
    window_stride: int = hyperparameter(
        0,
        "Classification: stride of the windows of --long_text=windows, in tokens; 0 is half "
        "of --max_seq_length.",
    )
    window_pooling: str = hyperparameter(
        MEAN,
        "Classification: pooling of the logits of the windows of --long_text=windows.",
        (MEAN, MAX),
        influence=EVALUATION,
    )

    def check_windows(self, max_seq_length: int) -> None:
        """Raises UserError if window settings are invalid, or given without windows.

        Args:
            max_seq_length: maximum sequence length, in tokens.
        """
        check_choices(self)
        if self.long_text != WINDOWS:
            for name in ("window_stride", "window_pooling"):
                if getattr(self, name) != getattr(ClassificationFields, name):
                    raise UserError(f"--{name} needs --long_text={WINDOWS}")
        most = max_seq_length - NUM_SPECIAL[1]
        if not 0 <= self.window_stride <= most:
            raise UserError(
                f"--window_stride must be from 0 to {most}, the text tokens in a window of "
                f"--max_seq_length={max_seq_length}, not {self.window_stride}"
            )
