"""Masking, scattering and sampling: the mathematics, on inputs that tests/reference lacks."""

import numpy as np
import pytest
import tensorflow as tf

from electra_tf import pretrain_helpers
from electra_tf.config.pretraining import max_predictions
from electra_tf.model import randomness
from electra_tf.model.batch_types import PretrainInputs, SpecialTokenIds

SPECIAL = SpecialTokenIds(cls=2, sep=3, mask=4)
LENGTH = 32


def rows(lengths: list[int]) -> PretrainInputs:
    """Returns rows of [CLS], the ids 10, 11, …, [SEP] and padding."""
    ids = np.zeros((len(lengths), LENGTH), np.int32)
    for row, length in enumerate(lengths):
        ids[row, :length] = [2, *range(10, 8 + length), 3][:length]
    mask = (ids > 0).astype(np.int32)
    return PretrainInputs(tf.constant(ids), tf.constant(mask), tf.zeros_like(ids))


def masked(inputs: PretrainInputs, step: int = 0, **options) -> PretrainInputs:
    settings = {"mask_prob": 0.15, "max_predictions_per_seq": 5, **options}
    key = randomness.make_key(0, step, "masking")
    return pretrain_helpers.mask(inputs, SPECIAL, key, **settings)


def test_masks_the_share_without_duplicates_and_never_special_tokens():
    inputs = rows([32, 20, 8] * 50)
    result = masked(inputs)
    positions, weights = result.masked_lm_positions.numpy(), result.masked_lm_weights.numpy()
    # round(0.15 * length); 4.8 -> 5, 3, 1.2 -> 1
    np.testing.assert_array_equal(np.sum(weights, axis=1)[:3], [5, 3, 1])
    original = inputs.input_ids.numpy()
    for row in range(len(positions)):
        used = positions[row][weights[row] > 0]
        assert len(set(used)) == len(used)
        assert np.all(original[row][used] >= 10)
        np.testing.assert_array_equal(
            result.masked_lm_ids.numpy()[row][weights[row] > 0], original[row][used]
        )
    changed = result.input_ids.numpy() != original
    assert np.all(result.input_ids.numpy()[changed] == SPECIAL.mask)
    assert np.sum(changed) / np.sum(weights) == pytest.approx(0.85, abs=0.05)
    np.testing.assert_array_equal(pretrain_helpers.unmask(result).input_ids, original)


@pytest.mark.parametrize("with_replacement", [False, True])
def test_every_candidate_is_drawn_alike(with_replacement):
    inputs = rows([12] * 2000)
    result = masked(inputs, mask_prob=0.3, with_replacement=with_replacement)
    positions = result.masked_lm_positions.numpy()[result.masked_lm_weights.numpy() > 0]
    counts = np.bincount(positions, minlength=LENGTH)[1:11]
    assert np.sum(counts) == positions.size == 2000 * 4
    expected = positions.size / 10
    # 99.9 % point of chi-square with 9 degrees of freedom.
    assert np.sum((counts - expected) ** 2 / expected) < 27.9


def test_slots_of_a_batch_follow_from_its_length(make_config):
    config, inputs = make_config(), rows([32, 32])
    features = {name: getattr(inputs, name) for name in ("input_ids", "input_mask")}
    features["segment_ids"] = inputs.segment_ids
    masked = pretrain_helpers.mask_batch(
        config,
        SPECIAL,
        pretrain_helpers.DEFAULT_MASKING,
        features,
        randomness=randomness.Randomness(0, 0),
    )
    slots = max_predictions(config, LENGTH)
    assert masked.masked_lm_positions.shape == (2, slots)
    assert slots != max_predictions(config, 2)


def test_rows_with_few_candidates_or_none():
    result = masked(rows([3, 2, 0]), mask_prob=0.9)
    np.testing.assert_array_equal(result.masked_lm_weights, [[1, 0, 0, 0, 0], [0] * 5, [0] * 5])
    assert result.masked_lm_positions.numpy()[0, 0] == 1
    replaced = masked(rows([3, 2, 0]), mask_prob=0.9, with_replacement=True)
    assert np.sum(replaced.masked_lm_weights.numpy()[1:]) == 0


