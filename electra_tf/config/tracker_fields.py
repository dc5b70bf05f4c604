"""The hyperparameters that name trackers of experiments, for pre-training and fine-tuning."""

import dataclasses

from electra_tf.config.hyperparameters import NOTHING, hyperparameter
from electra_tf.util.console import warn_once


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

    def warn_of_unused_trackers(self) -> None:
        """Warns that a run that only evaluates logs to no tracker.

        Its metrics would end the run of a training that still goes on.
        """
        for name in ("wandb", "mlflow"):
            if value := getattr(self, name):
                warn_once(
                    f"--{name}={value} has no effect without training: the metrics are printed "
                    "and in the results alone"
                )
