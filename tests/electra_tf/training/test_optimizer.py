"""The optimizer against NumPy; its trajectories against the authors' are in tests/reference."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from electra_tf.training.learning_rate import (
    WarmupPolynomialDecay,
    last_learning_rate,
    layer_factors,
)
from electra_tf.training.optimizer import (
    NOT_DECAYED,
    ElectraAdam,
    ElectraLamb,
    make_optimizer,
    reset_moments,
    reset_optimizer,
)


def test_schedule_rises_to_the_peak_and_falls_to_0():
    schedule = WarmupPolynomialDecay(1.0, num_train_steps=100, warmup_steps=10)
    rates = [float(schedule(step)) for step in range(101)]
    assert rates[0] == pytest.approx(0.1 * 0.99)
    assert rates[9] == pytest.approx(0.9)
    assert max(rates) == rates[9]
    assert rates[99] == rates[100] == 0
    assert float(WarmupPolynomialDecay(1.0, 100, 10, first_update=0)(0)) == 0


def test_warmup_is_the_longer_of_steps_and_proportion():
    by_share = WarmupPolynomialDecay(1.0, 100, warmup_steps=5, warmup_proportion=0.2)
    assert float(by_share(9)) == pytest.approx(0.9 * 0.5)
    assert float(WarmupPolynomialDecay(1.0, 100, power=2.0)(49)) == pytest.approx(0.25)
    restored = WarmupPolynomialDecay.from_config(by_share.get_config())
    assert float(restored(9)) == float(by_share(9))


def test_three_updates_equal_numpy():
    start = {"kernel": np.array([[1.0, -2.0]]), "bias": np.array([0.5])}
    variables = [keras.Variable(value.astype(np.float32), name=n) for n, value in start.items()]
    optimizer = ElectraAdam(0.1, weight_decay_rate=0.01)
    optimizer.build(variables)
    expected = dict(start)
    m = dict.fromkeys(start, 0.0)
    v = dict.fromkeys(start, 0.0)
    generator = np.random.default_rng(0)
    for _ in range(3):
        gradients = {n: generator.normal(size=value.shape) for n, value in start.items()}
        optimizer.apply([tf.constant(g, tf.float32) for g in gradients.values()], variables)
        for n, g in gradients.items():
            m[n] = 0.9 * m[n] + 0.1 * g
            v[n] = 0.999 * v[n] + 0.001 * g**2
            decay = 0.01 if n == "kernel" else 0.0
            update = m[n] / (np.sqrt(v[n]) + 1e-6) + decay * expected[n]
            expected[n] = expected[n] - 0.1 * update
    for variable in variables:
        np.testing.assert_allclose(variable, expected[variable.name], rtol=1e-5)


def test_decay_does_not_depend_on_the_name_of_a_task():
    scope = "task_specific/bias_of_layer_norm/dense"
    decayed = (f"{scope}/kernel", "electra/layer_0/qkv/kernel", "kernel")
    kept = (
        f"{scope}/bias",
        "electra/embeddings/LayerNorm/beta",
        "electra/layer_0/attention_LayerNorm/gamma",
        "encoder/layer_norm/gamma",
        "generator_predictions/output_bias",
    )
    assert [path for path in (*decayed, *kept) if NOT_DECAYED.search(path)] == list(kept)


def test_on_one_device_weights_and_moments_stay_where_they_are_in_memory():
    strategy = tf.distribute.OneDeviceStrategy("/cpu:0")
    with strategy.scope():
        variables = [keras.Variable(np.ones([64, 8], np.float32), name=n) for n in "ab"]
        optimizer = ElectraAdam(0.1)
        optimizer.build(variables)
    updated = [*variables, *optimizer.adam_m, *optimizer.adam_v]

    @tf.function(autograph=False)
    def step(gradients):
        optimizer.apply(gradients, variables)

    def addresses() -> list[int]:
        buffers = [memoryview(each.value.read_value()) for each in updated]
        return [np.asarray(buffer).__array_interface__["data"][0] for buffer in buffers]

    gradients = [tf.ones([64, 8])] * 2
    strategy.run(step, args=(gradients,))  # initial values may be in use elsewhere
    before = addresses()
    strategy.run(step, args=(gradients,))
    assert addresses() == before
    assert np.all(variables[1] < 1)
    assert np.all(optimizer.adam_v[1] > 0)


def test_layer_wise_rates():
    paths = [
        "electra/embeddings/word_embeddings",
        "electra/layer_0/output/kernel",
        "electra/layer_11/output/kernel",
        "task_specific/dense/kernel",
    ]
    ours = layer_factors(paths, 0.8, 12)
    assert [ours[p] for p in paths] == pytest.approx([0.8**13, 0.8**12, 0.8, 1.0])
    theirs = layer_factors(paths, 0.8, 12, authors_exponents=True)
    assert [theirs[p] for p in paths] == pytest.approx([0.8**14, 0.8**13, 0.8**2, 1.0])
    with pytest.raises(ValueError, match="pooler"):
        layer_factors(["pooler/kernel"], 0.8, 12)


def test_rate_factors_scale_the_update():
    variables = [keras.Variable(np.ones(2, np.float32), name=n) for n in ("a", "b")]
    optimizer = ElectraAdam(0.1, rate_factors={"a": 0.5, "b": 1.0})
    optimizer.build(variables)
    optimizer.apply([tf.ones(2), tf.ones(2)], variables)
    moved = [1 - float(variable[0]) for variable in variables]
    assert moved[0] == pytest.approx(0.5 * moved[1], rel=1e-4)


def test_two_updates_of_lamb_equal_numpy():
    """You et al. 2020, algorithm 2, with Keras's decay before the update."""
    start = {
        "kernel": np.array([[1.0, -2.0], [0.5, 3.0]]),
        "bias": np.array([0.5, -0.25]),
        "word_embeddings_difference": np.zeros([3, 2]),
    }
    factors = {"kernel": 0.5, "bias": 1.0, "word_embeddings_difference": 1.0}
    decayed = ("kernel", "word_embeddings_difference")
    variables = [keras.Variable(value.astype(np.float32), name=n) for n, value in start.items()]
    optimizer = ElectraLamb(0.1, weight_decay_rate=0.2, rate_factors=factors)
    optimizer.build(variables)
    expected, m, v = dict(start), dict.fromkeys(start, 0.0), dict.fromkeys(start, 0.0)
    generator = np.random.default_rng(0)
    for t in (1, 2):
        gradients = {n: generator.normal(size=value.shape) for n, value in start.items()}
        optimizer.apply([tf.constant(g, tf.float32) for g in gradients.values()], variables)
        for n, g in gradients.items():
            rate = 0.1 * factors[n]
            if n in decayed:
                expected[n] = expected[n] * (1 - 0.2 * rate)
            m[n] = 0.9 * m[n] + 0.1 * g
            v[n] = 0.999 * v[n] + 0.001 * g**2
            update = m[n] / (1 - 0.9**t) / (np.sqrt(v[n] / (1 - 0.999**t)) + 1e-6)
            # What starts at zero would stay near it.
            ratio = 1.0
            if n == "kernel":
                ratio = np.linalg.norm(expected[n]) / np.linalg.norm(update)
            expected[n] = expected[n] - rate * ratio * update
    for variable in variables:
        np.testing.assert_allclose(variable, expected[variable.name], rtol=1e-4)


