"""Sentences in exported models."""

import sys

import tensorflow as tf

from finetune.tasks.tagging.serving import split_at_whitespace


def test_words_are_those_of_python():
    every = [chr(i) for i in range(sys.maxunicode + 1) if chr(i).isspace()]
    assert len(every) > 20
    near = ["\u200b", "\u180e", "\ufeff", "\x00", "\x1b", "\u2060", "\u0301"]
    texts = [f"a{character}b c" for character in every + near] + ["", "  ", "\u3000caf\u00e9\n"]
    words = split_at_whitespace(tf.constant(texts)).to_list()
    assert [[word.decode() for word in row] for row in words] == [t.split() for t in texts]


def test_invalid_utf_8_is_kept_for_the_tokenizer():
    words = split_at_whitespace(tf.constant([b"a\xff b", b"\xe3\x80 c"])).to_list()
    assert words == [[b"a\xff", b"b"], [b"\xe3\x80", b"c"]]
