"""Linear schedules: values worked out by hand, and the settings that have none."""

import pytest
import tensorflow as tf

from electra_tf.model.randomness import Randomness
from electra_tf.model.schedules import mask_prob_of, temperature_of

SCHEDULES = {
    mask_prob_of: ("mask_prob", "mask_prob_end", 0.15, 0.4),
    temperature_of: ("temperature", "temperature_end", 1.0, 0.5),
}


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(
    ("step", "done"), [(0, 0.0), (5, 0.25), (10, 0.5), (20, 1.0), (21, 1.0), (1000, 1.0)]
)
def test_the_value_is_proportional_to_the_steps_done(make_config, schedule, step, done):
    start_name, end_name, start, end = SCHEDULES[schedule]
    config = make_config(num_train_steps=20, **{start_name: start, end_name: end})
    value = schedule(config, Randomness(0, step))
    assert value.dtype == tf.float32
    assert float(value) == pytest.approx((1 - done) * start + done * end, rel=1e-6)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_an_evaluation_has_the_first_value(make_config, schedule):
    start_name, end_name, start, end = SCHEDULES[schedule]
    config = make_config(num_train_steps=20, **{start_name: start, end_name: end})
    assert schedule(config, Randomness(0, 15, dropout=False)) == start


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_without_an_end_the_value_is_a_number(make_config, schedule):
    start_name, _, start, _ = SCHEDULES[schedule]
    value = schedule(make_config(num_train_steps=20, **{start_name: start}), Randomness(0, 15))
    assert value == start
    assert isinstance(value, float)
