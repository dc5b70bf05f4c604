"""The authors' Adam, with warm-up, decay and layer-wise rates; LAMB; loss scaling.

The authors' update of a variable with gradient g (already clipped) at learning rate lr:

    m = 0.9 m + 0.1 g
    v = 0.999 v + 0.001 g^2
    variable -= lr * (m / (sqrt(v) + 1e-6) + weight_decay * variable)

Unlike Keras's AdamW there is no bias correction, epsilon stands outside the root,
and LayerNorm parameters and biases are not decayed (embeddings are). LAMB is Keras's,
with the same exceptions and factors.
"""

import re
from collections.abc import Sequence

import keras
import tensorflow as tf

# Factor exponents of layer-wise learning rates, by part of the variable's name.
LAYER_PATTERN = re.compile(r"(?:^|/)layer_(\d+)(?:/|$)")


class WarmupPolynomialDecay(keras.optimizers.schedules.LearningRateSchedule):
    """Linear warm-up times polynomial decay to 0.

    lr(t) = learning_rate * (1 - min(t, T) / T)^power * min(1, t / warmup), where
    t counts updates from 1: the first update uses lr(1). `warmup` is the larger of
    `warmup_steps` and `warmup_proportion * T`, not rounded.

    Args:
        learning_rate: the rate that warm-up leads to.
        num_train_steps: T.
        warmup_steps, warmup_proportion: length of the warm-up.
        power: of the decay; 1 is linear.
        first_update: t of the first update. The authors' formula reads the counter
            before it is incremented (0), their program after (1): see the reference data.
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
        """Returns the float32 rate of the update after `step` finished ones."""
        t = tf.cast(step, tf.float32) + self.first_update
        total = float(self.num_train_steps)
        rate = self.learning_rate * tf.pow(1.0 - tf.minimum(t, total) / total, self.power)
        warmup = max(total * self.warmup_proportion, float(self.warmup_steps))
        return rate * tf.minimum(1.0, t / warmup) if warmup > 0 else rate

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
    """Schedules one after another, each from its own first update on.

    Args:
        schedules: each runs for its `num_train_steps`.
    """

    def __init__(self, schedules: Sequence[WarmupPolynomialDecay]) -> None:
        self.schedules = list(schedules)

    def __call__(self, step: tf.Tensor | int) -> tf.Tensor:
        """Returns the float32 rate of the update after `step` finished ones of all stages."""
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
    """Returns the factor of the learning rate of each variable, for fine-tuning.

    The task's own layers get 1, the top encoder layer `layer_decay`, each layer
    below it one factor more, and the embeddings `layer_decay ** (num_layers + 1)`.

    Args:
        paths: variable paths.
        layer_decay: factor from one layer to the next.
        num_layers: layers of the encoder.
        authors_exponents: give encoder and embeddings one factor more, as the
            authors' code does.

    Raises:
        ValueError: for a path that is neither in the encoder nor task-specific.
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
            raise ValueError(f"No learning rate is known for the variable {path}")
        factors[path] = layer_decay**exponent
    return factors


def last_learning_rate(optimizer: keras.optimizers.Optimizer) -> float:
    """Returns the learning rate of the newest update, for an optimizer with a schedule."""
    inner = getattr(optimizer, "inner_optimizer", optimizer)
    return float(inner._learning_rate(max(0, int(tf.convert_to_tensor(inner.iterations)) - 1)))
