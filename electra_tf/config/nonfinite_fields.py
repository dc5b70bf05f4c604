"""Hyperparameters for non-finite losses and gradients, in pre-training and fine-tuning."""

import dataclasses

from electra_tf.config.hyperparameters import NOTHING, hyperparameter

STOP, SKIP = "stop", "skip"
ON_NONFINITE = (STOP, SKIP)


@dataclasses.dataclass(frozen=True, kw_only=True)
class NonfiniteFields:
    """What to do about a loss or gradient that is NaN or infinite."""

    on_nonfinite: str = hyperparameter(
        STOP,
        "What to do when the loss or a gradient is NaN or infinite: stop ends the run and "
        "keeps the last checkpoint; skip omits the update, counts it in the log, and stops "
        "after 50 in a row. Finite updates are identical with both.",
        ON_NONFINITE,
        influence=NOTHING,
    )
