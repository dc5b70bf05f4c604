"""What all strategies share: their statistics, hyperparameters and needs."""

import dataclasses

import numpy as np
import pytest

from electra_tf.config import choices
from electra_tf.masking.base import MaskingStrategy, TokenStatistics, token_statistics

# Strategy to whether it needs the tokens counted, and whether it learns.
NEEDS = {
    "learned": (False, True),
    "span": (False, False),
    "strategic": (True, False),
    "token": (False, False),
    "whole_word": (False, False),
}


def test_every_strategy_is_here():
    assert choices.MASKING.keys() == NEEDS.keys()


@pytest.mark.parametrize("name", NEEDS)
def test_what_a_strategy_needs(name):
    strategy = choices.load(choices.MASKING, name)
    assert (strategy.needs_counts, strategy.learns) == NEEDS[name]


@pytest.mark.parametrize("name", NEEDS)
def test_hyperparameters_are_fixed(name):
    hparams = choices.load(choices.MASKING, name).Hparams()
    assert dataclasses.is_dataclass(hparams)
    for field in dataclasses.fields(hparams):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(hparams, field.name, 1)


def test_a_strategy_without_an_order_is_none():
    with pytest.raises(TypeError, match="order"):
        MaskingStrategy(None, None)


def test_statistics_of_tokens():
    statistics = TokenStatistics.of(("a", "##b", "c##"), np.array([3, 1, 0]))
    assert statistics.continues_word.tolist() == [False, True, False]
    smoothed = np.log(np.array([4, 2, 1]) / 7)
    np.testing.assert_allclose(statistics.log_frequencies(), smoothed, rtol=1e-6)
    with pytest.raises(dataclasses.FrozenInstanceError):
        statistics.counts = None
    with pytest.raises(ValueError, match="must be counted first"):
        TokenStatistics.of(("a",)).log_frequencies()


def test_without_a_word_list_there_are_no_words(make_config, vocabulary):
    statistics = token_statistics(make_config(), vocabulary, None)
    assert statistics.words is None
    assert len(statistics.continues_word) == len(vocabulary.tokens)
