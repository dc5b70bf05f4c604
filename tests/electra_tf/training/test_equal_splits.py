"""However a batch is split, the updates are the same.

It is split into micro-batches, over replicas, and into parts that share the cores of a CPU.

The rows differ in length, so that means over parts have to be weighted by their tokens. Runs of
whole programs are in `tests/electra_tf/test_distributed_pretraining.py`.
"""

from typing import Any, NamedTuple

import keras
import numpy as np
import pytest
import tensorflow as tf

from electra_tf.config.pretraining import PretrainingConfig
from electra_tf.masking.base import TokenStatistics
from electra_tf.model import metrics
from electra_tf.model.batch_types import SpecialTokenIds
from electra_tf.model.kernels import without_fusion
from electra_tf.model_builder import build_model
from electra_tf.pretraining_optimizer import create_optimizer
from electra_tf.training.distribution.strategies import create_strategy
from electra_tf.training.step import TrainingSteps

BATCH_SIZE, VOCAB_SIZE, STEPS_PER_LENGTH = 8, 40, 2
# A quarter of the words have several pieces.
TOKENS = TokenStatistics(np.arange(VOCAB_SIZE) >= 30, np.arange(VOCAB_SIZE, dtype=np.int64))
SHAPE = {
    "num_hidden_layers": 1,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
}
SPLIT = {"strategy": "mirrored", "num_virtual_cpus": 2, "gradient_accumulation_steps": 2}
# At the usual 2**15, the whole batch overflows and its parts, which sum fewer tokens, do not.
FLOAT16_SCALE = 2.0**8


class Case(NamedTuple):
    """Hyperparameters, lengths in training order, and the relative tolerance of an update."""

    overrides: dict[str, Any]
    lengths: tuple[int, ...] = (16,)
    tolerance: float = 1e-3


CASES = {
    "lamb, whole words": Case({"optimizer": "lamb", "masking": "whole_word"}),
    "float16, spans": Case({"precision": "mixed_float16", "masking": "span"}, tolerance=0.01),
    "two lengths, learned masking, argmax, es": Case(
        {
            "length_curriculum": (8,),
            "masking": "learned",
            "replacement": "argmax",
            "embedding_sharing": "es",
        },
        (8, 16),
    ),
}


class Result(NamedTuple):
    """Weights before and after training by path, and the metrics of each length."""

    before: dict[str, np.ndarray]
    after: dict[str, np.ndarray]
    values: list[dict[str, float]]

    def update(self) -> np.ndarray:
        return np.concatenate([(self.after[p] - self.before[p]).ravel() for p in self.before])


def rows(length: int) -> dict[str, np.ndarray]:
    """Returns batches whose first halves are short."""
    generator = np.random.default_rng(length)
    ids = generator.integers(5, VOCAB_SIZE, (STEPS_PER_LENGTH * BATCH_SIZE, length))
    lengths = np.where(np.arange(len(ids)) % BATCH_SIZE < 4, length // 3, length)
    mask = (np.arange(length) < lengths[:, None]).astype(np.int32)
    return {
        "input_ids": ids.astype(np.int32) * mask,
        "input_mask": mask,
        "segment_ids": 0 * mask,
    }


def train(
    config: PretrainingConfig, lengths: tuple[int, ...], max_side_by_side: int = 1
) -> Result:
    strategy = create_strategy(config)
    keras.utils.set_random_seed(0)
    with strategy.scope():
        model = build_model(config, SpecialTokenIds(2, 3, 4), TOKENS)
        optimizer = create_optimizer(config, model)
        optimizer.build(model.trainable_variables)
        if isinstance(optimizer, keras.optimizers.LossScaleOptimizer):
            optimizer.dynamic_scale.assign(FLOAT16_SCALE)
        steps = TrainingSteps(
            model,
            optimizer,
            strategy,
            tf.Variable(0, dtype=tf.int64, trainable=False),
            seed=config.seed,
            clip_norm=config.clip_norm,
            accumulation_steps=config.gradient_accumulation_steps,
            max_side_by_side=max_side_by_side,
        )
    before = {variable.path: variable.numpy() for variable in model.trainable_variables}
    values = []
    for length in lengths:
        # Replica after replica, each with its rows of the batch.
        per_replica = BATCH_SIZE // strategy.num_replicas_in_sync
        dataset = tf.data.Dataset.from_tensor_slices(rows(length))
        dataset = dataset.batch(per_replica, drop_remainder=True)
        batches = strategy.distribute_datasets_from_function(lambda _, data=dataset: data)
        steps.run(iter(batches), STEPS_PER_LENGTH)
        values.append(metrics.finalize(steps.read_metrics()))
    after = {variable.path: variable.numpy() for variable in model.trainable_variables}
    return Result(before, after, values)


@pytest.fixture
def run(make_config):
    def run(case: str, max_side_by_side: int = 1, **overrides) -> Result:
        shape = make_config().model_hparam_overrides
        config = make_config(
            train_batch_size=BATCH_SIZE,
            num_warmup_steps=0,
            num_train_steps=20,
            mask_prob=0.25,
            clip_norm=0.5,  # below every norm of these steps
            model_hparam_overrides={**shape, **SHAPE},
            **CASES[case].overrides,
            **overrides,
        )
        with without_fusion():  # plain operations compile faster
            return train(config, CASES[case].lengths, max_side_by_side)

    return run


def test_parts_that_share_the_cores_make_the_update_of_the_whole(run):
    case = next(iter(CASES))
    whole = run(case).update()
    for micro_batches in (1, 2):
        parts = run(case, 2, gradient_accumulation_steps=micro_batches).update()
        assert np.linalg.norm(parts - whole) < 1e-3 * np.linalg.norm(whole)
        assert np.any(parts != whole)  # added up in another order


@pytest.mark.parametrize("case", CASES)
def test_replicas_and_micro_batches_make_the_update_of_the_whole(run, case):
    whole, parts = run(case), run(case, **SPLIT)
    expected, tolerance = whole.update(), CASES[case].tolerance
    assert np.linalg.norm(expected) > 0.02
    error = np.linalg.norm(parts.update() - expected) / np.linalg.norm(expected)
    assert error < tolerance
    for ours, theirs in zip(parts.values, whole.values, strict=True):
        assert ours.keys() == theirs.keys()
        assert theirs["train/gradient_norm"] > 0.5
        for name, value in theirs.items():
            assert ours[name] == pytest.approx(value, rel=tolerance, nan_ok=True), name
