"""The best evaluation of a run, and the weights of its step."""

import json
import math
import os
import pathlib
from typing import Any

import keras
import tensorflow as tf

from electra_tf.training.checkpoints.checkpoint_directory import CheckpointDirectory
from electra_tf.training.checkpoints.checkpoint_files import (
    checkpoint_path,
    checkpoint_steps,
    problem_of,
)
from electra_tf.training.checkpoints.checkpoint_writing import remove_checkpoint
from electra_tf.training.distribution.workers import Workers
from electra_tf.util.console import warn_once
from electra_tf.util.files import write_atomically
from electra_tf.util.seals import sealed, without_seal

_BEST_FILE = "best.json"
# Folder of the best weights in that of a fine-tuned model.
BEST_FOLDER = "best"


class BestCheckpoint:
    """Tracks the best value of a metric (higher is better), across restarts.

    A non-finite value is never the best one. A resumed run repeats the evaluations after its
    step, but keeps the weights of the best evaluation even if that was later.

    Args:
        directory: folder of `best.json` and of the weights.
        model: model whose weights are kept.
        step: current step; at creation, that of the restored checkpoint.
        workers: workers of the run.
        keeps_weights: whether to save the weights of the best evaluation.
        first_evaluation: step of the first evaluation; None if unknown.

    Attributes:
        step: step of the best evaluation; None before the first finite one.
        value: the best value.
    """

    def __init__(
        self,
        directory: str,
        model: keras.Model,
        step: tf.Variable,
        workers: Workers,
        *,
        keeps_weights: bool,
        first_evaluation: int | None = None,
    ) -> None:
        self.step: int | None = None
        self.value = float("-inf")
        self._directory = directory
        self._path = os.path.join(directory, _BEST_FILE)
        self._is_chief = workers.is_chief
        self._current_step = step
        self._keeps_weights = keeps_weights
        # `update` removes the previous best only once the new one is recorded.
        self._checkpoints = CheckpointDirectory(
            directory, model, step, keep_checkpoint_max=0, workers=workers
        )
        self._evaluations: dict[int, float | None] = {}
        self._first_evaluation = first_evaluation
        self._load(int(step.numpy()))

    @property
    def evaluations_since_best(self) -> int:
        """Number of evaluations after the best one; of all evaluations if none was finite."""
        best = -1 if self.step is None else self.step
        return sum(step > best for step in self._evaluations)

    @property
    def last_evaluated(self) -> int | None:
        """Step of the last evaluation; None before the first."""
        return max(self._evaluations, default=None)

    def update(self, value: float) -> bool:
        """Records the value of the current step, and its weights if it is a new best.

        Returns:
            Whether it is a new best.
        """
        current = int(self._current_step.numpy())
        improved = math.isfinite(value) and value > self.value
        self._evaluations[current] = float(value) if math.isfinite(value) else None
        if improved:
            self.step, self.value = current, float(value)
            if self._keeps_weights:
                self._checkpoints.save()
        if self._is_chief:
            write_atomically(self._path, json.dumps(sealed(self._content())) + "\n")
            if improved and self._keeps_weights:
                for step in checkpoint_steps(self._directory):
                    if step != current:
                        remove_checkpoint(checkpoint_path(self._directory, step))
        return improved

    def restore(self) -> None:
        """Restores the weights of the best evaluation.

        Raises:
            UserError: their checkpoint is not whole.
        """
        self._checkpoints.restore(checkpoint_path(self._directory, self.step))

    def _content(self) -> dict[str, Any]:
        return {
            "step": self.step,
            "value": None if self.step is None else self.value,
            "evaluations": [[step, value] for step, value in sorted(self._evaluations.items())],
        }

    def _load(self, current: int) -> None:
        path = pathlib.Path(self._path)
        if not path.exists():
            first = self._first_evaluation
            has_evaluated = first is not None and current >= first
            if self._keeps_weights and (has_evaluated or checkpoint_steps(self._directory)):
                warn_once(f"{path} is missing: the best evaluation so far is forgotten")
            return
        try:
            saved = without_seal(json.loads(path.read_text()), path)
            best, value = saved["step"], saved["value"]
            evaluations = saved.get("evaluations")
            if evaluations is None:  # an older version recorded the best and the last one
                evaluations = [(saved["last_step"], None), (best, value)]
            evaluations = {int(step): each for step, each in evaluations}
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            warn_once(f"{path} is damaged ({error!r}): the best evaluation so far is forgotten")
            return
        self._evaluations = {s: each for s, each in evaluations.items() if s <= current}
        if not self._keeps_weights:
            finite = {s: v for s, v in self._evaluations.items() if _is_finite(v)}
            if finite:
                self.step = max(finite, key=lambda step: (finite[step], -step))
                self.value = finite[self.step]
            return
        if not _is_finite(value):
            return
        prefix = checkpoint_path(self._directory, best)
        problem = problem_of(prefix)
        if problem is None:
            self.step, self.value = int(best), float(value)
            return
        self._evaluations = {}
        warn_once(
            f"The weights of the best evaluation, {prefix}, are not intact ({problem}): the "
            "best model will be chosen from later evaluations"
        )


def _is_finite(value: float | None) -> bool:
    return value is not None and math.isfinite(value)
