"""The profile of a step: its sums, and that its components can be computed."""

import pytest
import tensorflow as tf

from benchmarks import step_components
from benchmarks.matmul_ceiling import Product, summarize_ceiling
from benchmarks.random_run import create_run
from benchmarks.step_components import ROWS, WHOLE, Seconds
from electra_tf.config.pretraining import PretrainingConfig
from electra_tf.flops.counting import model_flops_per_step

NAMES = {row.measured for row in ROWS} | {row.without for row in ROWS if row.without}


def test_differences_and_shares_are_taken_within_a_round():
    rounds = []
    for step, forward, gradient in ((1.0, 0.1, 0.4), (3.0, 0.2, 0.8), (2.0, 0.2, 0.6)):
        times = dict.fromkeys(NAMES, Seconds(0.0, 0.0))
        times[WHOLE] = Seconds(step, 2 * step)
        times["encoder forward"] = Seconds(forward, forward)
        times["encoder gradient"] = Seconds(gradient, 2 * gradient)
        rounds.append(times)
    table = {row["component"]: row for row in step_components.summarize(rounds)}
    backward = table["discriminator's encoder, backward"]
    assert backward["milliseconds"] == pytest.approx(400)
    assert backward["range"] == pytest.approx([300, 600])
    assert backward["cpu_milliseconds"] == pytest.approx(1000)
    assert backward["share"] == pytest.approx(0.2)  # of 0.3, 0.2 and 0.2
    assert table[WHOLE]["share"] == 1


def test_the_step_is_compared_with_products_of_the_same_round():
    config = PretrainingConfig.create(data_dir="unused", model_name="small")
    product = Product(lambda: None, 10**9)
    rounds = [
        {WHOLE: Seconds(step, step), "x": Seconds(alone, alone)}
        for step, alone in ((10.0, 0.01), (20.0, 0.04), (20.0, 0.02))
    ]
    found = summarize_ceiling(rounds, {"x": product}, config)
    step = model_flops_per_step(config) / 1e9
    assert found["step_gigaflops"] == pytest.approx(step / 20)
    assert found["products"]["x"]["gigaflops"] == pytest.approx(50)
    assert found["products"]["x"]["step_over_product"] == pytest.approx(step / 1000)


def test_every_component_of_the_table_is_measured():
    config = PretrainingConfig.create(
        data_dir="unused",
        model_name="tiny",
        vocab_size=1040,
        embedding_size=8,
        model_hparam_overrides={
            "hidden_size": 8,
            "num_hidden_layers": 1,
            "num_attention_heads": 1,
            "intermediate_size": 8,
        },
        generator_hidden_size=1.0,
        max_seq_length=8,
        train_batch_size=2,
    )
    tf.config.run_functions_eagerly(True)
    try:
        components = step_components.create_components(create_run(config), config)
        assert components.keys() >= NAMES
        for name, component in components.items():
            if name != WHOLE:
                assert step_components.measure(component, 1).wall > 0, name
    finally:
        tf.config.run_functions_eagerly(False)
