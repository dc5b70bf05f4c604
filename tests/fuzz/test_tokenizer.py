"""The in-graph and the cached tokenizer against BERT's in plain Python."""

import unicodedata

import pytest
from hypothesis import strategies as st

from electra_tf.text.cached_tokenizer import CachedTokenizer
from electra_tf.text.tokenizer import Tokenizer
from tests.electra_tf.text.plain_tokenizer import plain_tokenize
from tests.electra_tf.text.test_tokenizer import MODES, letters_vocabulary, make_vocabulary
from tests.fuzz.inputs import FACTOR, tries

needs_unicode_14 = pytest.mark.skipif(
    unicodedata.unidata_version != "14.0.0",
    reason="the plain tokenizer has Python's Unicode version; the authors' data have 14.0",
)
CODE_POINTS = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
COMBINING = "".join(chr(c) for c in CODE_POINTS if unicodedata.category(chr(c)) == "Mn")[::37]
# Sigma is lowercased by its neighbors, in which the two differ (see the tokenizer).
letters = st.characters(exclude_categories=["Cs", "Cn", "Co"], exclude_characters="Σ")
words = st.sampled_from(
    [
        "the",
        "The",
        "THE",
        "café",
        "cafe\u0301",
        "İ",
        "ß",
        "ǅ",
        "ﬁ",
        "Å",
        "가",
        "각",
        "中文",
        "ㄱ",
    ]
)
pieces = letters | words | st.sampled_from([*COMBINING, " ", "\u3000", "\xa0", "\0", "\ufffd"])
random_texts = st.lists(pieces, max_size=12).map("".join)


@pytest.fixture(scope="module")
def tokenizers(bert_vocabulary):
    small = letters_vocabulary(set("abcdefghiéñ中文가각ß." + COMBINING))
    return {
        (name, mode): (vocabulary, CachedTokenizer(vocabulary, *mode))
        for name, vocabulary in (("bert", bert_vocabulary), ("small", small))
        for mode in MODES
    }


@needs_unicode_14
@tries(
    30,
    texts=st.lists(random_texts, min_size=20, max_size=60),
    mode=st.sampled_from(MODES),
    name=st.sampled_from(["bert", "small"]),
)
def test_random_texts(tokenizers, texts, mode, name):
    vocabulary, tokenizer = tokenizers[name, mode]
    in_graph = tokenizer.tokenizer.tokenize([text.encode() for text in texts]).to_list()
    cached = tokenizer.tokenize([text.replace("\n", " ") for text in texts])
    for text, ids, cached_ids in zip(texts, in_graph, cached, strict=True):
        expected = plain_tokenize(text, vocabulary, *mode)
        assert ids == expected, ascii(text)
        assert cached_ids.tolist() == expected, ascii(text)


@needs_unicode_14
@pytest.mark.parametrize("mode", MODES)
def test_every_code_point(mode):
    """All of them with FUZZ; in `make test` every 50th, and others are in test_tokenizer.py."""
    chosen = [chr(c) for c in CODE_POINTS[:: 1 if FACTOR > 1 else 50]]
    vocabulary = letters_vocabulary(set(chosen)) if FACTOR > 1 else make_vocabulary("a", "##a")
    tokenizer = Tokenizer(vocabulary, *mode)
    texts = [f"{c} a{c}a" for c in chosen]
    in_graph = tokenizer.tokenize([text.encode() for text in texts]).to_list()
    expected = [plain_tokenize(text, vocabulary, *mode) for text in texts]
    assert [ascii(t) for t, a, b in zip(texts, in_graph, expected, strict=True) if a != b] == []


@tries(20, rows=st.lists(st.binary(max_size=40), min_size=10, max_size=40))
def test_any_bytes_have_ids(tokenizers, rows):
    vocabulary, tokenizer = tokenizers["bert", (True, True)]
    for row, ids in zip(rows, tokenizer.tokenizer.tokenize(rows).to_list(), strict=True):
        assert ids == tokenizer.tokenizer.tokenize([row]).to_list()[0]
        assert all(0 <= i < vocabulary.size for i in ids)
