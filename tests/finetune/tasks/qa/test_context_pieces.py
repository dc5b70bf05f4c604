"""Contexts in the graph: their pieces and characters, as in Python."""

import itertools
import random
import unicodedata

import numpy as np
import pytest
import tensorflow as tf

from electra_tf.text.cached_tokenizer import CachedTokenizer
from electra_tf.text.vocabulary import load_vocabulary
from finetune.tasks.qa.context_pieces import context_pieces
from finetune.tasks.qa.examples import Context
from finetune.tasks.qa.nbest import PlacedText
from tests.conftest import SPECIAL_TOKENS

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
        for find in (found.character_span, found.authors_character_span):
            (start,), (end,) = (part.numpy() for part in find(first, last))
            text = context[start:end].split()
            assert text[0] in words[index[0]]
            assert text[-1] in words[index[-1]]


# Words whose normalization has another number of characters, or other neighbors.
UNEVEN = (
    "cafe\u0301s",
    "CAF\u00c9.",
    "\u1ec7\u0301x",  # with three marks, two of them composed
    "\u0130\u0130n",  # the dotted I
    "\u03a3\u03a3.",  # a final sigma
    "\ud55c\uad6d",  # syllables of Hangul, and letters of one
    "\u1112\u1161\u11ab.",
    "\u2260x",  # decomposed, a word of its own and a mark
    "\u4f60\u597d\u3002",
    "\u200bx\u00ady\u0007",
    "\u0301x",  # a mark without a letter
    "x\u00a0\u0301y",
    "\U0001f468\u200d\U0001f469\ufe0f!",
    "\u0915\u094d\u200d\u0937\u093f",
    "\u0d28\u0d4d\u200d.",
    "\ufb01n\u0301\u0323",
    "\x00x",
)


def normalized(character: str, *, lower: bool, strip: bool) -> str:
    """Returns what the tokenizer makes of a character, by Python's tables of Unicode."""
    category = unicodedata.category(character)
    if character.isspace() or category[0] == "C":
        return ""
    text = character.lower() if lower else character
    if lower and strip:
        text = unicodedata.normalize("NFD", text)
        text = "".join(each for each in text if unicodedata.category(each) != "Mn")
    return text


@pytest.mark.parametrize(
    ("lower", "strip"), [(True, True), (True, False), (False, False)], ids=str
)
def test_every_character_has_its_place(tmp_path, lower, strip):
    generator = random.Random(2)
    contexts = [
        "".join(each + generator.choice(("", *SEPARATORS)) for each in words)
        for words in ([], *([word] for word in UNEVEN), *[generator.sample(UNEVEN, 9)] * 4)
    ]

    def normalize(character: str) -> str:
        return normalized(character, lower=lower, strip=strip)

    letters = set("".join(normalize(each) for context in contexts for each in context))
    letters = sorted(letters | {"\u03c2"})  # which a final sigma is in context
    path = tmp_path / "vocab.txt"
    path.write_text("\n".join([*SPECIAL_TOKENS, *letters, *(f"##{each}" for each in letters)]))
    tokenizer = CachedTokenizer(load_vocabulary(path), lower, strip)
    find = tf.function(
        lambda texts: context_pieces(tokenizer.tokenizer, texts),
        input_signature=[tf.TensorSpec([None], tf.string)],
        autograph=False,
    )
    found = find(tf.constant(contexts))
    splits = found.splits.numpy()
    placed = PlacedText(tokenizer)
    for context, offset, behind in zip(contexts, splits, splits[1:], strict=False):
        wanted = []
        for at, character in enumerate(context):
            end = at + 1
            # Marks and joiners that normalization removes stay with what they follow.
            while end < len(context) and not normalize(context[end]):
                is_mark = unicodedata.category(context[end])[0] == "M"
                if not is_mark and context[end] not in "\u200c\u200d":
                    break
                end += 1
            wanted += [(at, end)] * len(normalize(character))
        assert behind - offset == len(wanted)
        pairs = itertools.combinations_with_replacement(range(len(wanted)), 2)
        first, last = np.array(list(pairs), np.int32).reshape(-1, 2).T
        spans = found.character_span(tf.constant(first + offset), tf.constant(last + offset))
        spans = [tuple(span) for span in np.transpose(spans).tolist()]
        assert spans == [(wanted[i][0], wanted[j][1]) for i, j in zip(first, last, strict=True)]
        texts = [
            placed(Context(context), i, j) for i, j in [*zip(first, last, strict=True)][:9]
        ]
        assert texts == [" ".join(Context(context[a:b]).words) for a, b in spans[:9]]


@pytest.mark.parametrize(
    ("context", "first", "last", "answer", "authors"),
    [
        ("(Cafe\u0301).", 1, 1, "Cafe\u0301", "(Cafe\u0301)."),
        ("berg\u200b.", 0, 0, "berg", "berg\u200b."),
        ("(\U0001f600) berg.", 3, 3, "berg", "berg"),
        ("(\U0001f600) berg.", 1, 3, "\U0001f600) berg", "(\U0001f600) berg."),
        ("Japanese-\u00a0cafe", 0, 0, "Japan", "Japanese-\u00a0cafe"),
    ],
)
def test_answers_of_own_tasks_and_of_the_authors(
    tokenizer, context, first, last, answer, authors
):
    found = context_pieces(tokenizer.tokenizer, tf.constant(["x", context]))
    pieces = tf.constant([first + 1]), tf.constant([last + 1])
    for find, wanted in (
        (found.character_span, answer),
        (found.authors_character_span, authors),
    ):
        (start,), (end,) = find(*pieces)
        assert context[int(start) : int(end)] == wanted