def test_more_slots_than_tokens():
    result = masked(rows([32]), mask_prob=0.99, max_predictions_per_seq=40)
    assert result.masked_lm_positions.shape == (1, 40)
    assert np.sum(result.masked_lm_weights) == 30


def test_masks_follow_from_the_key_and_the_rows_place():
    inputs = rows([32] * 4)
    whole = masked(inputs)
    second_half = PretrainInputs(*(x[2:] for x in inputs[:3]))
    half = masked(second_half, first_example=2)
    np.testing.assert_array_equal(half.input_ids, whole.input_ids[2:])
    assert np.any(masked(inputs, step=1).input_ids != whole.input_ids)


def test_scatter_update_averages_duplicates_and_spares_position_0():
    sequence = tf.constant([[1, 2, 3, 4], [5, 6, 7, 8]])
    updated, written = pretrain_helpers.scatter_update(
        sequence, tf.constant([[10, 21, 30], [9, 9, 9]]), tf.constant([[2, 2, 0], [0, 3, 1]])
    )
    np.testing.assert_array_equal(updated, [[1, 2, 15, 4], [5, 9, 7, 9]])
    np.testing.assert_array_equal(written, [[0, 0, 1, 0], [0, 1, 0, 1]])


def test_scatter_update_of_vectors_averages_and_keeps_the_others():
    sequence = np.arange(12, dtype=np.float32).reshape(1, 6, 2)
    updates = np.float32([[[10, 1], [20, 4], [7, 8], [90, 90]]])
    updated, written = pretrain_helpers.scatter_update(
        tf.constant(sequence), tf.constant(updates), tf.constant([[2, 2, 4, 0]])
    )
    expected = sequence.copy()
    expected[0, 2], expected[0, 4] = [15, 2.5], [7, 8]
    np.testing.assert_array_equal(updated, expected)
    np.testing.assert_array_equal(written, [[0, 0, 1, 0, 1, 0]])


def test_candidates_are_real_tokens_that_are_not_disallowed():
    inputs = rows([5, 3])
    disallow = np.zeros([2, LENGTH], bool)
    disallow[0, [1, 4]] = disallow[1, 20] = True  # a candidate, [SEP] and padding
    found = pretrain_helpers.candidates_mask(inputs, SPECIAL, tf.constant(disallow))
    assert np.argwhere(found).tolist() == [[0, 2], [0, 3], [1, 1]]
    found = pretrain_helpers.candidates_mask(inputs, SPECIAL)
    assert np.argwhere(found).tolist() == [[0, 1], [0, 2], [0, 3], [1, 1]]


def test_masked_positions_are_those_with_a_weight():
    inputs = rows([8, 8])._replace(
        masked_lm_positions=tf.constant([[3, 5], [6, 0]]),
        masked_lm_weights=tf.constant([[1.0, 1.0], [1.0, 0.0]]),
    )
    found = pretrain_helpers.masked_positions(inputs).numpy()
    assert found.shape == (2, LENGTH)
    assert np.argwhere(found).tolist() == [[0, 3], [0, 5], [1, 6]]
    assert found.max() == 1


def test_losses_are_weighted_means_and_predictions_the_largest_logits():
    logits = np.random.default_rng(0).normal(size=[2, 3, 5]).astype(np.float32)
    targets, weights = np.array([[0, 4, 2], [1, 1, 3]]), np.float32([[1, 1, 0], [1, 0, 0]])
    found = pretrain_helpers.get_softmax_output(
        tf.constant(logits), tf.constant(targets, tf.int32), tf.constant(weights)
    )
    losses = np.log(np.exp(logits).sum(-1))
    losses -= np.take_along_axis(logits, targets[..., None], -1)[..., 0]
    np.testing.assert_allclose(found.per_example_loss, losses, rtol=1e-5)
    assert float(found.loss) == pytest.approx((losses * weights).sum() / 3, rel=1e-5)
    np.testing.assert_array_equal(found.preds, logits.argmax(-1))


