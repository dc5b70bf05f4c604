"""Losses, gradients and weights that are NaN or infinite: stopping, and leaving updates out."""

import types

import keras
import numpy as np
import pytest
import tensorflow as tf

from electra_tf.model import metrics
from electra_tf.model.batch_types import LossTerm
from electra_tf.pretraining.run import _non_finite_error
from electra_tf.training.distribution.strategies import create_strategy
from electra_tf.training.nonfinite import MAX_IN_A_ROW, WeightsCheck, describe_terms
from electra_tf.training.optimizer import make_optimizer
from electra_tf.training.step import TrainingSteps

ROWS = 4
NAN, INF = float("nan"), float("inf")


class Line(keras.Model):
    """Fits w x; its loss is the mean of (w x - 1)^2 over the rows."""

    def __init__(self):
        super().__init__()
        self.w = self.add_weight(shape=(3,), initializer="ones", name="w")

    def prepare(self, features, *, randomness):
        return features

    def term_weights(self, batch):
        return {"line": tf.cast(tf.shape(batch["input_ids"])[0], tf.float32)}

    def forward(self, batch, *, randomness):
        errors = tf.reduce_sum(batch["input_ids"] * self.w, -1) - 1.0
        weight = tf.cast(tf.shape(errors)[0], tf.float32)
        term = LossTerm(tf.reduce_mean(tf.square(errors)), weight, 1.0)
        return types.SimpleNamespace(terms={"line": term})

    def metric_sums(self, output):
        return {}


def start(bad, *, strategy=None, schedule=0.1, precision="float32", name="adam", **options):
    """Returns steps on batches of which those numbered in `bad` contain the value given."""
    strategy = strategy or tf.distribute.get_strategy()
    rows = np.random.default_rng(0).normal(size=(120, ROWS, 3)).astype(np.float32)
    for step, value in bad.items():
        rows[step, -1, 1] = value
    data = tf.data.Dataset.from_tensor_slices({"input_ids": rows.reshape(-1, 3)})
    data = data.batch(ROWS, drop_remainder=True)
    with strategy.scope():
        model = Line()
        decay = keras.optimizers.schedules.PolynomialDecay(schedule, 1000, 0.0)
        optimizer = make_optimizer(name, decay, weight_decay_rate=0.01, precision=precision)
        optimizer.build(model.trainable_variables)
        step = tf.Variable(0, dtype=tf.int64, trainable=False)
        steps = TrainingSteps(
            model, optimizer, strategy, step, seed=1, clip_norm=1.0, **options
        )
    batches = iter(strategy.experimental_distribute_dataset(data))
    return types.SimpleNamespace(
        model=model, optimizer=optimizer, step=step, steps=steps, batches=batches
    )


def state(run):
    return [np.asarray(v) for v in (*run.model.trainable_variables, *run.optimizer.variables)]


@pytest.mark.parametrize(
    ("name", "options", "replicas"),
    [
        ("adam", {}, 1),
        ("lamb", {"accumulation_steps": 2}, 1),
        ("adam", {"accumulation_steps": 2}, 2),
    ],
)
def test_what_is_left_out_has_no_influence(make_config, name, options, replicas):
    strategy = None
    if replicas > 1:
        strategy = create_strategy(make_config(strategy="mirrored", num_virtual_cpus=replicas))

    def make(bad, skips):
        return start(bad, strategy=strategy, name=name, skip_nonfinite=skips, **options)

    plain, skipping = make({}, False), make({}, True)
    for run in (plain, skipping):
        run.steps.run(run.batches, 6)
    for a, b in zip(state(plain), state(skipping), strict=True):
        np.testing.assert_array_equal(a, b)  # bit-identical while all is finite

    run = make({3: NAN, 4: INF}, True)
    run.steps.run(run.batches, 3)
    before = state(run)
    run.steps.read_metrics()
    run.steps.run(run.batches, 2)
    for a, b in zip(before, state(run), strict=True):
        np.testing.assert_array_equal(a, b)
    assert run.steps.non_finite_terms() == run.steps.non_finite_weights() == []
    assert int(run.step.numpy()) == 5
    run.steps.run(run.batches, 2)
    values = metrics.finalize(run.steps.read_metrics())
    assert values["train/skipped_updates"] == 2
    assert np.isfinite(values["train/loss"])  # the mean of the other two
    assert int(run.step.numpy()) == 7
    assert np.any(state(run)[0] != before[0])


