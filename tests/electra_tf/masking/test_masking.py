"""The ways to choose masked positions: what they mask, how often, and how much."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from electra_tf.masking.base import (
    MaskingOrder,
    NoHparams,
    TokenStatistics,
    create_masking,
)
from electra_tf.masking.masked_batch import mask
from electra_tf.masking.span import SpanMasking, SpanMaskingHparams
from electra_tf.masking.strategic import StrategicMasking, StrategicMaskingHparams
from electra_tf.masking.units import choose_whole_units
from electra_tf.masking.whole_word import WholeWordMasking
from electra_tf.model import randomness
from electra_tf.model.batch_types import PretrainInputs, SpecialTokenIds
from electra_tf.util.errors import UserError

SPECIAL = SpecialTokenIds(cls=2, sep=3, mask=4)
# Ids 5 to 14 begin words, 15 to 19 continue them.
VOCAB_SIZE, FIRST_CONTINUATION = 20, 15
CONTINUES = np.arange(VOCAB_SIZE) >= FIRST_CONTINUATION
FACTS = TokenStatistics(CONTINUES)
#         CLS a  ##b ##c d  e  ##f g  SEP h  i  ##j SEP
SENTENCE = [2, 5, 15, 16, 6, 7, 17, 8, 3, 9, 10, 18, 3]
WORDS = [{1, 2, 3}, {4}, {5, 6}, {7}, {9}, {10, 11}]


def batch(rows: int, ids: list[int] = SENTENCE, padding: int = 2) -> PretrainInputs:
    length = len(ids)
    ids = np.array(ids + [0] * padding, np.int32)
    input_mask = (np.arange(length + padding) < length).astype(np.int32)
    repeated = [tf.constant(np.tile(x, (rows, 1))) for x in (ids, input_mask, 0 * ids)]
    return PretrainInputs(*repeated)


def masked_sets(strategy, rows: int = 2000, *, wanted: int = 4, **options) -> list[list[int]]:
    """Returns the masked positions of each row in the order in which they were chosen."""
    inputs = batch(rows, **options)
    tokens = float(inputs.input_mask[0].numpy().sum())
    masked = mask(
        inputs,
        SPECIAL,
        randomness.make_key(1, 0, "masking"),
        mask_prob=wanted / tokens,
        max_predictions_per_seq=8,
        strategy=strategy,
    )
    return [
        positions[weights > 0].tolist()
        for positions, weights in zip(
            masked.masked_lm_positions.numpy(), masked.masked_lm_weights.numpy(), strict=True
        )
    ]


def test_whole_words_of_rows_of_an_unknown_length():
    rows = 3
    priority = tf.constant([[0.1, 0.9, 0.8, 0.2, 0.3]] * rows)
    units = tf.constant([[0, 1, 1, 2, 3]] * rows)
    candidates, wanted = tf.ones([rows, 5], tf.bool), tf.constant([2, 3, 1])

    def choose(priority, units, candidates, wanted):
        return choose_whole_units(MaskingOrder(priority, units), candidates, wanted)

    signature = [tf.TensorSpec([None, None], each) for each in (tf.float32, tf.int32, tf.bool)]
    unknown = tf.function(choose, input_signature=[*signature, tf.TensorSpec([None], tf.int32)])
    chosen, count = unknown(priority, units, candidates, wanted)
    expected = [[0, 1, 1, 0, 0], [0, 1, 1, 0, 1], [0, 0, 0, 0, 1]]
    np.testing.assert_array_equal(tf.cast(chosen, tf.int32), expected)
    np.testing.assert_array_equal(count, [2, 3, 1])


def test_whole_words_are_masked_as_a_whole():
    chosen = masked_sets(WholeWordMasking(NoHparams(), FACTS))
    for positions in chosen:
        # Three single tokens leave room for one, and no word of one is left.
        assert len(positions) == 4 or sorted(positions) == [4, 7, 9]
        for word in WORDS:
            assert len(word & set(positions)) in (0, len(word))
    # Every word comes first as often as any other.
    first = [next(i for i, word in enumerate(WORDS) if row[0] in word) for row in chosen]
    counts = np.bincount(first, minlength=len(WORDS))
    expected = len(chosen) / len(WORDS)
    assert np.sum((counts - expected) ** 2 / expected) < 20.5  # chi-square, 5 degrees, 0.1 %


class WordsInOrder(WholeWordMasking):
    """Whole words in a random order of each row, which is kept for the test."""

    def order(self, input_ids, candidates, key, first_example):
        found = super().order(input_ids, candidates, key, first_example)
        self.last = found.priority.numpy(), found.units.numpy(), candidates.numpy()
        return found


def test_words_that_do_not_fit_are_skipped_as_in_berts_data_generation():
    generator = np.random.default_rng(0)
    rows, length = 200, 48
    ids = generator.choice([*range(5, 20)], (rows, length), p=[0.03] * 10 + [0.14] * 5)
    ids[:, [0, 20, -1]] = [2, 3, 3]
    strategy = WordsInOrder(NoHparams(), FACTS)
    inputs = PretrainInputs(*(tf.constant(x, tf.int32) for x in (ids, ids * 0 + 1, 0 * ids)))
    key = randomness.make_key(1, 0, "masking")
    masked = mask(
        inputs, SPECIAL, key, mask_prob=0.15, max_predictions_per_seq=8, strategy=strategy
    )
    several_skipped = 0
    for row, (priority, units, candidates) in enumerate(zip(*strategy.last, strict=True)):
        words = {}
        for position in np.flatnonzero(candidates):
            words.setdefault(units[position], []).append(int(position))
        expected, skipped = [], 0
        for word in sorted(words.values(), key=lambda word: -priority[word[0]]):
            if len(expected) + len(word) <= 7:  # 15 % of 48 tokens
                several_skipped += skipped > 1
                expected += word
            else:
                skipped += len(expected) < 7
        used = masked.masked_lm_weights[row].numpy() > 0
        assert masked.masked_lm_positions[row].numpy()[used].tolist() == expected
    assert several_skipped > 20


def test_a_word_that_is_longer_than_what_is_masked_is_masked_in_part():
    word = [2, 5, 15, 16, 17, 18, 19, 3]
    chosen = masked_sets(WholeWordMasking(NoHparams(), FACTS), 20, wanted=3, ids=word)
    assert all(positions == [1, 2, 3] for positions in chosen)


def test_spans_begin_at_words_and_have_spanberts_lengths():
    ids = [2] + [5, 15] * 40 + [3]
    chosen = masked_sets(SpanMasking(SpanMaskingHparams(), FACTS), 4000, wanted=8, ids=ids)
    lengths = []
    for positions in chosen:
        assert len(positions) == 8
        # The first span: what lies side by side from its begin on.
        assert positions[0] % 2 == 1
        length = 1
        while length < 8 and positions[length] == positions[0] + length:
            length += 1
        lengths.append(length / 2)
    # P(length = n) = 0.2 * 0.8 ** (n - 1) / (1 - 0.8 ** 10) for n up to 10; at most 4 words
    # are wanted, and a span that ends where the next one begins looks longer.
    q = 0.8
    shares = [0.2 * q**n / (1 - q**10) for n in range(3)]
    counts = np.array([np.mean(np.array(lengths) == n + 1) for n in range(3)])
    np.testing.assert_allclose(counts, shares, atol=0.03)


def test_spans_stay_in_their_segment_and_cover_what_is_wanted():
    chosen = masked_sets(SpanMasking(SpanMaskingHparams(), FACTS), 500, wanted=6)
    for positions in chosen:
        assert len(set(positions)) == 6
        assert not {0, 8, 12, 13, 14} & set(positions)


def test_spans_start_at_every_word_and_end_with_their_segment():
    endless = SpanMaskingHparams(p=0.001, max_words=10_000)
    chosen = masked_sets(SpanMasking(endless, FACTS), 3000)
    assert {positions[0] for positions in chosen} == {min(word) for word in WORDS}
    after_the_segment = [positions[1] for positions in chosen if positions[0] == 7]
    # Where the second span starts: one word of six is the first of the other segment.
    assert 0.1 < np.mean(np.array(after_the_segment) == 9) < 0.25


def test_words_that_no_span_covers_come_last():
    """Of forty words, those where none of the spans of one word starts."""
    single = SpanMasking(SpanMaskingHparams(p=0.999, max_words=1), FACTS)
    ids = [2, *range(5, 15), *range(5, 15), *range(5, 15), *range(5, 15), 3]
    inputs = batch(6, ids)

    def chosen(rows: slice) -> np.ndarray:
        return mask(
            PretrainInputs(*(x[rows] for x in inputs[:3])),
            SPECIAL,
            randomness.make_key(1, 0, "masking"),
            mask_prob=0.2,
            max_predictions_per_seq=8,
            strategy=single,
            first_example=rows.start,
        ).masked_lm_positions.numpy()

    one_by_one = np.concatenate([chosen(slice(i, i + 1)) for i in range(6)])
    np.testing.assert_array_equal(one_by_one, chosen(slice(0, 6)))


def test_span_lengths_average_to_the_papers_3_8():
    q, longest = 0.8, 10
    uniform = randomness.uniform(
        randomness.make_key(0, 0, "x"), randomness.counters([200_000])
    ).numpy()
    length = np.ceil(np.log1p(-uniform * (1 - q**longest)) / np.log(q))
    assert np.mean(length) == pytest.approx(3.8, abs=0.02)
    assert (length.min(), length.max()) == (1, longest)


def test_strategic_masking_draws_by_the_inverse_root_of_the_frequency():
    counts = np.zeros(VOCAB_SIZE, np.int64)
    counts[5:8] = [9999, 99, 0]  # one more of each is counted
    statistics = TokenStatistics(CONTINUES, counts)
    strategy = StrategicMasking(StrategicMaskingHparams(), statistics)
    chosen = masked_sets(strategy, 20_000, wanted=1, ids=[2, 5, 6, 7, 3])
    shares = np.bincount([row[0] for row in chosen], minlength=4)[1:4] / len(chosen)
    weights = np.array([10_000, 100, 1]) ** -0.5
    np.testing.assert_allclose(shares, weights / weights.sum(), atol=0.01)


@pytest.mark.parametrize("power", [20.0, -20.0])
def test_a_high_power_still_masks_tokens_of_the_text_alone(power):
    counts = np.zeros(VOCAB_SIZE, np.int64)
    counts[5:8] = [10**9, 10**8, 10**4]
    strategy = StrategicMasking(
        StrategicMaskingHparams(power=power), TokenStatistics(CONTINUES, counts)
    )
    ids = [2, 5, 6, 3] if power > 0 else [2, 7, 8, 3]
    for row in masked_sets(strategy, 20, wanted=2, ids=ids):
        assert set(row) == {1, 2}


def test_masks_do_not_depend_on_the_number_of_replicas():
    inputs = batch(8)
    for strategy in (
        WholeWordMasking(NoHparams(), FACTS),
        SpanMasking(SpanMaskingHparams(), FACTS),
        StrategicMasking(StrategicMaskingHparams(), TokenStatistics(CONTINUES, np.arange(20))),
    ):

        def masked(first: int, rows: slice, strategy=strategy) -> np.ndarray:
            part = PretrainInputs(*(x[rows] for x in inputs[:3]))
            return mask(
                part,
                SPECIAL,
                randomness.make_key(1, 0, "masking"),
                mask_prob=0.3,
                max_predictions_per_seq=5,
                strategy=strategy,
                first_example=first,
            ).masked_lm_positions.numpy()

        halves = np.concatenate([masked(0, slice(0, 4)), masked(4, slice(4, 8))])
        np.testing.assert_array_equal(masked(0, slice(0, 8)), halves)


def test_rows_without_a_candidate_mask_nothing():
    for strategy in (
        WholeWordMasking(NoHparams(), FACTS),
        SpanMasking(SpanMaskingHparams(), FACTS),
    ):
        assert masked_sets(strategy, 3, ids=[2, 3]) == [[], [], []]


def test_unknown_hyperparameters_are_refused(make_config):
    config = make_config(masking="span", masking_hparams={"max_word": 3})
    with pytest.raises(UserError, match=r"max_word.*--masking_hparams.*max_words"):
        create_masking(config, FACTS)
    config = make_config(masking="span", masking_hparams={"p": "high"})
    with pytest.raises(UserError, match=r"p in --masking_hparams must be a number, not"):
        create_masking(config, FACTS)
    config = make_config(masking="learned", masking_hparams={"head_weight": -1})
    with pytest.raises(UserError, match=r"head_weight in --masking_hparams must be at least 0"):
        create_masking(config, FACTS)
    config = make_config(masking="span", masking_hparams={"p": 1.0})
    with pytest.raises(UserError, match=r"p in --masking_hparams must be .*0\.999"):
        create_masking(config, FACTS)


def span_order(ids: list[int], rows: int, **hparams) -> np.ndarray:
    """Returns the priorities of each position where all but special tokens are candidates."""
    input_ids = tf.constant(np.tile(ids, (rows, 1)), tf.int32)
    strategy = SpanMasking(SpanMaskingHparams(**hparams), FACTS)
    candidates = input_ids > max(SPECIAL)
    return strategy.order(
        input_ids, candidates, randomness.make_key(1, 0, "spans"), 0
    ).priority.numpy()


def test_spans_start_at_every_word_equally_often_whatever_its_length():
    """Two words of one token, and one of four, which has most of the tokens."""
    priority = span_order([2, 5, 6, 15, 16, 17, 7, 3], 3000, p=0.999, max_words=1)
    first = priority == priority.max(axis=1, keepdims=True)
    assert {row.sum() for row in first} == {1, 4}
    counts = first[:, [1, 2, 6]].sum(axis=0)
    expected = len(priority) / 3
    assert np.sum((counts - expected) ** 2 / expected) < 13.8  # 2 degrees of freedom, 0.1 %


def test_spans_reach_the_last_position_of_a_row():
    """A row may be cut in the middle of its text, where no [SEP] follows."""
    priority = span_order([2, 15, 5, 6, 7], 200, p=0.999, max_words=1)
    first = priority.argmax(axis=1)
    assert {*first} == {1, 2, 3, 4}
    np.testing.assert_array_equal(priority[:, 0], -5)  # [CLS], which no span covers


def test_hyperparameters_of_spans_are_bounded_and_cannot_be_changed(make_config):
    assert SpanMaskingHparams() == SpanMaskingHparams(p=0.2, max_words=10)
    with pytest.raises(dataclasses.FrozenInstanceError):
        SpanMaskingHparams().p = 0.5
    for given in ({"p": 0.001}, {"p": 0.999}, {"max_words": 1}, {"max_words": 10_000}):
        made = create_masking(make_config(masking="span", masking_hparams=given), FACTS)
        assert dataclasses.asdict(made.hparams).items() >= given.items()
    for given, limits in (
        ({"p": 0.0009}, "from 0.001 to 0.999"),
        ({"p": 0.9991}, "from 0.001 to 0.999"),
        ({"max_words": 0}, "from 1 to 10000"),
        ({"max_words": 10_001}, "from 1 to 10000"),
    ):
        (name,) = given
        with pytest.raises(UserError, match=f"{name} in --masking_hparams must be {limits}"):
            create_masking(make_config(masking="span", masking_hparams=given), FACTS)
