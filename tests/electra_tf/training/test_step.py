"""The training step: batches in parts, and scaled losses.

`tests/electra_tf/pretraining/test_run.py` has whole runs.
"""

import dataclasses
import types
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from electra_tf.model import metrics
from electra_tf.model.batch_types import SpecialTokenIds
from electra_tf.model.kernels import without_fusion
from electra_tf.model_builder import build_model
from electra_tf.pretraining_model import PretrainingModel
from electra_tf.pretraining_optimizer import create_optimizer
from electra_tf.training.checkpoints.checkpoint_directory import CheckpointDirectory
from electra_tf.training.step import TrainingSteps
from electra_tf.training.variable_groups import group_of

BATCH_SIZE, LENGTH, VOCAB_SIZE = 8, 16, 40
NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}


@dataclasses.dataclass
class Run:
    """A model in training on batches whose rows differ in length."""

    model: PretrainingModel
    optimizer: Any
    steps: TrainingSteps
    step: tf.Variable
    batches: Any

    def weights(self) -> dict[str, np.ndarray]:
        return {variable.path: variable.numpy() for variable in self.model.trainable_variables}

    def train(self, num_steps: int) -> dict[str, float]:
        """Runs steps and returns their metrics."""
        self.steps.run(self.batches, num_steps)
        return metrics.finalize(self.steps.read_metrics())


def batches() -> Any:
    generator = np.random.default_rng(0)
    ids = generator.integers(5, VOCAB_SIZE, (4 * BATCH_SIZE, LENGTH)).astype(np.int32)
    # Parts of a batch have very different numbers of tokens: their means must be weighted.
    lengths = np.where(np.arange(len(ids)) % BATCH_SIZE < 4, 5, LENGTH)
    mask = (np.arange(LENGTH) < lengths[:, None]).astype(np.int32)
    features = {"input_ids": ids * mask, "input_mask": mask, "segment_ids": 0 * mask}
    dataset = tf.data.Dataset.from_tensor_slices(features)
    return iter(dataset.batch(BATCH_SIZE, drop_remainder=True).repeat())


@pytest.fixture(autouse=True)
def plain():
    """Plain operations compile faster, and compute the same: see `model/test_kernels.py`."""
    with without_fusion():
        yield


@pytest.fixture
def start(make_config):
    def start(accumulation_steps: int = 1, **overrides) -> Run:
        base = make_config()
        config = make_config(
            train_batch_size=BATCH_SIZE,
            model_hparam_overrides={**base.model_hparam_overrides, **NO_DROPOUT},
            gradient_accumulation_steps=accumulation_steps,
            **overrides,
        )
        keras.utils.set_random_seed(0)
        model = build_model(config, SpecialTokenIds(2, 3, 4))
        optimizer = create_optimizer(config, model)
        optimizer.build(model.trainable_variables)
        step = tf.Variable(0, dtype=tf.int64, trainable=False)
        steps = TrainingSteps(
            model,
            optimizer,
            tf.distribute.get_strategy(),
            step,
            seed=config.seed,
            clip_norm=config.clip_norm,
            accumulation_steps=accumulation_steps,
        )
        return Run(model, optimizer, steps, step, batches())

    return start


def assert_close(first: dict, second: dict, tolerance: float) -> None:
    assert first.keys() == second.keys()
    for name, value in first.items():
        np.testing.assert_allclose(value, second[name], atol=tolerance, err_msg=name)


@pytest.mark.parametrize("electra_objective", [True, False], ids=["electra", "mlm"])
def test_parts_of_a_batch_make_the_update_of_the_whole(start, electra_objective):
    whole = start(electra_objective=electra_objective)
    parts = start(4, electra_objective=electra_objective)
    initial = whole.weights()
    expected, actual = whole.train(5), parts.train(5)
    assert expected.keys() == actual.keys()
    for name, value in expected.items():
        assert actual[name] == pytest.approx(value, rel=1e-4, nan_ok=True), name
    # The norm is that of the whole batch's gradient, and it was clipped by it.
    assert expected["train/gradient_norm"] > 1.1  # the limit is 1
    assert_close(parts.weights(), whole.weights(), 1e-5)
    moved = [np.max(np.abs(initial[name] - w)) for name, w in whole.weights().items()]
    assert min(moved) > 1e-4