def test_the_most_likely_token_may_be_disallowed():
    logits = tf.constant([[[1.0, 3.0, 2.0], [-5.0, -2.0, -1.0]]])
    np.testing.assert_array_equal(pretrain_helpers.most_likely_tokens(logits), [[1, 2]])
    disallow = tf.constant([[1, 2]])
    found = pretrain_helpers.most_likely_tokens(logits, disallow)
    np.testing.assert_array_equal(found, [[2, 1]])


def test_given_noise_is_the_authors_gumbel_noise():
    generator = np.random.default_rng(0)
    logits, noise = (generator.random([20, 10, 6]).astype(np.float32) for _ in range(2))
    gumbel = -np.log(-np.log(noise + 1e-9) + 1e-9)
    for temperature in (1.0, 0.2):
        drawn = pretrain_helpers.sample_from_softmax(
            tf.constant(logits), temperature=temperature, uniform_noise=tf.constant(noise)
        )
        expected = (logits / np.float32(temperature) + gumbel).argmax(-1)
        np.testing.assert_array_equal(drawn, expected)


@pytest.mark.parametrize("temperature", [1.0, 2.0])
def test_samples_follow_the_softmax(temperature):
    logits = np.array([2.0, 1.0, 0.0, -1.0, 0.5, 0.5], np.float32)
    draws = 20_000
    samples = pretrain_helpers.sample_from_softmax(
        tf.tile(tf.constant(logits)[None, None], [draws // 10, 10, 1]),
        randomness.make_key(0, 0, "sampling"),
        temperature=temperature,
    ).numpy()
    probs = np.exp(logits / temperature) / np.sum(np.exp(logits / temperature))
    counts = np.bincount(samples.ravel(), minlength=6)
    # 99.9 % point of chi-square with 5 degrees of freedom.
    assert np.sum((counts - draws * probs) ** 2 / (draws * probs)) < 20.5


def test_disallowed_tokens_are_never_drawn_and_the_rest_keeps_its_odds():
    logits = tf.tile(tf.constant([[[9.0, 1.0, 0.0]]]), [1000, 10, 1])
    samples = pretrain_helpers.sample_from_softmax(
        logits,
        randomness.make_key(0, 0, "sampling"),
        disallow=tf.zeros([1000, 10], tf.int32),
    ).numpy()
    counts = np.bincount(samples.ravel(), minlength=3)
    assert counts[0] == 0
    assert counts[1] / counts[2] == pytest.approx(np.e, rel=0.1)


def test_no_gradient_flows_through_samples():
    logits = tf.random.stateless_normal([2, 3, 5], seed=(0, 0))
    with tf.GradientTape() as tape:
        tape.watch(logits)
        samples = pretrain_helpers.sample_from_softmax(
            logits, randomness.make_key(0, 0, "sampling")
        )
        total = tf.reduce_sum(tf.cast(samples, tf.float32))
    assert tape.gradient(total, logits) is None


def test_a_temperature_is_the_same_as_a_number_or_a_tensor():
    logits = tf.random.stateless_normal([4, 50, 30], [1, 2])
    key = tf.constant([3, 4], tf.uint32)
    for number in (0.5, 1.0, 3.0):
        first, second = (
            pretrain_helpers.sample_from_softmax(logits, key, temperature=temperature)
            for temperature in (number, tf.constant(number))
        )
        np.testing.assert_array_equal(first, second)


def test_kernels_are_compiled_for_numbers_alone(monkeypatch):
    temperatures = []

    def note(logits, *_, temperature):
        temperatures.append(temperature)
        return logits

    monkeypatch.setattr(pretrain_helpers, "_gumbel_scores", note)
    for temperature in (2.0, tf.constant(2.0)):
        pretrain_helpers.sample_from_softmax(tf.zeros([1, 1, 2]), temperature=temperature)
    assert temperatures == [2.0, 1.0]
    assert not any(map(tf.is_tensor, temperatures))


def test_a_batch_starts_at_the_first_example_by_default():
    logits, key = tf.zeros([4, 50, 30]), tf.constant([3, 4], tf.uint32)
    drawn = [
        pretrain_helpers.sample_from_softmax(logits, key, **given).numpy().tolist()
        for given in ({}, {"first_example": 0}, {"first_example": 1})
    ]
    assert drawn[0] == drawn[1]
    assert drawn[0] != drawn[2]
