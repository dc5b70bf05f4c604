"""A batch in parts: their sum, and the loop that makes it."""

import numpy as np
import pytest
import tensorflow as tf

from electra_tf.model.batch_types import PretrainInputs
from electra_tf.training.accumulation import sum_over_parts
from electra_tf.util.errors import UserError


def contribution(part, index):
    return {"sum": tf.reduce_sum(part["x"], axis=0), "index": [index, tf.shape(part["x"])[0]]}


@pytest.mark.parametrize(("num_micro_batches", "side_by_side"), [(3, 1), (1, 3)])
@pytest.mark.parametrize("rows", [6, None], ids=["static", "dynamic"])
def test_parts_are_consecutive_rows_and_are_added_up(rows, num_micro_batches, side_by_side):
    x = np.arange(12, dtype=np.float32).reshape(6, 2)

    @tf.function(input_signature=[tf.TensorSpec([rows, 2])])
    def run(x):
        weighted = sum_over_parts(
            lambda part, index: tf.reduce_sum(part["x"]) * tf.cast(10**index, tf.float32),
            {"x": x},
            num_micro_batches,
            side_by_side,
        )
        return sum_over_parts(contribution, {"x": x}, num_micro_batches, side_by_side), weighted

    sums, weighted = run(x)
    np.testing.assert_array_equal(sums["sum"], x.sum(axis=0))
    assert [int(n) for n in sums["index"]] == [0 + 1 + 2, 2 + 2 + 2]
    assert float(weighted) == x[:2].sum() + 10 * x[2:4].sum() + 100 * x[4:].sum()


def test_micro_batches_have_parts_side_by_side():
    """The index counts through all parts, in the order of the rows."""
    x = np.arange(12, dtype=np.float32)

    @tf.function(autograph=False)
    def run():
        return sum_over_parts(
            lambda part, index: tf.reduce_sum(part) * tf.cast(10**index, tf.float32),
            tf.constant(x),
            3,
            2,
        )

    assert float(run()) == sum(10**i * x[2 * i : 2 * i + 2].sum() for i in range(6))


def test_any_nest_of_tensors_is_split():
    @tf.function(autograph=False)
    def run(inputs):
        return sum_over_parts(
            lambda part, _: [tf.reduce_sum(part[0].input_ids), tf.shape(part[0].input_mask)],
            (inputs,),
            3,
        )

    ids = tf.reshape(tf.range(24), [6, 4])
    masked = tf.ones([6, 2], tf.int32)
    inputs = PretrainInputs(ids, ids, ids, masked, masked, tf.ones([6, 2]))
    total, shapes = run(inputs)
    assert int(total) == sum(range(24))
    np.testing.assert_array_equal(shapes, [3 * 2, 3 * 4])


def test_one_part_is_the_batch_itself():
    sums = sum_over_parts(contribution, {"x": tf.ones([5, 2])}, 1)
    assert [int(n) for n in sums["index"]] == [0, 5]


def test_a_batch_that_cannot_be_split_names_the_flags():
    @tf.function(autograph=False)
    def run():
        return sum_over_parts(contribution, {"x": tf.ones([5, 2])}, 2)

    with pytest.raises(UserError, match=r"--gradient_accumulation_steps=2.*--train_batch_size"):
        run()
