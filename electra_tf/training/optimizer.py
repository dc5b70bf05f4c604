"""Optimizers: the authors' Adam and LAMB, and loss scaling.

The authors' Adam updates a variable with gradient g (after clipping) at learning rate lr:

    m = 0.9 m + 0.1 g
    v = 0.999 v + 0.001 g^2
    variable -= lr * (m / (sqrt(v) + 1e-6) + weight_decay * variable)

Unlike Keras's AdamW, it has no bias correction, epsilon is outside the square root, and
LayerNorm parameters and biases are not decayed (embeddings are). LAMB is Keras's, with the
same exceptions from decay.
"""

import re
from collections.abc import Sequence

import keras
import tensorflow as tf

from electra_tf.model.compilation import compiled_by_xla
from electra_tf.training.variable_groups import group_of

BETA_1 = 0.9
BETA_2 = 0.999
EPSILON = 1e-6
# Matches the end of a path, since a path may contain the name of a task, such as "gender_bias".
NOT_DECAYED = re.compile("(LayerNorm|layer_norm)[^/]*/[^/]*$|bias$")
# Variables whose updates LAMB does not scale to their norm.
NOT_ADAPTED = re.compile(f"{NOT_DECAYED.pattern}|_difference$")


class ElectraAdam(keras.optimizers.Optimizer):
    """The authors' Adam (see the module docstring).

    Gradients must be clipped beforehand (`electra_tf.training.clipping`): clipping needs the
    norm over all replicas, which the training step computes. A variable without a gradient is
    not updated.

    Args:
        learning_rate: a number or a schedule.
        weight_decay_rate: decay of every variable, except biases and those of LayerNorm.
        rate_factors: factor of the learning rate, by variable path; None means 1.
    """

    def __init__(
        self,
        learning_rate: float | keras.optimizers.schedules.LearningRateSchedule,
        weight_decay_rate: float = 0.0,
        rate_factors: dict[str, float] | None = None,
        name: str = "electra_adam",
        **kwargs,
    ) -> None:
        super().__init__(learning_rate=learning_rate, name=name, **kwargs)
        self.weight_decay_rate = weight_decay_rate
        self.rate_factors = rate_factors

    def build(self, variables: list[keras.Variable]) -> None:
        """Creates the moments, zeros of each variable's shape, float32."""
        if self.built:
            return
        super().build(variables)
        self.adam_m = self.add_optimizer_variables(variables, "adam_m")
        self.adam_v = self.add_optimizer_variables(variables, "adam_v")

    def update_step(
        self, gradient: tf.Tensor, variable: keras.Variable, learning_rate: tf.Tensor
    ) -> None:
        """Updates one variable and its moments."""
        index = self._get_variable_index(variable)
        path = self._trainable_variables[index].path
        old = [variable, self.adam_m[index].value, self.adam_v[index].value]
        new = _adam_kernel(
            *map(tf.convert_to_tensor, old),
            _cast(gradient, variable),
            _rate_of(path, tf.cast(learning_rate, tf.float32), self.rate_factors),
            tf.constant(_decay_of(path, self.weight_decay_rate)),
        )
        _assign(old, new)

    def _backend_update_step(
        self,
        grads: Sequence[tf.Tensor],
        trainable_variables: Sequence[keras.Variable],
        learning_rate: tf.Tensor,
    ) -> None:
        """Updates the variables of a layer at once, on one device; Keras updates one by one.

        Layers of the same shape then share one compiled kernel, and graphs are smaller. The
        update is in place.
        """
        if not isinstance(self._distribution_strategy, tf.distribute.OneDeviceStrategy):
            super()._backend_update_step(grads, trainable_variables, learning_rate)
            return
        groups: dict[str, list[tuple[tf.Tensor, keras.Variable]]] = {}
        for gradient, variable in zip(grads, trainable_variables, strict=True):
            groups.setdefault(group_of(variable.path), []).append((gradient, variable))
        for group in groups.values():
            gradients, variables = zip(*group, strict=True)
            indices = [self._get_variable_index(variable) for variable in variables]
            paths = [self._trainable_variables[i].path for i in indices]
            factors = self.rate_factors
            _update_in_place(
                [variable.value for variable in variables],
                [self.adam_m[i].value for i in indices],
                [self.adam_v[i].value for i in indices],
                [_cast(*each) for each in zip(gradients, variables, strict=True)],
                tf.cast(learning_rate, tf.float32)
                * tf.constant([1.0 if factors is None else factors[path] for path in paths]),
                tf.constant([_decay_of(path, self.weight_decay_rate) for path in paths]),
            )

    def last_update(self, index: int, learning_rate: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns squared norms of a variable's last update, without decay, and of its weights.

        Args:
            index: index of the variable, in the order of `build`.
            learning_rate: learning rate of the last update.
        """
        variable = self._trainable_variables[index]
        rate = _rate_of(variable.path, learning_rate, self.rate_factors)
        m, v = (tf.convert_to_tensor(each[index]) for each in (self.adam_m, self.adam_v))
        update = m / (tf.sqrt(v) + EPSILON)
        return rate**2 * _squared_norm(update), _squared_norm(variable)

    def get_config(self) -> dict:
        """Returns the constructor's arguments."""
        return {
            **super().get_config(),
            "weight_decay_rate": self.weight_decay_rate,
            "rate_factors": self.rate_factors,
        }


class ElectraLamb(keras.optimizers.Lamb):
    """Keras's LAMB (You et al. 2020), with the weight decay and rate factors of `ElectraAdam`.

    As with Keras's `weight_decay`, variable -= lr * weight_decay * variable is applied first
    and is not part of the update that determines the trust ratio. As in You et al.'s programs,
    biases, LayerNorm parameters and tables of differences (`electra_tf.model.embeddings`) have
    no trust ratio: they start at or near zero, and the ratio would keep them there.

    Args:
        learning_rate: a number or a schedule.
        weight_decay_rate: decay of every variable, except biases and those of LayerNorm.
        rate_factors: factor of the learning rate, by variable path; None means 1.
    """

    def __init__(
        self,
        learning_rate: float | keras.optimizers.schedules.LearningRateSchedule,
        weight_decay_rate: float = 0.0,
        rate_factors: dict[str, float] | None = None,
        name: str = "electra_lamb",
        **kwargs,
    ) -> None:
        options = {"beta_1": BETA_1, "beta_2": BETA_2, "epsilon": EPSILON, **kwargs}
        super().__init__(learning_rate=learning_rate, name=name, **options)
        self.weight_decay_rate = weight_decay_rate
        self.rate_factors = rate_factors

    def update_step(
        self, gradient: tf.Tensor, variable: keras.Variable, learning_rate: tf.Tensor
    ) -> None:
        """Updates one variable and its moments."""
        path = self._trainable_variables[self._get_variable_index(variable)].path
        rate = _rate_of(path, tf.cast(learning_rate, tf.float32), self.rate_factors)
        decay = _decay_of(path, self.weight_decay_rate)
        if decay:
            self.assign_sub(variable, rate * decay * tf.convert_to_tensor(variable))
        if NOT_ADAPTED.search(path) is None:
            super().update_step(gradient, variable, rate)
            return
        index = self._get_variable_index(variable)
        gradient = _cast(gradient, variable)
        m, v = self._momentums[index], self._velocities[index]
        self.assign_add(m, (1 - BETA_1) * (gradient - m))
        self.assign_add(v, (1 - BETA_2) * (tf.square(gradient) - v))
        self.assign_sub(variable, rate * self._update(index, self.iterations + 1))

    def _update(self, index: int, num_updates: tf.Tensor | keras.Variable) -> tf.Tensor:
        """Returns the update of a variable, without trust ratio, from its moments."""
        count = tf.cast(tf.convert_to_tensor(num_updates), tf.float32)
        m, v = (
            tf.convert_to_tensor(each[index]) for each in (self._momentums, self._velocities)
        )
        return m / (1 - BETA_1**count) / (tf.sqrt(v / (1 - BETA_2**count)) + EPSILON)

    def last_update(self, index: int, learning_rate: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Like `ElectraAdam.last_update`; the trust ratio scales the update to the weights."""
        variable = self._trainable_variables[index]
        rate = _rate_of(variable.path, learning_rate, self.rate_factors)
        weights = _squared_norm(variable)
        if NOT_ADAPTED.search(variable.path):
            return rate**2 * _squared_norm(self._update(index, self.iterations)), weights
        is_updated = tf.cast(_squared_norm(self._momentums[index]) > 0, tf.float32)
        return rate**2 * weights * is_updated, weights

    def get_config(self) -> dict:
        """Returns the constructor's arguments."""
        return {
            **super().get_config(),
            "weight_decay_rate": self.weight_decay_rate,
            "rate_factors": self.rate_factors,
        }


def inner_optimizer(optimizer: keras.optimizers.Optimizer) -> keras.optimizers.Optimizer:
    """Returns the optimizer inside a `LossScaleOptimizer`, or the given one."""
    return getattr(optimizer, "inner_optimizer", optimizer)


def _cast(gradient: tf.Tensor, variable: keras.Variable | tf.Variable) -> tf.Tensor:
    return tf.cast(tf.convert_to_tensor(gradient), variable.dtype)


def _squared_norm(values: tf.Tensor | keras.Variable) -> tf.Tensor:
    return 2.0 * tf.nn.l2_loss(tf.cast(tf.convert_to_tensor(values), tf.float32))


def _decay_of(path: str, weight_decay_rate: float) -> float:
    return 0.0 if NOT_DECAYED.search(path) else weight_decay_rate


def _rate_of(
    path: str, learning_rate: tf.Tensor, rate_factors: dict[str, float] | None
) -> tf.Tensor:
    return learning_rate if rate_factors is None else learning_rate * rate_factors[path]


def adam_update(
    variable: tf.Tensor,
    m: tf.Tensor,
    v: tf.Tensor,
    gradient: tf.Tensor,
    learning_rate: tf.Tensor,
    decay: tf.Tensor,
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Returns the variable and its moments after one update, in one pass over memory."""
    m = BETA_1 * m + (1 - BETA_1) * gradient
    v = BETA_2 * v + (1 - BETA_2) * tf.square(gradient)
    update = m / (tf.sqrt(v) + EPSILON) + decay * variable
    return variable - learning_rate * update, m, v


_adam_kernel = compiled_by_xla(adam_update)


@compiled_by_xla
def _update_in_place(
    variables: Sequence[tf.Variable],
    m: Sequence[tf.Variable],
    v: Sequence[tf.Variable],
    gradients: Sequence[tf.Tensor],
    learning_rates: tf.Tensor,
    decays: tf.Tensor,
) -> tf.Tensor:
    """Updates several variables and their moments, and returns the learning rates."""
    rates, decays = tf.unstack(learning_rates), tf.unstack(decays)
    for *old, gradient, rate, decay in zip(
        variables, m, v, gradients, rates, decays, strict=True
    ):
        new = adam_update(*map(tf.convert_to_tensor, old), gradient, rate, decay)
        _assign(old, new)
    return learning_rates


def _assign(variables: Sequence[tf.Variable], values: Sequence[tf.Tensor]) -> None:
    for variable, value in zip(variables, values, strict=True):
        variable.assign(value, read_value=False)  # without reading it again


def make_optimizer(
    name: str,
    schedule: keras.optimizers.schedules.LearningRateSchedule,
    *,
    weight_decay_rate: float,
    rate_factors: dict[str, float] | None = None,
    precision: str = "float32",
) -> keras.optimizers.Optimizer:
    """Returns the optimizer selected by `--optimizer`.

    Args:
        name: "adam" or "lamb".
        schedule: learning-rate schedule.
        weight_decay_rate, rate_factors: as in `ElectraAdam`.
        precision: "mixed_float16" adds dynamic loss scaling: the scale starts at 2**15, is
            halved on overflow and doubled after 2000 steps without one.
    """
    optimizer = {"adam": ElectraAdam, "lamb": ElectraLamb}[name](
        schedule, weight_decay_rate, rate_factors
    )
    if precision == "mixed_float16":
        return keras.optimizers.LossScaleOptimizer(optimizer)
    return optimizer


def reset_moments(optimizer: keras.optimizers.Optimizer, first_step: int) -> None:
    """Sets the moments of all variables to zero; keeps the loss scale.

    The learning-rate schedule continues from `first_step`, even if updates were skipped before.
    """
    for variable in optimizer.variables:
        if len(variable.shape):
            variable.assign(tf.zeros_like(variable))
    inner_optimizer(optimizer).iterations.assign(first_step)


def reset_optimizer(optimizer: keras.optimizers.Optimizer) -> None:
    """Resets an optimizer with a schedule to its initial state."""
    for variable in optimizer.variables:
        variable.assign(tf.zeros_like(variable))
    if isinstance(optimizer, keras.optimizers.LossScaleOptimizer):
        optimizer.dynamic_scale.assign(optimizer.initial_scale)
