"""Hyperparameters of experiment trackers, for pre-training and fine-tuning."""

import dataclasses

from electra_tf.config.hyperparameters import NOTHING, hyperparameter
from electra_tf.util.console import warn_once

WANDB, MLFLOW = "wandb", "mlflow"


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrackerFields:
    """Projects of experiment trackers to log to."""

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

    @property
    def trackers(self) -> dict[str, str]:
        """The projects of the trackers in use, by tracker name."""
        projects = {WANDB: self.wandb, MLFLOW: self.mlflow}
        return {name: project for name, project in projects.items() if project}

    def warn_of_unused_trackers(self) -> None:
        """Warns that an evaluation logs to no tracker.

        When it ends, it would end the tracker's run of a training in progress.
        """
        for name, project in self.trackers.items():
            warn_once(
                f"--{name}={project} has no effect without training: the metrics are only "
                "printed and written to the results"
            )
