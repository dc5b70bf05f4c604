"""The pre-training model: sharing modes, where gradients go, and the losses in NumPy."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from electra_tf.model.batch_types import SpecialTokenIds
from electra_tf.model.randomness import Randomness
from electra_tf.model_builder import build_model, create_model
from electra_tf.pretraining.evaluation import HeldOutEvaluator
from electra_tf.pretraining_model import PretrainingModel
from electra_tf.text.vocabulary import load_vocabulary
from electra_tf.util.errors import UserError

SPECIAL = SpecialTokenIds(cls=2, sep=3, mask=4)
EMBEDDING_NAMES = ("word_embeddings", "position_embeddings", "token_type_embeddings")


@pytest.fixture
def make_model(make_config):
    def make(**overrides) -> PretrainingModel:
        keras.utils.set_random_seed(0)
        return build_model(make_config(**overrides), SPECIAL)

    return make


def features(batch: int = 3, length: int = 16) -> dict[str, tf.Tensor]:
    ids = np.random.default_rng(1).integers(5, 40, (batch, length)).astype(np.int32)
    ids[:, 0], ids[:, -1] = 2, 3
    mask = np.ones_like(ids)
    mask[0, 10:] = 0
    ids *= mask
    return {
        "input_ids": tf.constant(ids),
        "input_mask": tf.constant(mask),
        "segment_ids": tf.zeros_like(ids),
    }


def gradients(model: PretrainingModel, term: str) -> dict[str, tf.Tensor | None]:
    with tf.GradientTape() as tape:
        output = model(features(), randomness=Randomness(0, 0))
        loss = output.losses[term]
    variables = model.trainable_variables
    return {
        variable.path: gradient
        for variable, gradient in zip(
            variables, tape.gradient(loss, [v.value for v in variables]), strict=True
        )
    }


def is_zero(gradient) -> bool:
    return gradient is None or not np.any(tf.convert_to_tensor(gradient).numpy())


def test_the_discriminator_trains_the_generator_through_tied_embeddings_alone(make_model):
    model = make_model()
    of_disc, of_gen = gradients(model, "disc"), gradients(model, "gen")
    for path in of_disc:
        tied = "/embeddings/" in path
        assert is_zero(of_disc[path]) == (path.startswith("generator") and not tied), path
        assert is_zero(of_gen[path]) == (not path.startswith("generator") and not tied), path


def test_untied_embeddings_separate_the_two_models(make_model):
    model = make_model(untied_generator_embeddings=True)
    of_disc, of_gen = gradients(model, "disc"), gradients(model, "gen")
    for path in of_disc:
        assert is_zero(of_disc[path]) != is_zero(of_gen[path]), path
    assert model.generator.embeddings.word_embeddings.shape == (40, 8)
    assert model.generator.embeddings is not model.electra.embeddings


def test_sharing_modes_hold_what_they_say(make_model):
    tied = make_model()
    assert tied.generator.embeddings is tied.electra.embeddings
    assert tied.generator is not tied.electra
    all_tied = make_model(untied_generator=False)
    assert all_tied.generator is all_tied.electra
    uniform = make_model(uniform_generator=True)
    assert uniform.generator is None
    assert not hasattr(uniform, "generator_predictions")
    plain = make_model(electra_objective=False)
    assert plain.generator is plain.electra
    assert not hasattr(plain, "discriminator_predictions")
    paths = [v.path for v in tied.variables]
    assert len(set(paths)) == len(paths)
    assert sum("embeddings" in p and p.endswith(EMBEDDING_NAMES) for p in paths) == 3


def test_losses_equal_a_derivation_in_numpy(make_model):
    model = make_model(gen_weight=0.5, disc_weight=20.0)
    output = model(features(), randomness=Randomness(0, 0, dropout=False))
    inputs, lm, disc = output.inputs, output.masked_lm, output.discriminator

    logits = lm.logits.numpy().astype(np.float64)
    log_probs = logits - np.log(np.sum(np.exp(logits), axis=-1, keepdims=True))
    ids, weights = inputs.masked_lm_ids.numpy(), inputs.masked_lm_weights.numpy()
    token_losses = -np.take_along_axis(log_probs, ids[..., None], axis=-1)[..., 0]
    gen_loss = np.sum(token_losses * weights) / np.sum(weights)

    scores = disc.logits.numpy().astype(np.float64)
    labels = output.fake_data.is_fake_tokens.numpy()
    mask = inputs.input_mask.numpy()
    probs = 1 / (1 + np.exp(-scores))
    cross_entropy = -np.where(labels == 1, np.log(probs), np.log(1 - probs))
    disc_loss = np.sum(cross_entropy * mask) / np.sum(mask)

    np.testing.assert_array_equal(disc.preds, scores > 0)
    assert ((scores > 0) & (scores < 1)).any()
    losses = output.losses
    assert float(losses["gen"]) == pytest.approx(gen_loss, rel=1e-5)
    assert float(losses["disc"]) == pytest.approx(disc_loss, rel=1e-5)
    assert float(losses["total"]) == pytest.approx(0.5 * gen_loss + 20 * disc_loss, rel=1e-5)


def test_labels_mark_the_positions_whose_token_changed(make_model):
    model, given = make_model(), features()
    output = model(given, randomness=Randomness(0, 3))
    changed = output.fake_data.inputs.input_ids.numpy() != given["input_ids"].numpy()
    np.testing.assert_array_equal(output.fake_data.is_fake_tokens, changed)
    # A sample that is the original token counts as real.
    again = model(
        given,
        randomness=Randomness(0, 3),
        masked_inputs=output.inputs,
        sampled_token_ids=output.inputs.masked_lm_ids,
    )
    assert not np.any(again.fake_data.is_fake_tokens)


def test_padding_changes_nothing(make_model):
    model = make_model()
    given = features()
    shorter = {name: x[:1, :10] for name, x in given.items()}
    whole = model.electra(*(given[n] for n in ("input_ids", "input_mask", "segment_ids")))
    short = model.electra(*(shorter[n] for n in ("input_ids", "input_mask", "segment_ids")))
    np.testing.assert_allclose(
        whole.sequence_output[:1, :10], short.sequence_output, rtol=1e-4, atol=1e-5
    )


def test_bfloat16_computes_nearly_the_same_with_float32_losses(make_model):
    randomness = Randomness(0, 0, dropout=False)
    wide = make_model()(features(), randomness=randomness)
    model = make_model(precision="mixed_bfloat16")
    narrow = model(
        features(),
        randomness=randomness,
        masked_inputs=wide.inputs,
        sampled_token_ids=wide.fake_data.sampled_token_ids,
    )
    assert narrow.masked_lm.logits.dtype == tf.bfloat16
    assert all(variable.dtype == "float32" for variable in model.trainable_variables)
    for name, loss in wide.losses.items():
        assert narrow.losses[name].dtype == tf.float32
        assert float(narrow.losses[name]) == pytest.approx(float(loss), rel=1e-2)


def test_dropout_differs_by_step_and_is_off_in_evaluation(make_model):
    model = make_model()

    def logits(**options) -> np.ndarray:
        return model(features(), randomness=Randomness(0, **options)).masked_lm.logits.numpy()

    fixed = [logits(step=0), logits(step=0)]
    np.testing.assert_array_equal(*fixed)
    assert np.any(logits(step=0, dropout=False) != fixed[0])
    assert np.any(logits(step=0, replica=1) != fixed[0])


def test_an_evaluation_in_parts_is_that_of_the_whole(make_model):
    model = make_model()
    strategy = tf.distribute.get_strategy()
    whole = HeldOutEvaluator(model, strategy).run([features(4)] * 2, 2)
    parts = HeldOutEvaluator(model, strategy, 2).run([features(4)] * 2, 2)
    assert parts.values == pytest.approx(whole.values, rel=1e-5)
    for ours, theirs in zip(parts.sentences, whole.sentences, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5)


def test_a_metric_never_takes_the_place_of_a_loss(make_model, monkeypatch):
    model = make_model()
    strategy = tf.distribute.get_strategy()
    values = HeldOutEvaluator(model, strategy).run([features()], 1).values
    assert {"gen_loss", "disc_loss"} <= values.keys()
    with pytest.raises(UserError, match="The held-out records have no batch to evaluate on"):
        HeldOutEvaluator(model, strategy).run([], 1)
    for name, message in (
        ("disc_loss", "disc_loss, the name of a loss"),
        ("gradient_norm", "gradient_norm, which the log has for something else"),
        ("learning_rate", "learning_rate, which"),
        ("step", "step, which"),
    ):
        sums = {name: tf.ones([2])}
        monkeypatch.setattr(model, "metric_sums", lambda output, sums=sums: dict(sums))
        with pytest.raises(ValueError, match=f"metric_sums has {message}.*rename the metric"):
            HeldOutEvaluator(model, strategy).run([features()], 1)


@pytest.mark.parametrize("method", ["discriminator_weights", "detection_losses"])
def test_a_value_of_each_row_is_not_broadcast_over_its_tokens(make_model, monkeypatch, method):
    model = make_model()
    monkeypatch.setattr(model, method, lambda *inputs: tf.ones([3, 1]))
    message = rf"{method} must be \[batch, seq\], here \[3, 16\], not \[3, 1\]"
    with pytest.raises(ValueError, match=message):
        model(features(), randomness=Randomness(0, 0))


def test_a_vocabulary_larger_than_the_embeddings_is_refused(make_config, tiny_data):
    vocabulary = load_vocabulary(tiny_data / "vocab.txt")
    config = make_config(vocab_size=vocabulary.size - 1)
    with pytest.raises(UserError, match=f"pass vocab_size={vocabulary.size}"):
        create_model(config, vocabulary)