def test_the_last_update_is_told_by_its_norm_and_that_of_the_weights():
    start = {"kernel": np.float32([[1.0, -2.0]]), "bias": np.float32([0.5])}
    start["still"] = np.float32([3.0])
    factors = {"kernel": 0.5, "bias": 1.0, "still": 1.0}
    gradients = [tf.constant([[2.0, -1.0]]), tf.constant([4.0]), tf.constant([0.0])]
    for make in (ElectraAdam, ElectraLamb):
        variables = [keras.Variable(value, name=name) for name, value in start.items()]
        optimizer = make(0.1, rate_factors=factors)  # without decay: the update is all
        optimizer.build(variables)
        optimizer.apply(gradients, variables)
        for index, (name, before) in enumerate(start.items()):
            after = variables[index].numpy()
            update, weights = optimizer.last_update(index, tf.constant(0.1))
            assert float(weights) == pytest.approx(np.sum(after**2), rel=1e-6)
            moved = float(np.sum((after - before) ** 2))
            # LAMB's is that of the weights before, of which only the norm after is known.
            exact = make is ElectraAdam or name in ("still", "bias")
            assert float(update) == pytest.approx(moved, rel=1e-4 if exact else 0.3, abs=1e-12)


def test_moments_alone_are_reset_in_a_stage():
    variable = keras.Variable(np.ones(3, np.float32), name="kernel")
    optimizer = make_optimizer("adam", WarmupPolynomialDecay(0.1, 10), weight_decay_rate=0.0)
    optimizer.build([variable])
    optimizer.apply([tf.ones(3)], [variable])
    reset_moments(optimizer, first_step=1)
    assert int(optimizer.iterations) == 1
    for moment in (*optimizer.adam_m, *optimizer.adam_v):
        np.testing.assert_array_equal(moment, np.zeros(3))


