"""Functions that graphs call: kernels that update variables, parts of rows, graph passes."""

import numpy as np
import pytest
import tensorflow as tf

from electra_tf.model.compilation import (
    compile_ahead,
    compiled_by_xla,
    few_graph_passes,
    side_by_side,
)


@compiled_by_xla
def _add(variables, values):
    """Adds values to variables, and returns the first."""
    for variable, value in zip(variables, values, strict=True):
        variable.assign(variable + value, read_value=False)
    return values[0]


def test_a_kernel_updates_the_variables_that_it_is_given():
    # All of one shape, so that one might be taken for another.
    variables = [tf.Variable([float(i)] * 3) for i in range(4)]
    one, ten = tf.ones(3), tf.fill([3], 10.0)

    @tf.function(autograph=False)
    def function(values):
        _add(variables[:2], values)
        _add(variables[2:], values)

    assert compile_ahead(function, [one, ten]) == 1
    assert [float(variable[0]) for variable in variables] == [0, 1, 2, 3]
    function([one, ten])
    assert [float(variable[2]) for variable in variables] == [1, 11, 3, 13]
    assert compile_ahead(function, [one, ten]) == 0
    _add(variables[:2], [one, ten])
    assert [float(variable[2]) for variable in variables] == [2, 21, 3, 13]


@pytest.mark.parametrize(("num_rows", "parts"), [(6, 3), (4, 2), (5, 1), (1, 1)])
def test_the_rows_keep_their_order(num_rows, parts):
    sizes = []

    def function(rows):
        sizes.append(rows["x"].shape[0])
        return {"double": 2 * rows["x"], "sums": (tf.reduce_sum(rows["y"], axis=1),)}

    rows = {
        "x": np.arange(num_rows, dtype=np.float32),
        "y": np.arange(3.0 * num_rows, dtype=np.float32).reshape(num_rows, 3),
    }
    outputs = tf.function(side_by_side(function, 3), autograph=False)(rows)
    assert set(sizes) == {num_rows // parts}
    np.testing.assert_array_equal(outputs["double"], 2 * rows["x"])
    np.testing.assert_array_equal(outputs["sums"][0], rows["y"].sum(axis=1))


def test_rows_whose_number_is_not_known_are_not_divided():
    call = tf.function(
        side_by_side(lambda x: x + 1.0, 2),
        input_signature=[tf.TensorSpec([None], tf.float32)],
        autograph=False,
    )
    for num_rows in (1, 4):
        np.testing.assert_array_equal(call(tf.zeros(num_rows)), np.ones(num_rows))


def test_graph_passes_are_restored():
    before = tf.config.optimizer.get_experimental_options()
    tf.config.optimizer.set_experimental_options({"remapping": False})
    try:
        of_user = tf.config.optimizer.get_experimental_options()
        with few_graph_passes():
            inside = tf.config.optimizer.get_experimental_options()
        assert tf.config.optimizer.get_experimental_options() == of_user
    finally:
        tf.config.optimizer.set_experimental_options({"remapping": before.get("remapping")})
    assert inside["constant_folding"] is inside["remapping"] is False
    assert tf.config.optimizer.get_experimental_options() == before
