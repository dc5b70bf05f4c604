"""Pseudo-log-likelihoods against a pass for each text and token, without batches."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from electra_tf.inference.scoring.pseudo_likelihood import create_scorer
from electra_tf.model.heads import MaskedLMHead
from electra_tf.model.layer_functions import bias_activation
from electra_tf.model.randomness import Randomness
from electra_tf.model_builder import build_model
from electra_tf.pretraining_model import PretrainingModel
from electra_tf.util.errors import UserError
from tests.electra_tf.objectives.numpy_losses import at, log_softmax
from tests.electra_tf.test_pretraining_model import SPECIAL

TEXTS = [[2, 7, 8, 9, 3], [2, 3], [2, 30, 3], [2, 11, 12, 13, 14, 15, 16, 17, 3]]


@pytest.fixture
def make_model(make_config):
    def make(**overrides) -> PretrainingModel:
        keras.utils.set_random_seed(0)
        return build_model(make_config(**overrides), SPECIAL)

    return make


def inputs_of(ids: list[int]) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    ids = tf.constant([ids])
    return ids, tf.ones_like(ids), tf.zeros_like(ids)


@pytest.mark.parametrize("overrides", [{}, {"objective": "mlm"}])
@pytest.mark.parametrize("batch_size", [3, 64])
def test_every_token_is_masked_in_turn(make_model, overrides, batch_size):
    model = make_model(**overrides)
    scores = create_scorer(model, "auto", batch_size).score(TEXTS)
    table = model.generator.embeddings.word_embeddings
    for ids, score in zip(TEXTS, scores, strict=True):
        expected = []
        for t in range(1, len(ids) - 1):
            masked = [*ids[:t], SPECIAL.mask, *ids[t + 1 :]]
            sequence = model.generator(*inputs_of(masked)).sequence_output
            logits = model.generator_predictions(sequence, table)
            expected.append(log_softmax(logits)[0, t, ids[t]])
        np.testing.assert_allclose(score.log_probs, expected, rtol=1e-4)
        assert score.total == pytest.approx(sum(expected), rel=1e-4, abs=1e-9)


@pytest.mark.parametrize("objective", ["electra", "electric"])
def test_cores_that_share_a_batch_compute_the_same(make_model, objective):
    model = make_model(objective=objective, precision="mixed_bfloat16")
    alone, shared = (create_scorer(model, "auto", 4, cores).score(TEXTS) for cores in (1, 2))
    for expected, score in zip(alone, shared, strict=True):
        np.testing.assert_allclose(score.log_probs, expected.log_probs, rtol=1e-3)


def test_two_towers_score_a_text_in_one_pass(make_model):
    model = make_model(generator_type="two_tower")
    scores = create_scorer(model, "auto", 3).score(TEXTS)
    for ids, score in zip(TEXTS, scores, strict=True):
        logits = model.two_tower(
            *inputs_of(ids), randomness=Randomness(0, 0, dropout=False)
        ).logits
        expected = at(log_softmax(logits), [ids])[0, 1:-1]
        np.testing.assert_allclose(score.log_probs, expected, rtol=1e-4)


def hidden_of(head: MaskedLMHead, x: tf.Tensor) -> np.ndarray:
    """Returns the input of the output layer: its product with an identity matrix."""
    size = head.norm.gamma.shape[0]
    return head(x, tf.eye(40, size)).numpy().astype(np.float32)[..., :size]


@pytest.mark.parametrize("method", ["mlm", "two_tower", "electric"])
def test_scores_are_float32_from_the_product_of_the_logits_on(make_model, method):
    overrides = {
        "mlm": {},
        "two_tower": {"generator_type": "two_tower"},
        "electric": {"objective": "electric"},
    }[method]
    model = make_model(precision="mixed_bfloat16", **overrides)
    ids = TEXTS[0]
    (score,) = create_scorer(model, method, 3).score([ids])
    rows = [[*ids[:t], SPECIAL.mask, *ids[t + 1 :]] for t in (1, 2, 3)]
    if method == "mlm":
        table = model.generator.embeddings.word_embeddings.numpy()
        states = [
            model.generator(*inputs_of(row)).sequence_output[:, t + 1 : t + 2]
            for t, row in enumerate(rows)
        ]
        hidden = [hidden_of(model.generator_predictions, x)[0, 0] for x in states]
        expected = at(log_softmax(hidden @ table.T), ids[1:4])
    elif method == "two_tower":
        outputs = model.two_tower(*inputs_of(ids), randomness=Randomness(0, 0, dropout=False))
        both = [
            np.roll(outputs.left_to_right, 1, axis=1),
            np.roll(outputs.right_to_left, -1, axis=1),
        ]
        hidden = hidden_of(model.two_tower.head, tf.concat(both, axis=-1))
        logits = hidden @ model.two_tower.word_embeddings.numpy().T
        expected = at(log_softmax(logits), [ids])[0, 1:4]
    else:
        head = model.discriminator_predictions
        x = model.electra(*inputs_of(ids)).sequence_output
        hidden = bias_activation(head.dense.product(x), head.dense.bias, activation="gelu")
        expected = -(hidden.numpy().astype(np.float32) @ head.dense_1.kernel.numpy())[0, 1:4, 0]
    np.testing.assert_allclose(score.log_probs, expected, rtol=1e-6, atol=1e-7)


def test_electric_scores_by_its_energies(make_model):
    model = make_model(objective="electric")
    scores = create_scorer(model, "auto", 3).score(TEXTS)
    for ids, score in zip(TEXTS, scores, strict=True):
        energies = model.discriminator_predictions(model.electra(*inputs_of(ids))[1])
        np.testing.assert_allclose(score.log_probs, -energies[0, 1:-1], atol=1e-5)


def test_electrics_energies_learn_what_the_towers_do_not_know(make_config):
    """The towers see all words alike, and the energies text of two sentences."""
    keras.utils.set_random_seed(0)
    model = build_model(make_config(objective="electric"), SPECIAL)
    words = np.random.default_rng(0).integers(5, 40, (64, 6))
    noise = [[2, *row, 3] for row in words.tolist()]
    text = [[2, 5, 15, 7, 17, 9, 19, 3], [2, 6, 16, 8, 18, 10, 20, 3]]

    def train(term: str, rows: list[list[int]], num_steps: int) -> None:
        rows = tf.constant(rows)
        given = {
            "input_ids": rows,
            "input_mask": tf.ones_like(rows),
            "segment_ids": tf.zeros_like(rows),
        }
        optimizer = keras.optimizers.Adam(1e-2)

        @tf.function(autograph=False)
        def step(index: tf.Tensor) -> None:
            with tf.GradientTape() as tape:
                output = model(given, randomness=Randomness(0, index, dropout=False))
                loss = output.losses[term]
            variables = [v for v in model.trainable_variables if "embeddings/" not in v.path]
            gradients = tape.gradient(loss, [v.value for v in variables])
            reached = [
                pair for pair in zip(gradients, variables, strict=True) if pair[0] is not None
            ]
            optimizer.apply(*zip(*reached, strict=True))

        for index in range(num_steps):
            step(tf.constant(index))

    train("gen", noise, 20)
    train("disc", text * 16, 400)
    scorer = create_scorer(model, "electric", 8)
    wrong = [[2, 5, 15, 7, 30, 9, 19, 3], [2, 6, 16, 25, 18, 10, 20, 3]]
    # Token by token: each row of the training has a noise token, so that the energies of text
    # without any are not determined.
    for score, right, position in zip(
        scorer.score(wrong), scorer.score(text), (3, 2), strict=True
    ):
        assert score.log_probs[position] < right.log_probs[position] - 2
        others = np.delete(score.log_probs, position)
        assert score.log_probs[position] < others.min() - 2


@pytest.mark.parametrize("objective", ["electra", "electric"])
def test_texts_that_the_model_cannot_read_are_refused(make_model, objective):
    model = make_model(objective=objective)
    longest = model.encoder_config.max_position_embeddings
    scorer = create_scorer(model, "auto", 2)
    for ids, message in (
        ([2, *[7] * (longest - 1), 3], f"has {longest + 1} tokens.* at most {longest}"),
        ([2, 40, 3], "ids from 2 to 40, .* 40 tokens"),
        ([2, -1, 3], "ids from -1 to 3"),
        ([], "Text 1 does not start with .CLS."),
        ([7, 8, 9], "Text 1 does not start with .CLS."),
    ):
        with pytest.raises(UserError, match=message):
            scorer.score([TEXTS[0], ids])


def test_arguments_that_are_no_methods_sizes_or_texts_are_refused(make_model):
    model = make_model()
    with pytest.raises(UserError, match=r"--method must be one of auto, mlm, .* not 'mlmm'"):
        create_scorer(model, "mlmm", 8)
    with pytest.raises(UserError, match="batch_size must be at least 1, not 0"):
        create_scorer(model, "mlm", 0)
    with pytest.raises(UserError, match="texts must be a list of lists of ids, not of 2"):
        create_scorer(model, "mlm", 8).score(TEXTS[0])


def test_texts_of_an_iterator_are_scored(make_model):
    """They were read by the checks, and the result was empty."""
    scorer = create_scorer(make_model(), "auto", 1)
    texts = [[2, 7, 8, 3]]
    (expected,) = scorer.score(texts)
    (score,) = scorer.score(iter(texts))
    assert score.total == expected.total != 0


def test_a_method_that_the_model_has_not_is_refused(make_model):
    with pytest.raises(UserError, match=r"--method=electric.*choose mlm"):
        create_scorer(make_model(), "electric", 8)
    with pytest.raises(UserError, match=r"--method=mlm.*choose two_tower or electric"):
        create_scorer(make_model(objective="electric"), "mlm", 8)
    with pytest.raises(UserError, match="as are all other methods"):
        create_scorer(make_model(generator_type="uniform"), "auto", 8)
