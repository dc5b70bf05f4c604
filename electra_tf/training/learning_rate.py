"""Learning-rate schedules, and layer-wise learning rates of fine-tuning."""

import re
from collections.abc import Sequence

import keras
import tensorflow as tf

from electra_tf.training.optimizer import inner_optimizer

# The number of a Transformer layer in the path of a variable, from 0 at the bottom.
LAYER_PATTERN = re.compile(r"(?:^|/)layer_(\d+)(?:/|$)")


class WarmupPolynomialDecay(keras.optimizers.schedules.LearningRateSchedule):
    """Linear warm-up times polynomial decay to 0.

    lr(t) = learning_rate * (1 - min(t, T) / T)^power * min(1, t / warmup), where the first
    update has t = `first_update`. `warmup` is the larger of `warmup_steps` and
    `warmup_proportion * T`, not rounded.

    Args:
        learning_rate: peak learning rate.
        num_train_steps: T.
        warmup_steps, warmup_proportion: length of the warm-up.
        power: power of the decay; 1 is linear.
        first_update: t of the first update. The authors' formula reads the step before it
            is incremented (0); their program reads it afterwards (1).
    """

    def __init__(
        self,
        learning_rate: float,
        num_train_steps: int,
        warmup_steps: float = 0,
        warmup_proportion: float = 0.0,
        power: float = 1.0,
        first_update: int = 1,
    ) -> None:
        self.learning_rate = learning_rate
        self.num_train_steps = num_train_steps
        self.warmup_steps = warmup_steps
        self.warmup_proportion = warmup_proportion
        self.power = power
        self.first_update = first_update

    def __call__(self, step: tf.Tensor | int) -> tf.Tensor:
        """Returns the float32 learning rate of the update after `step` updates."""
        t = tf.cast(step, tf.float32) + self.first_update
        total = float(self.num_train_steps)
        rate = self.learning_rate * tf.pow(1.0 - tf.minimum(t, total) / total, self.power)
        warmup = max(total * self.warmup_proportion, float(self.warmup_steps))
        return rate * tf.minimum(1.0, t / warmup) if warmup > 0 else rate

    @property
    def peak(self) -> float:
        """The highest rate that is reached, well below `learning_rate` if warm-up is long."""
        total = self.num_train_steps
        warmup = max(total * self.warmup_proportion, float(self.warmup_steps))
        # The maximum of warm-up times decay, or the end of the warm-up if that is earlier.
        t = min(warmup, total / (1 + self.power))
        rise = t / warmup if warmup > 0 else 1.0
        return self.learning_rate * (1 - t / total) ** self.power * rise

    def get_config(self) -> dict:
        """Returns the constructor's arguments."""
        return {
            "learning_rate": self.learning_rate,
            "num_train_steps": self.num_train_steps,
            "warmup_steps": self.warmup_steps,
            "warmup_proportion": self.warmup_proportion,
            "power": self.power,
            "first_update": self.first_update,
        }


class StagedSchedule(keras.optimizers.schedules.LearningRateSchedule):
    """Consecutive schedules, each starting at its own first update.

    Args:
        schedules: schedules of the stages; each lasts its `num_train_steps`.
    """

    def __init__(self, schedules: Sequence[WarmupPolynomialDecay]) -> None:
        self.schedules = list(schedules)

    def __call__(self, step: tf.Tensor | int) -> tf.Tensor:
        """Returns the float32 learning rate of the update after `step` updates in total."""
        step = tf.convert_to_tensor(step)
        rate, start = self.schedules[0](step), self.schedules[0].num_train_steps
        for schedule in self.schedules[1:]:
            rate = tf.where(step < start, rate, schedule(step - start))
            start += schedule.num_train_steps
        return rate

    def get_config(self) -> dict:
        """Returns the constructor's arguments."""
        return {"schedules": self.schedules}


def layer_factors(
    paths: list[str], layer_decay: float, num_layers: int, authors_exponents: bool = False
) -> dict[str, float]:
    """Returns the learning-rate factor of each variable, for fine-tuning.

    Task-specific layers have factor 1, the top encoder layer `layer_decay`, each layer below
    one factor more, and the embeddings `layer_decay ** (num_layers + 1)`.

    Args:
        paths: variable paths.
        layer_decay: layer-wise decay factor.
        num_layers: number of encoder layers.
        authors_exponents: apply one more factor to encoder and embeddings, as the authors'
            code does.

    Raises:
        ValueError: a path is neither in the encoder nor task-specific.
    """
    extra = 1 if authors_exponents else 0
    factors = {}
    for path in paths:
        match = LAYER_PATTERN.search(path)
        if "task_specific" in path:
            exponent = 0
        elif match:
            exponent = num_layers - int(match.group(1)) + extra
        elif "embeddings" in path:
            exponent = num_layers + 1 + extra
        else:
            raise ValueError(f"No learning-rate factor for the variable {path}")
        factors[path] = layer_decay**exponent
    return factors


def last_learning_rate(optimizer: keras.optimizers.Optimizer) -> float:
    """Returns the learning rate of the last update, for an optimizer with a schedule."""
    inner = inner_optimizer(optimizer)
    return float(inner._learning_rate(max(0, int(tf.convert_to_tensor(inner.iterations)) - 1)))