def test_an_overflow_skips_the_step_and_halves_the_scale(start, tmp_path):
    run = start(2, precision="mixed_float16", learning_rate=0.1)
    scaler = run.optimizer
    assert float(scaler.dynamic_scale) == 2**15
    scaler.dynamic_scale.assign(2.0**10)  # the gradients of the first step fit
    values = run.train(1)
    assert values["train/loss_scale"] == 2**10
    assert 0.1 < values["train/gradient_norm"] < 100  # not times the scale

    before = run.weights()
    scaler.dynamic_scale.assign(2.0**126)
    values = run.train(1)
    assert float(scaler.dynamic_scale) == 2.0**125
    assert int(scaler.iterations) == 1
    assert int(run.step) == 2
    assert run.steps.non_finite_terms() == []
    assert np.isnan(values["train/loss"])  # a mean over no step
    assert_close(run.weights(), before, 0)

    checkpoints = CheckpointDirectory(str(tmp_path), run.model, run.step, scaler)
    checkpoints.save()
    scaler.dynamic_scale.assign(4.0)
    scaler.step_counter.assign(1999)
    run.train(1)
    assert float(scaler.dynamic_scale) == 8.0
    assert any(np.any(run.weights()[name] != w) for name, w in before.items())
    checkpoints.restore_latest()
    assert float(scaler.dynamic_scale) == 2.0**125

    # What is not finite without any scaling is a divergence: of the three steps from the
    # restored one, 2, on, the first lowers the scale to 1 and the second ends the run.
    scaler.dynamic_scale.assign(2.0)
    table = run.model.electra.embeddings.word_embeddings
    table.assign(tf.fill(table.shape, np.float32("nan")))
    run.train(3)
    assert "train/gradient_norm" in run.steps.non_finite_terms()
    assert int(run.step) == 4


def test_learned_masking_resumes_with_the_masks_it_would_have_drawn(start, tmp_path):
    run, resumed = start(masking="learned"), start(masking="learned")
    run.train(2)
    CheckpointDirectory(str(tmp_path), run.model, run.step, run.optimizer).save()
    expected = run.train(2)
    assert CheckpointDirectory(
        str(tmp_path), resumed.model, resumed.step, resumed.optimizer
    ).restore_latest()
    for _ in range(2):
        next(resumed.batches)
    assert resumed.train(2) == pytest.approx(expected, abs=0, nan_ok=True)
    assert "masking_head/dense/kernel" in run.weights()
    assert_close(resumed.weights(), run.weights(), 0)


@pytest.mark.parametrize("optimizer", ["adam", "lamb"])
def test_norms_by_layer_are_those_of_the_gradients_and_updates(start, optimizer):
    run = start(optimizer=optimizer, weight_decay_rate=0.0, learning_rate=0.01)
    run.train(3)
    before = run.weights()
    values = run.train(1)
    norms = {
        name.removeprefix("train/gradient_norm/"): value
        for name, value in values.items()
        if name.startswith("train/gradient_norm/")
    }
    assert {"electra/embeddings", "electra/layer_0", "generator/layer_0"} <= norms.keys()
    assert "discriminator_predictions" in norms
    assert np.linalg.norm(list(norms.values())) == pytest.approx(
        values["train/gradient_norm"], rel=1e-5
    )
    after = run.weights()
    for group in norms:
        paths = [path for path in after if group_of(path) == group]
        change, weights = (
            np.linalg.norm(np.concatenate([each.ravel() for each in arrays]))
            for arrays in (
                [after[path] - before[path] for path in paths],
                [after[path] for path in paths],
            )
        )
        assert values[f"train/update_ratio/{group}"] == pytest.approx(
            change / weights, rel=0.03
        ), group
    assert run.steps.non_finite_terms() == []


def test_variables_of_the_same_path_are_refused():
    """Gradients are known by the paths of their variables: one would train both."""
    variables = [keras.Variable([0.0], name=name) for name in ("bias", "kernel", "bias")]
    model = types.SimpleNamespace(trainable_variables=variables)
    strategy, step = tf.distribute.get_strategy(), tf.Variable(0, dtype=tf.int64)
    with pytest.raises(ValueError, match="several variables are called bias: give"):
        TrainingSteps(model, None, strategy, step, seed=0, clip_norm=1.0)


def test_variables_that_the_forward_pass_creates_are_refused(start, monkeypatch):
    """They would be neither trained nor restored; layers without variables may be unbuilt."""
    run = start()
    model, detection_losses = run.model, type(run.model).detection_losses
    model.add, model.more = keras.layers.Add(), keras.layers.Dense(1, name="more")

    def adds(labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
        return detection_losses(model, labels, model.add([logits, logits]))

    def creates(labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
        return detection_losses(model, labels, model.more(logits[..., None])[..., 0])

    monkeypatch.setattr(model, "detection_losses", creates)
    with pytest.raises(ValueError, match=r"creates the variables .*more/kernel"):
        run.train(1)
    run = start()
    model = run.model
    model.add = keras.layers.Add()
    monkeypatch.setattr(model, "detection_losses", adds)
    run.train(1)


def test_every_loss_term_needs_its_number_of_tokens(start, monkeypatch):
    """Also where it is not used, because the model fails on several devices."""
    run = start()
    weights = run.model.term_weights

    def without_disc(batch: Any) -> dict[str, tf.Tensor]:
        return {name: value for name, value in weights(batch).items() if name != "disc"}

    monkeypatch.setattr(run.model, "term_weights", without_disc)
    with pytest.raises(ValueError, match="term_weights lacks the loss term disc"):
        run.train(1)
