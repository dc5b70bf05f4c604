"""The span-boundary objective: the ends of a run, and the predictions from them."""

import math

import numpy as np
import pytest
import tensorflow as tf

from electra_tf.generators.span_boundary import run_boundaries
from tests.electra_tf.objectives.numpy_losses import (
    WITHOUT_DROPOUT,
    log_softmax,
    masked_mask,
    original_ids,
)
from tests.electra_tf.test_pretraining_model import features, gradients, is_zero

pytestmark = pytest.mark.usefixtures("unfused")


def test_the_boundaries_of_a_run_are_the_unmasked_tokens_next_to_it(make_model):
    model = make_model(span_boundary_weight=1.0, max_predictions_per_seq=5)
    positions = tf.constant([[4, 5, 6, 0, 0], [1, 3, 4, 14, 0], [2, 0, 0, 0, 0]])
    inputs = model.prepare(features(), randomness=WITHOUT_DROPOUT)._replace(
        masked_lm_positions=positions,
        masked_lm_weights=tf.cast(positions > 0, tf.float32),
    )
    left, right = run_boundaries(inputs)
    np.testing.assert_array_equal(left[0, :3], [3, 3, 3])
    np.testing.assert_array_equal(right[0, :3], [7, 7, 7])
    np.testing.assert_array_equal(left[1, :4], [0, 2, 2, 13])
    np.testing.assert_array_equal(right[1, :4], [2, 5, 5, 15])


def test_the_span_boundary_objective_predicts_from_both_ends_of_a_run(make_model):
    """y = f(x_{s-1}, x_{e+1}, p_{i-s+1}), in NumPy, with weights far from symmetric ones."""
    model = make_model(
        span_boundary_weight=0.5,
        masking="span",
        mask_prob=0.4,
        max_predictions_per_seq=8,
        embedding_sharing="none",
    )
    head = model.generator_span_boundary
    generator = np.random.default_rng(0)
    # At these scales, every input of the head and every token makes a difference.
    for variable in head.trainable_variables:
        variable.assign(generator.normal(0, 0.5, variable.shape))
    head.place_embeddings.assign(generator.normal(0, 0.1, head.place_embeddings.shape))
    words = model.generator.trainable_variables[0]
    assert words.path.endswith("word_embeddings")
    words.assign(generator.normal(0, 1, words.shape))
    output = model(features(), randomness=WITHOUT_DROPOUT)
    inputs = output.inputs
    sequence = model.generator(
        inputs.input_ids, inputs.input_mask, inputs.segment_ids
    ).sequence_output.numpy()
    masked = masked_mask(inputs) > 0

    def boundary_logits(row: int, position: int) -> np.ndarray:
        start = end = position
        while masked[row, start]:
            start -= 1
        while masked[row, end]:
            end += 1
        place = head.place_embeddings.numpy()[position - start - 1]
        x = np.concatenate([sequence[row, start], sequence[row, end], place])
        for dense, norm in ((head.dense, head.norm), (head.dense_1, head.norm_1)):
            x = x @ dense.kernel.numpy() + dense.bias.numpy()
            x = x * (1 + np.vectorize(math.erf)(x / math.sqrt(2))) / 2
            x = (x - x.mean()) / np.sqrt(x.var() + model.generator.config.layer_norm_epsilon)
            x = x * norm.gamma.numpy() + norm.beta.numpy()
        table = model.generator.embeddings.word_embeddings.numpy()
        return table @ x + head.output_bias.numpy()

    ids = original_ids(inputs)
    places = np.argwhere(masked)
    losses = [-log_softmax(boundary_logits(*place))[ids[tuple(place)]] for place in places]
    assert len(losses) > 8
    assert any(masked[row, position + 1] for row, position in places)  # a run of several
    assert float(output.losses["span_boundary"]) == pytest.approx(np.mean(losses), rel=1e-4)
    term = output.terms["span_boundary"]
    assert (term.coefficient, float(term.weight)) == (0.5, len(losses))
    of_boundary = gradients(model, "span_boundary")
    assert not is_zero(of_boundary["generator_span_boundary/place_embeddings"])
    assert is_zero(of_boundary["generator_predictions/dense/kernel"])