def test_by_default_the_first_one_ends_the_run():
    run = start({3: NAN})
    run.steps.run(run.batches, 10)
    assert int(run.step.numpy()) == 4
    assert set(run.steps.non_finite_terms()) >= {"train/loss", "train/gradient_norm"}
    assert run.steps.non_finite_weights()[0].startswith("weights of ")
    assert describe_terms(["train/loss"], skipping=False) == "loss"


def test_too_many_in_a_row_end_the_run():
    bad = dict.fromkeys(range(10, 120), NAN) | {20: 1.0}
    run = start(bad, skip_nonfinite=True)
    run.steps.run(run.batches, 120)
    assert int(run.step.numpy()) == 21 + MAX_IN_A_ROW
    assert "train/loss" in run.steps.non_finite_terms()
    assert run.steps.non_finite_weights() == []
    assert "loss (50 updates in a row)" in describe_terms(["train/loss"], skipping=True)


def test_a_new_start_counts_from_none():
    """Trials share compiled steps: one that ended after so many is no part of the next."""
    run = start(dict.fromkeys(range(MAX_IN_A_ROW + 2), NAN), skip_nonfinite=True)
    run.steps.run(run.batches, MAX_IN_A_ROW)
    assert "train/loss" in run.steps.non_finite_terms()
    run.steps.reset()
    run.steps.run(run.batches, 2)
    assert run.steps.non_finite_terms() == []
    assert int(run.step.numpy()) == MAX_IN_A_ROW + 2
    assert metrics.finalize(run.steps.read_metrics())["train/skipped_updates"] == 2


def test_overflows_of_a_scaled_loss_are_not_counted():
    run = start({3: NAN}, precision="mixed_float16", skip_nonfinite=True)
    run.optimizer.dynamic_scale.assign(2.0**127)
    run.steps.run(run.batches, 1)
    values = metrics.finalize(run.steps.read_metrics())
    assert values["train/skipped_updates"] == 0
    run.optimizer.dynamic_scale.assign(1.0)
    before = state(run)[0]
    run.steps.run(run.batches, 2)
    assert np.any(state(run)[0] != before)
    before = state(run)[0]
    run.steps.run(run.batches, 1)
    np.testing.assert_array_equal(state(run)[0], before)
    assert run.steps.non_finite_terms() == []


def test_finite_updates_that_make_infinite_weights():
    run = start({}, schedule=3e38)
    run.steps.run(run.batches, 1)
    assert run.steps.non_finite_terms() == []
    assert len(run.steps.non_finite_weights()) == 1
    assert run.steps.non_finite_weights()[0].startswith("weights of ")


def test_moments_are_checked():
    run = start({})
    assert run.steps.non_finite_weights() == []
    inner = run.optimizer
    inner.adam_v[0].assign([1.0, NAN, 1.0])
    check = WeightsCheck(run.model.trainable_variables, inner)
    assert check.failed() == ["moments of the optimizer"]


def test_xla(tmp_path):
    run = start({1: NAN}, skip_nonfinite=True, jit_compile=True)
    run.steps.run(run.batches, 3)
    values = metrics.finalize(run.steps.read_metrics())
    assert values["train/skipped_updates"] == 1
    assert np.isfinite(state(run)[0]).all()


def test_errors_name_the_terms_and_what_is_left():
    error = str(_non_finite_error(["gen"], 7, "run/ckpt-5", skipping=False))
    assert error.startswith("Step 7: not finite: gen")
    assert "The last good checkpoint is run/ckpt-5" in error
    assert error.endswith("--on_nonfinite=skip to skip such updates")
    error = str(_non_finite_error(["gen"], 7, None, skipping=True))
    assert "No checkpoint yet" in error
    assert "--on_nonfinite=skip" not in error.partition("check the data")[2]
