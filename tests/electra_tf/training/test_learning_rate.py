"""Learning-rate schedules and the factors of layers, by hand."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from electra_tf.training.learning_rate import (
    StagedSchedule,
    WarmupPolynomialDecay,
    last_learning_rate,
    layer_factors,
)


@pytest.mark.parametrize("first_update", [0, 1])
@pytest.mark.parametrize(
    ("power", "expected"),
    [
        # 2 * (1 - t / 8) ** power * min(1, t / 4) of t = 0, 1, …
        (1.0, [0, 7 / 16, 3 / 4, 15 / 16, 1, 3 / 4, 1 / 2, 1 / 4, 0, 0]),
        (2.0, [0, 49 / 128, 9 / 16, 75 / 128, 1 / 2, 9 / 32, 1 / 8, 1 / 32, 0, 0]),
    ],
)
def test_decay(first_update, power, expected):
    schedule = WarmupPolynomialDecay(
        2.0, 8, warmup_steps=4, power=power, first_update=first_update
    )
    rates = [float(schedule(step)) for step in range(10 - first_update)]
    assert rates == pytest.approx(expected[first_update:], rel=1e-6)


@pytest.mark.parametrize("power", [0.0, 1.0, 2.0])
@pytest.mark.parametrize("warmup_steps", [0, 1, 300, 500, 2000])
def test_the_peak_is_the_highest_rate(power, warmup_steps):
    schedule = WarmupPolynomialDecay(2.0, 1000, warmup_steps=warmup_steps, power=power)
    rates = schedule(tf.range(-1, 1000))
    assert schedule.peak == pytest.approx(np.max(rates), rel=1e-3)


def test_the_peak_of_a_run_of_one_step_is_within_its_warmup():
    # (1 - t) * t
    assert WarmupPolynomialDecay(1.0, 1, warmup_steps=1).peak == 0.25


def test_defaults_are_linear_without_warmup():
    schedule = WarmupPolynomialDecay(1.0, 4)
    assert [float(schedule(step)) for step in range(5)] == [0.75, 0.5, 0.25, 0.0, 0.0]
    assert schedule.get_config() == {
        "learning_rate": 1.0,
        "num_train_steps": 4,
        "warmup_steps": 0,
        "warmup_proportion": 0.0,
        "power": 1.0,
        "first_update": 1,
    }


def test_a_warmup_of_less_than_a_step():
    schedule = WarmupPolynomialDecay(1.0, 4, warmup_proportion=0.125, first_update=0)
    assert [float(schedule(step)) for step in range(3)] == [0.0, 0.75, 0.5]


def test_a_configuration_makes_the_same_schedule():
    schedule = WarmupPolynomialDecay(0.1, 50, 3, 0.02, 0.5, 0)
    again = WarmupPolynomialDecay.from_config(schedule.get_config())
    assert vars(again) == vars(schedule)


def test_stages_follow_each_other_with_their_own_steps():
    stages = [
        WarmupPolynomialDecay(rate, steps) for rate, steps in ((1.0, 2), (3.0, 3), (8.0, 2))
    ]
    staged = StagedSchedule(stages)
    expected = [0.5, 0.0, 2.0, 1.0, 0.0, 4.0, 0.0]
    assert [float(staged(step)) for step in range(7)] == pytest.approx(expected)
    assert [float(staged(tf.constant(s, tf.int64))) for s in range(7)] == pytest.approx(
        expected
    )
    assert staged.get_config() == {"schedules": stages}
    shorter = StagedSchedule([WarmupPolynomialDecay(1.0, 1), WarmupPolynomialDecay(2.0, 4)])
    assert [float(shorter(step)) for step in range(5)] == [0.0, 1.5, 1.0, 0.5, 0.0]


PATHS = (
    "electra/embeddings/word_embeddings",
    "electra/encoder/layer_0/attention/query",
    "electra/encoder/layer_11/output/kernel",
    "task_specific/a/embeddings/layer_3/kernel",
)


@pytest.mark.parametrize(
    ("authors", "exponents"), [(False, (13, 12, 1, 0)), (True, (14, 13, 2, 0))]
)
def test_exponents_of_layers(authors, exponents):
    factors = layer_factors([*PATHS], 0.5, 12, authors_exponents=authors)
    assert factors == {p: 0.5**e for p, e in zip(PATHS, exponents, strict=True)}
    assert layer_factors([*PATHS], 0.5, 12) == layer_factors([*PATHS], 0.5, 12, False)


@pytest.mark.parametrize("path", ["electra/pooler/kernel", "electra/player_1/kernel"])
def test_a_path_of_no_layer_is_an_error(path):
    with pytest.raises(ValueError, match=f"No learning-rate factor for the variable {path}"):
        layer_factors([path], 0.5, 12)


@pytest.mark.parametrize("scaled", [False, True])
def test_the_last_rate_is_that_of_the_last_update(scaled):
    schedule = WarmupPolynomialDecay(1.0, 4)
    optimizer = inner = keras.optimizers.SGD(schedule)
    if scaled:
        optimizer = keras.optimizers.LossScaleOptimizer(inner)
    variable = keras.Variable(np.zeros(1, np.float32))
    inner.build([variable])
    assert last_learning_rate(optimizer) == 0.75  # before any update, that of the first
    for rate in (0.75, 0.5, 0.25):
        inner.apply([tf.ones(1)])
        assert last_learning_rate(optimizer) == rate
