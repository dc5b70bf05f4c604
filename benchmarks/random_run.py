"""A pre-training run on random full rows: the step of `run_pretraining.py` without files.

TensorFlow is imported by the functions, for processes that want the constants alone.
"""

import dataclasses
from typing import Any

from electra_tf.config.pretraining import PretrainingConfig

# Ids of the published BERT vocabulary, whose words begin about 1000.
SPECIAL = {"cls": 101, "sep": 102, "mask": 103, "first_ordinary": 1000}


@dataclasses.dataclass(frozen=True)
class RandomRun:
    """A model with its optimizer, its compiled steps and an endless iterator of batches.

    `step` is the variable that counts the steps, `seed` that of masking, sampling and dropout.
    """

    strategy: Any
    model: Any
    optimizer: Any
    steps: Any
    step: Any
    seed: int
    iterator: Any


def create_run(
    config: PretrainingConfig,
    *,
    kernel_capability: int | None = None,
    max_side_by_side: int = 1,
) -> RandomRun:
    """Returns a run from random weights; nothing is read from or written to disk.

    Args:
        config: of the model, its batches and the step.
        kernel_capability, max_side_by_side: see `TrainingSteps`.
    """
    import keras
    import tensorflow as tf

    from electra_tf.model.batch_types import SpecialTokenIds
    from electra_tf.model_builder import build_model
    from electra_tf.pretraining_optimizer import create_optimizer
    from electra_tf.training.distribution.strategies import create_strategy, iterate

    keras.utils.set_random_seed(config.seed)
    strategy = create_strategy(config)
    with strategy.scope():
        special = [SPECIAL[name] for name in SpecialTokenIds._fields]
        model = build_model(config, SpecialTokenIds(*special))
        optimizer = create_optimizer(config, model)
        optimizer.build(model.trainable_variables)
        step = tf.Variable(0, dtype=tf.int64, trainable=False)
        parts = model, optimizer, strategy, step
        steps = _create_steps(config, *parts, kernel_capability, max_side_by_side)
    dataset = strategy.experimental_distribute_dataset(random_batches(config))
    return RandomRun(strategy, model, optimizer, steps, step, config.seed, iterate(dataset))


def without_kernels(run: RandomRun, config: PretrainingConfig) -> RandomRun:
    """Returns the run, with steps that have none of Triton's kernels."""
    parts = run.model, run.optimizer, run.strategy, run.step
    with run.strategy.scope():
        return dataclasses.replace(run, steps=_create_steps(config, *parts, None))


def _create_steps(
    config: PretrainingConfig,
    model: Any,
    optimizer: Any,
    strategy: Any,
    step: Any,
    kernel_capability: int | None,
    max_side_by_side: int = 1,
) -> Any:
    from electra_tf.training.step import TrainingSteps

    return TrainingSteps(
        model,
        optimizer,
        strategy,
        step,
        seed=config.seed,
        clip_norm=config.clip_norm,
        accumulation_steps=config.gradient_accumulation_steps,
        max_side_by_side=max_side_by_side,
        jit_compile=config.jit_compile,
        kernel_capability=kernel_capability,
    )


def random_batches(config: PretrainingConfig) -> Any:
    """Returns an endless `tf.data.Dataset` of full rows."""
    import tensorflow as tf

    def features(index: tf.Tensor) -> dict[str, tf.Tensor]:
        ids = tf.random.stateless_uniform(
            [config.train_batch_size, config.max_seq_length - 2],
            seed=[config.seed, index],
            minval=SPECIAL["first_ordinary"],
            maxval=config.vocab_size,
            dtype=tf.int32,
        )
        ids = tf.pad(ids, [[0, 0], [1, 0]], constant_values=SPECIAL["cls"])
        ids = tf.pad(ids, [[0, 0], [0, 1]], constant_values=SPECIAL["sep"])
        mask, segments = tf.ones_like(ids), tf.zeros_like(ids)
        return {"input_ids": ids, "input_mask": mask, "segment_ids": segments}

    return tf.data.Dataset.range(tf.int64.max).map(features).prefetch(tf.data.AUTOTUNE)
