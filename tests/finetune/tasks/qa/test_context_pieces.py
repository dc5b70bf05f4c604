"""Contexts in the graph: their pieces and characters, as in Python."""

import random

import numpy as np
import tensorflow as tf

from finetune.tasks.qa.context_pieces import context_pieces
from finetune.tasks.qa.examples import Context

ODD = (
    "anna",
    "berg.",
    "(1895-1943)",
    "\x00",
    "b\x00y",
    "\ufffd",
    "\U0001f600",
    "caf\u00e9",
    "x\u00a0y",
)
SEPARATORS = (" ", "  ", "\t", "\r\n", "\u202f")


def test_pieces_and_characters_of_a_batch(tokenizer):
    generator = random.Random(1)
    contexts = [
        "".join(generator.choice(ODD) + generator.choice(SEPARATORS) for _ in range(count))
        for count in (0, 1, 3, 8, 20, 20)
    ]
    found = context_pieces(tokenizer.tokenizer, tf.constant(contexts))
    assert [text.decode() for text in found.texts.numpy()] == contexts
    splits, first_word = found.splits.numpy(), 0
    for i, context in enumerate(contexts):
        words = Context(context).words
        of_words = tokenizer.tokenize(words)
        own = slice(splits[i], splits[i + 1])
        np.testing.assert_array_equal(
            found.ids[own], np.concatenate([np.zeros(0, np.int32), *of_words])
        )
        index = np.repeat(np.arange(len(words)), [len(ids) for ids in of_words])
        np.testing.assert_array_equal(found.words[own] - first_word, index)
        first_word += len(words)
        if not len(index):
            continue
        # From the first to the last piece is from the first to the last word that has pieces.
        first, last = tf.constant([splits[i]]), tf.constant([splits[i + 1] - 1])
        (start,), (end,) = (part.numpy() for part in found.character_span(first, last))
        text = context[start:end].split()
        assert text[0] in words[index[0]]
        assert text[-1] in words[index[-1]]
