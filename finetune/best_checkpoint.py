"""The checkpoint of the best evaluation on dev, and the value that made it the best."""

import json
import os
import pathlib

import keras
import tensorflow as tf

from electra_tf.checkpoints import CheckpointDirectory
from electra_tf.util.files import write_atomically
from electra_tf.workers import Workers

_FILE = "best.json"


class BestCheckpoint:
    """Remembers the best value of a metric (higher is better), over restarts too.

    Attributes:
        step: of the best evaluation, None before the first.
        value: the best value.
        evaluations_since_best: how many evaluations came after it.
    """

    def __init__(
        self, directory: str, model: keras.Model, step: tf.Variable, workers: Workers
    ) -> None:
        self._is_chief = workers.is_chief
        self._path = os.path.join(directory, _FILE)
        self._current_step = step
        self._checkpoints = CheckpointDirectory(
            directory, model, step, keep_checkpoint_max=1, workers=workers
        )
        self.step: int | None = None
        self.value = float("-inf")
        self.evaluations_since_best = 0
        if os.path.exists(self._path):
            saved = json.loads(pathlib.Path(self._path).read_text())
            if saved["last_step"] <= int(step.numpy()):
                self.step, self.value = saved["step"], saved["value"]
                self.evaluations_since_best = saved["evaluations_since_best"]

    def update(self, value: float) -> bool:
        """Takes the value of the current step; returns whether it is a new best."""
        improved = self.step is None or value > self.value
        if improved:
            self.step, self.value = int(self._current_step.numpy()), float(value)
        self.evaluations_since_best = 0 if improved else self.evaluations_since_best + 1
        content = {
            "step": self.step,
            "value": self.value,
            "evaluations_since_best": self.evaluations_since_best,
            "last_step": int(self._current_step.numpy()),
        }
        if self._is_chief:
            write_atomically(self._path, json.dumps(content) + "\n")
        return improved

    def save(self) -> None:
        """Writes the weights of the current step."""
        self._checkpoints.save()

    def restore(self) -> None:
        """Loads the weights of the best evaluation."""
        self._checkpoints.restore_latest()
