"""Examples are masked as in training."""

import numpy as np
import pytest
import tensorflow as tf

from electra_tf import model_builder
from electra_tf.inference.masked_examples import (
    KEPT,
    MASKED,
    PLAIN,
    SPECIAL,
    ExampleToken,
    load_masking,
    masked_examples,
    render,
)
from electra_tf.model.randomness import Randomness
from electra_tf.text.vocabulary import load_vocabulary
from electra_tf.util.errors import UserError

WORDS = 12


@pytest.fixture
def rows():
    """Rows of [CLS], twelve words, [SEP] and padding."""
    ids = [[2, *range(start, start + WORDS), 3, 0, 0] for start in (5, 20)]
    return [
        {
            "input_ids": np.array(row, np.int32),
            "input_mask": np.array([1] * (WORDS + 2) + [0] * 2, np.int32),
            "segment_ids": np.array([0] * 8 + [1] * 6 + [0] * 2, np.int32),
        }
        for row in ids
    ]


def no_counts(vocab_size):
    raise AssertionError("nothing to count")


@pytest.mark.parametrize("masking", ["token", "strategic"])
def test_masks_are_those_of_the_first_step(make_config, rows, masking):
    config = make_config(mask_prob=0.5, mask_prob_end=0.6, masking=masking, seed=3)
    vocabulary = load_vocabulary(config.vocab_file)
    counts = no_counts if masking == "token" else lambda size: np.arange(1, size + 1)
    strategy = load_masking(config, vocabulary, counts)
    examples = masked_examples(config, vocabulary, strategy, rows)
    model = model_builder.create_model(config, vocabulary, counts)
    features = {name: tf.constant([row[name] for row in rows]) for name in rows[0]}
    inputs = model.prepare(features, randomness=Randomness(config.seed, 0))
    for i, example in enumerate(examples):
        assert [item.token for item in example][1:-1] == [
            vocabulary.tokens[n] for n in rows[i]["input_ids"][1 : WORDS + 1]
        ]
        assert [item.segment for item in example] == [0] * 8 + [1] * 6
        assert (example[0].state, example[-1].state) == (SPECIAL, SPECIAL)
        predicted = [j for j, item in enumerate(example) if item.state in (MASKED, KEPT)]
        used = inputs.masked_lm_weights[i].numpy() > 0
        assert predicted == sorted(inputs.masked_lm_positions[i].numpy()[used])
        assert len(predicted) == 7
        masked = [j for j, item in enumerate(example) if item.state == MASKED]
        assert masked == np.flatnonzero(inputs.input_ids[i].numpy() == 4).tolist()


def test_learned_masking_needs_a_checkpoint(make_config):
    config = make_config(masking="learned")
    with pytest.raises(UserError, match="No checkpoint in"):
        load_masking(config, load_vocabulary(config.vocab_file), no_counts)


def test_rendering():
    tokens = [
        ExampleToken("[CLS]", SPECIAL, 0, False),
        ExampleToken("harbo", PLAIN, 0, False),
        ExampleToken("##ur", PLAIN, 0, True),
        ExampleToken("boat", MASKED, 0, False),
        ExampleToken("##s", PLAIN, 0, False),
        ExampleToken("sea", KEPT, 1, False),
    ]
    assert render(tokens, color=False) == "[CLS] harbour [MASK](boat) ##s sea(kept)"
    colored = render(tokens, color=True)
    assert colored == (
        "\x1b[2m[CLS]\x1b[0m harbour \x1b[1;31mboat\x1b[0m ##s \x1b[1;33msea\x1b[0m"
    )
