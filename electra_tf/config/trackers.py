"""The hyperparameters that name trackers of experiments, for pre-training and fine-tuning."""

import dataclasses

from electra_tf.config.hyperparameters import NOTHING, hyperparameter


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrackerFields:
    """Projects that get the log, too."""

    wandb: str | None = hyperparameter(
        None,
        "Weights & Biases project to log to as well; needs the extra `wandb`.",
        influence=NOTHING,
    )
    mlflow: str | None = hyperparameter(
        None,
        "MLflow experiment to log to as well; needs the extra `mlflow`.",
        influence=NOTHING,
    )
