"""Evaluates on dev during training, to keep the best weights and to stop early."""

import os
from collections.abc import Callable, Mapping

import numpy as np
import tensorflow as tf

from electra_tf.training.checkpoints.best_checkpoint import BEST_FOLDER, BestCheckpoint
from electra_tf.training.distribution.workers import Workers
from electra_tf.training.loop import Evaluation
from finetune.config.finetuning import FinetuningConfig
from finetune.model import FinetuningModel

# Returns the metric that selects the weights, and all metrics.
Evaluate = Callable[[], tuple[float, Mapping[str, float]]]


class DevEvaluations:
    """Selects the best weights of a run by its evaluations, across restarts.

    Args:
        config: `keep_best` and `early_stopping_patience`.
        model_dir: folder of the run.
        model: the model in training.
        step: current step; at creation, that of the restored checkpoint.
        workers: workers of the run.
        evaluate: evaluates the current weights; None never evaluates.
        interval: evaluation interval, in steps.

    Attributes:
        interval: evaluation interval, in steps; None without evaluations.
    """

    def __init__(
        self,
        config: FinetuningConfig,
        model_dir: str,
        model: FinetuningModel,
        step: tf.Variable,
        workers: Workers,
        evaluate: Evaluate | None,
        interval: int,
    ) -> None:
        self.interval = None if evaluate is None else interval
        self._evaluate = evaluate
        self._keep_best = config.keep_best
        self._patience = config.early_stopping_patience or np.inf
        self._best = BestCheckpoint(
            os.path.join(model_dir, BEST_FOLDER),
            model,
            step,
            workers,
            keeps_weights=config.keep_best,
            first_evaluation=self.interval,
        )

    def evaluate(self) -> Evaluation:
        """Evaluates the current weights, and decides whether to stop early."""
        value, values = self._evaluate()
        self._best.update(value)
        shown = "  ".join(f"{name} {value:.4g}" for name, value in values.items())
        return Evaluation(values, shown, self.stops)

    @property
    def stops(self) -> bool:
        """Whether training must stop early, according to the evaluations so far."""
        return self._best.evaluations_since_best >= self._patience

    @property
    def best_step(self) -> int | None:
        """Step whose weights are kept: None without `keep_best`, or if no value was finite."""
        return self._best.step if self._keep_best else None

    @property
    def last_step(self) -> int | None:
        """Step of the last evaluation; None before the first."""
        return self._best.last_evaluated

    def describe_stop(self) -> str:
        """Returns a line that says why training stopped early."""
        best = self._best.step
        since = "finite" if best is None else f"better since step {best}"
        return f"Stopped early: no dev score was {since}."

    def restore_best(self, print_fn: Callable[[str], None]) -> None:
        """Restores the best weights with `keep_best`, unless there are none."""
        if self.best_step is not None:
            self._best.restore()
        elif self._keep_best:
            print_fn("No dev score was finite: the last weights are kept.")
