"""The optimizer of fine-tuning, with layer-wise learning rates, and its training steps."""

import keras
import tensorflow as tf

from electra_tf.config.nonfinite_fields import SKIP
from electra_tf.training.learning_rate import WarmupPolynomialDecay, layer_factors
from electra_tf.training.optimizer import make_optimizer
from electra_tf.training.step import TrainingSteps
from finetune.config.finetuning import FinetuningConfig
from finetune.model import FinetuningModel


def create_optimizer(
    config: FinetuningConfig, model: FinetuningModel, num_train_steps: int
) -> keras.optimizers.Optimizer:
    """Returns the optimizer of a fine-tuning model.

    Args:
        config: hyperparameters.
        model: model to train.
        num_train_steps: length of the learning-rate schedule.
    """
    schedule = WarmupPolynomialDecay(
        learning_rate=config.learning_rate,
        num_train_steps=num_train_steps,
        warmup_proportion=config.warmup_proportion,
        power=config.lr_decay_power,
    )
    rate_factors = None
    if config.layerwise_lr_decay > 0:
        rate_factors = layer_factors(
            [variable.path for variable in model.trainable_variables],
            config.layerwise_lr_decay,
            config.encoder.num_hidden_layers,
            authors_exponents=config.authors_layerwise_lr_decay,
        )
    return make_optimizer(
        config.optimizer,
        schedule,
        weight_decay_rate=config.weight_decay_rate,
        rate_factors=rate_factors,
        precision=config.precision,
    )


def compile_steps(
    config: FinetuningConfig,
    model: FinetuningModel,
    strategy: tf.distribute.Strategy,
    step: tf.Variable,
    seed: tf.Variable,
    num_train_steps: int,
    max_side_by_side: int = 1,
) -> tuple[TrainingSteps, keras.optimizers.Optimizer]:
    """Returns training steps and their optimizer.

    Args:
        config: hyperparameters.
        model: model to train.
        strategy: distribution strategy.
        step: int64 variable, the global step.
        seed: int64 variable, random seed of dropout.
        num_train_steps: length of the learning-rate schedule, which is part of the graph.
        max_side_by_side: see `TrainingSteps`.
    """
    with strategy.scope():
        optimizer = create_optimizer(config, model, num_train_steps)
        optimizer.build(model.trainable_variables)
        steps = TrainingSteps(
            model,
            optimizer,
            strategy,
            step,
            seed=seed,
            clip_norm=config.clip_norm,
            accumulation_steps=config.gradient_accumulation_steps,
            max_side_by_side=max_side_by_side,
            jit_compile=config.jit_compile,
            skip_nonfinite=config.on_nonfinite == SKIP,
        )
    return steps, optimizer
