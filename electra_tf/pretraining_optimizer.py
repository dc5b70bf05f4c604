"""The optimizer of pre-training: a schedule for each stage, and the generator's own rate."""

import keras

from electra_tf.config.phases import Stage
from electra_tf.config.pretraining import PretrainingConfig
from electra_tf.pretraining_model import PretrainingModel
from electra_tf.training.learning_rate import StagedSchedule, WarmupPolynomialDecay
from electra_tf.training.optimizer import make_optimizer
from electra_tf.util.errors import UserError


def create_optimizer(
    config: PretrainingConfig, model: PretrainingModel
) -> keras.optimizers.Optimizer:
    """Returns the optimizer of a pre-training model; the schedule restarts in each stage.

    Raises:
        UserError: there are no weights for `--generator_learning_rate`.
    """
    schedules = [schedule_of(config, stage) for stage in model.stages()]
    return make_optimizer(
        config.optimizer,
        schedules[0] if len(schedules) == 1 else StagedSchedule(schedules),
        weight_decay_rate=config.weight_decay_rate,
        rate_factors=_rate_factors(config, model),
        precision=config.precision,
    )


def _rate_factors(
    config: PretrainingConfig, model: PretrainingModel
) -> dict[str, float] | None:
    """Returns the factor of the learning rate by path of a variable; None if all are 1."""
    if config.generator_learning_rate is None:
        return None
    own = generator_paths(model)
    if not own or not config.learning_rate:
        raise UserError(
            f"--generator_learning_rate={config.generator_learning_rate} needs a generator "
            "with unshared weights, and a positive --learning_rate"
        )
    factor = config.generator_learning_rate / config.learning_rate
    return {
        variable.path: factor if variable.path in own else 1.0
        for variable in model.trainable_variables
    }


def schedule_of(config: PretrainingConfig, stage: Stage) -> WarmupPolynomialDecay:
    """Returns the learning-rate schedule of a stage."""
    return WarmupPolynomialDecay(
        learning_rate=config.learning_rate,
        num_train_steps=stage.num_steps,
        warmup_steps=config.num_warmup_steps,
        power=config.lr_decay_power,
    )


def generator_paths(model: PretrainingModel) -> set[str]:
    """Returns the paths of the generator's unshared variables."""
    if not model.has_generator or model.generator is model.electra:
        return set()
    layers = [
        model.generator,
        *model.token_generator.layers.values(),
        # Layers of the objective.
        *(layer for name, layer in vars(model).items() if name.startswith("generator_")),
    ]
    own = {
        variable.path
        for layer in layers
        if isinstance(layer, keras.layers.Layer)
        for variable in layer.variables
    }
    return own - {variable.path for variable in model.electra.variables}
