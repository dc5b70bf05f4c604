"""Losses of a batch."""

import pytest
import tensorflow as tf

from electra_tf.model.batch_types import LossTerm, PretrainingOutput, PretrainInputs


def test_the_total_is_the_objective():
    loss, tokens = tf.constant(2.0), tf.constant(5.0)
    terms = {
        "mean": LossTerm(loss, coefficient=3.0, weight=tokens),
        "sum": LossTerm(loss, coefficient=0.5, weight=tokens, summed=True),
    }
    empty = tf.zeros([0, 0], tf.int32)
    losses = PretrainingOutput(terms, PretrainInputs(empty, empty, empty)).losses
    assert {name: float(value) for name, value in losses.items()} == {
        "total": 3 * 2 + 0.5 * 2 * 5,
        "mean": 2,
        "sum": 2,
    }


def test_no_term_is_called_like_the_objective():
    terms = {"total": LossTerm(tf.constant(2.0), coefficient=1.0, weight=tf.constant(5.0))}
    empty = tf.zeros([0, 0], tf.int32)
    output = PretrainingOutput(terms, PretrainInputs(empty, empty, empty))
    with pytest.raises(ValueError, match='term "total" has the name of the objective'):
        _ = output.losses