@pytest.mark.parametrize("precision", ["float32", "mixed_float16"])
@pytest.mark.parametrize("name", ["adam", "lamb"])
def test_a_reset_optimizer_repeats_its_first_update(name, precision):
    schedule = WarmupPolynomialDecay(0.1, num_train_steps=10)
    optimizer = make_optimizer(name, schedule, weight_decay_rate=0.0, precision=precision)
    scaled = isinstance(optimizer, keras.optimizers.LossScaleOptimizer)
    assert scaled == (precision == "mixed_float16")
    variable = keras.Variable(np.ones(3, np.float32), name="kernel")
    optimizer.build([variable])
    results = []
    for _ in range(2):
        variable.assign(np.ones(3))
        for gradient in ([1.0, 2.0, 3.0], [1.0, -1.0, 0.0]):
            optimizer.apply([tf.constant(gradient)], [variable])
        assert last_learning_rate(optimizer) == pytest.approx(0.1 * (1 - 2 / 10))
        results.append(variable.numpy())
        if scaled:
            optimizer.apply([tf.constant([np.inf, 0, 0])], [variable])
            assert float(optimizer.dynamic_scale) == 2**14
        reset_optimizer(optimizer)
    np.testing.assert_array_equal(*results)
    assert not np.allclose(results[0], 1)


@pytest.mark.parametrize("optimizer", [ElectraAdam, ElectraLamb])
def test_optimizers_are_made_again_from_their_configuration(optimizer):
    made = optimizer(0.25, weight_decay_rate=0.01, rate_factors={"kernel": 0.5})
    again = optimizer.from_config(made.get_config())
    assert again.get_config() == made.get_config()
    assert (again.weight_decay_rate, again.rate_factors) == (0.01, {"kernel": 0.5})
    assert float(again.learning_rate) == 0.25
    variable = keras.Variable(np.ones([2], np.float32), name="kernel")
    again.build([variable])
    again.build([variable])  # moments are made once
    assert len(again.variables) == 4  # with iterations and learning rate


def test_variables_of_a_layer_updated_at_once_are_updated_as_one_by_one():
    paths = ["e/layer_0/kernel", "e/layer_0/bias", "e/layer_1/kernel", "e/embeddings/words"]
    factors = dict(zip(paths, (0.25, 0.5, 0.75, 1.0), strict=True))
    gradients = np.random.default_rng(0).normal(size=[2, len(paths), 3]).astype(np.float32)

    def updated(strategy: tf.distribute.Strategy) -> list[np.ndarray]:
        with strategy.scope():
            variables = [keras.Variable(np.ones(3, np.float32), name="v") for _ in paths]
            for variable, path in zip(variables, paths, strict=True):
                variable._path = path
            optimizer = ElectraAdam(0.1, weight_decay_rate=0.5, rate_factors=factors)
            optimizer.build(variables)
        for each in gradients:
            strategy.run(lambda g: optimizer.apply(tf.unstack(g), variables), args=(each,))
        return [x.numpy() for x in (*variables, *optimizer.adam_m, *optimizer.adam_v)]

    together = updated(tf.distribute.OneDeviceStrategy("/CPU:0"))
    alone = updated(tf.distribute.get_strategy())
    for pair in zip(together, alone, strict=True):
        np.testing.assert_allclose(*pair, rtol=1e-6)
