"""Tests of the in-graph tokenizer against tokenization in plain Python."""

import concurrent.futures
import os
import pickle
import random
import subprocess
import sys
import time
import unicodedata

import pytest
import tensorflow as tf

from electra_tf.text.cached_tokenizer import CachedTokenizer, CorpusTokenizer
from electra_tf.text.tokenizer import Tokenizer
from electra_tf.text.vocabulary import SPECIAL_TOKENS, Vocabulary
from electra_tf.util.errors import UserError
from tests.electra_tf.text.plain_tokenizer import plain_tokenize

MODES = [(True, True), (False, False), (True, False)]
CHARACTERS = {
    chr(c) for c in range(0x110000) if unicodedata.category(chr(c)) not in ("Cn", "Co", "Cs")
}


def make_vocabulary(*pieces: str) -> Vocabulary:
    tokens = (*SPECIAL_TOKENS, *dict.fromkeys(pieces))
    return Vocabulary(tokens, {token: i for i, token in enumerate(tokens)}, "", "made up")


def letters_vocabulary(characters: set[str]) -> Vocabulary:
    """Every character, and what lower-casing and decomposing make of it, is a piece."""
    found = set()
    for c in characters:
        decomposed = unicodedata.normalize("NFD", c.lower())
        found.update(c, c.lower(), decomposed, unicodedata.normalize("NFD", c))
    pieces = sorted(c for c in found if c.strip() and unicodedata.category(c)[0] != "C")
    return make_vocabulary(*pieces, *("##" + piece for piece in pieces))


def assert_same_ids(texts: list[str], vocabulary: Vocabulary, mode: tuple[bool, bool]) -> None:
    tokenizer = Tokenizer(vocabulary, *mode)
    in_graph = tokenizer.tokenize([text.encode() for text in texts]).to_list()
    cached = CorpusTokenizer(tokenizer).tokenize([text.replace("\n", " ") for text in texts])
    for text, ids, cached_ids in zip(texts, in_graph, cached, strict=True):
        expected = plain_tokenize(text, vocabulary, *mode)
        assert ids == expected, ascii(text)
        assert list(cached_ids) == expected, ascii(text)


def test_known_ids(bert_vocabulary):
    tokenizer = Tokenizer(bert_vocabulary)
    texts = ["Hello, World!", "caf\u00e9 unaffable", "[MASK]", "", "\u6771\u4eac"]
    assert tokenizer.tokenize(texts).to_list() == [
        [7592, 1010, 2088, 999],
        [7668, 14477, 20961, 3468],
        [1031, 7308, 1033],
        [],
        [1879, 1755],
    ]


@pytest.mark.skipif(
    unicodedata.unidata_version != "14.0.0",
    reason="the plain tokenizer has Python's Unicode version; the authors' data have 14.0",
)
@pytest.mark.parametrize("mode", MODES)
def test_every_character_alone_and_in_a_word(mode):
    han_and_hangul = {chr(c) for c in [*range(0x3400, 0xA000), *range(0xAC00, 0xD7A4)]}
    supplementary_han = {chr(c) for c in range(0x17000, 0x18D00)}
    supplementary_han |= {chr(c) for c in range(0x20000, 0x31350)}
    large = sorted(han_and_hangul | supplementary_han)
    characters = CHARACTERS - set(large) | set(large[::97])
    # Dropped ones: unassigned, for private use, and added in Unicode 15.
    characters |= set("\u0378\ue000\U000e0080\U000f0000\u0cf3\U0001fae8\U00031350\ufffd")
    vocabulary = letters_vocabulary(characters)
    texts = sorted(characters) + [f"ab{c}Ad" for c in sorted(characters)]
    # A line each for many characters would be slow: a space divides just as well.
    lines = [" ".join(texts[i : i + 100]) for i in range(0, len(texts), 100)]
    assert_same_ids(lines, vocabulary, mode)


@pytest.mark.parametrize("mode", MODES)
def test_random_texts(bert_vocabulary, mode):
    rng = random.Random(1)
    blocks = [
        list(range(32, 127)),
        list(range(256)),
        [*range(0x1C, 0x21), 0x85, 0xA0, 0x2028, 0x2029, 0x3000, 0x1680, 0xB, 0xC, 0xFFFD, 97],
        # What decides how a sigma is lower-cased: letters, marks, apostrophes.
        [0x3A3, 0x3C3, 0x391, 0x27, 0xAD, 0x301, 0x345, 0x2E, 0x20, 0x130, 0x49, 0xDF, 0x1E9E],
        list(range(0x300, 0x600)),
        [*range(0x4E00, 0x4E80), *range(0xAC00, 0xAC80)],
        [*range(0x1F300, 0x1F5FF), 0x200D, 0xFE0F],
    ]
    texts = [
        "".join(
            chr(c)
            for _ in range(rng.randint(0, 6))
            for c in rng.choices(rng.choice(blocks), k=5)
        )
        for _ in range(2000)
    ]
    assert_same_ids(texts, bert_vocabulary, mode)
    small = letters_vocabulary({chr(c) for block in blocks for c in block})
    assert_same_ids(texts, small, mode)


@pytest.mark.parametrize("letter", ["a", "1", "\u00f1", "\U0001d49c", "e\u0301"])
def test_words_of_more_than_200_code_points_are_unknown(letter):
    characters = set(letter) | set("\u00f1n1-")
    vocabulary = letters_vocabulary(characters)
    texts = [f"{letter * n}-{letter * 3} {letter}" for n in (99, 100, 101, 199, 200, 201, 400)]
    for mode in MODES:
        assert_same_ids(texts, vocabulary, mode)
    ids = Tokenizer(vocabulary, False).tokenize(["n" * 200, "n" * 201]).to_list()
    assert [len(ids[0]), ids[1]] == [200, [vocabulary.unk_id]]


def test_all_pairs_of_ascii_characters():
    characters = [chr(c) for c in range(128)]
    vocabulary = letters_vocabulary(set("abcXYZ019.,-'$") - {"$"})
    texts = [f"a{x}{y}c" for x in characters for y in characters]
    for mode in MODES:
        assert_same_ids(texts, vocabulary, mode)


def test_longest_piece_wins_and_a_rest_makes_the_word_unknown():
    vocabulary = make_vocabulary("un", "##aff", "##able", "unaff", "##a", "a")
    texts = ["unaffable", "unaffa", "unaffx", "a unable"]
    ids = Tokenizer(vocabulary).tokenize(texts).to_list()
    spelled = [[vocabulary.tokens[i] for i in row] for row in ids]
    assert spelled == [["unaff", "##able"], ["unaff", "##a"], ["[UNK]"], ["a", "un", "##able"]]


def test_an_entry_of_several_words_is_in_no_text():
    vocabulary = make_vocabulary("in fact", "in", "fact", "a\tb", "a")
    for mode in MODES:
        assert_same_ids(["in fact", "a\tb", "a in fact \u00e9"], vocabulary, mode)


def test_invalid_utf8_is_dropped_like_the_replacement_character(vocabulary):
    tokenizer = Tokenizer(vocabulary)
    broken, clean = tokenizer.tokenize(
        [b"sh\xffip of st\xe2\x82ate", b"ship of state"]
    ).to_list()
    assert broken == clean


def test_a_single_string_is_not_taken_for_texts_of_one_character(vocabulary):
    with pytest.raises(UserError, match="must be a list of strings, not 'the people'"):
        CachedTokenizer(vocabulary).tokenize("the people")


def test_cache_is_emptied_and_filled_again(vocabulary):
    tokenizer = CorpusTokenizer(Tokenizer(vocabulary), max_cached_words=3)
    lines = ["we the people", "of the united states", "in order to form", "we the people"]
    rows = [tokenizer.tokenize([line])[0] for line in lines]
    assert [list(row) for row in rows] == [plain_tokenize(line, vocabulary) for line in lines]


def test_each_word_is_tokenized_once_wherever_it_is_new(vocabulary, monkeypatch):
    tokenizer = Tokenizer(vocabulary)
    given = []

    def tokenize(words):
        given.extend(words)
        return Tokenizer.tokenize(tokenizer, words)

    monkeypatch.setattr(tokenizer, "tokenize", tokenize)
    cached = CorpusTokenizer(tokenizer)
    blocks = [
        ["we the people", "the states, the states,  of", "", "we the people"],
        ["of the people", "we form the order of we", "we the states, order"],
    ]
    for lines in blocks:
        rows = [list(row) for row in cached.tokenize(lines)]
        assert rows == [plain_tokenize(line, vocabulary) for line in lines]
    words = {word for lines in blocks for line in lines for word in line.split(" ")}
    assert sorted(given) == sorted(word.encode() for word in words)


def test_threads_share_a_tokenizer(vocabulary, monkeypatch):
    tokenizer = Tokenizer(vocabulary)

    def tokenize(words):
        time.sleep(0.05)  # for another thread to begin
        return Tokenizer.tokenize(tokenizer, words)

    monkeypatch.setattr(tokenizer, "tokenize", tokenize)
    cached = CorpusTokenizer(tokenizer)
    texts = ["we the people", "the states", "order of the people", "we form"]
    with concurrent.futures.ThreadPoolExecutor(len(texts)) as threads:
        rows = [list(row) for (row,) in threads.map(lambda x: cached.tokenize([x]), texts)]
    assert rows == [plain_tokenize(text, vocabulary) for text in texts]


def test_a_tokenizer_goes_to_another_process(vocabulary):
    tokenizer = pickle.loads(pickle.dumps(CachedTokenizer(vocabulary)))
    (ids,) = tokenizer.tokenize(["we the people"])
    assert ids.tolist() == plain_tokenize("we the people", vocabulary)


@pytest.mark.parametrize("outside", [-1, 10**6])
def test_ids_outside_of_the_vocabulary_have_no_tokens(vocabulary, outside):
    tokenizer = CachedTokenizer(vocabulary)
    assert tokenizer.tokens([vocabulary.cls_id]) == ["[CLS]"]
    with pytest.raises(UserError, match=f"from 0 to {vocabulary.size - 1}, not {outside}"):
        tokenizer.tokens([vocabulary.cls_id, outside])


def test_works_in_a_saved_model_in_a_process_of_another_locale(vocabulary, tmp_path):
    module = tf.Module()
    module.tokenizer = Tokenizer(vocabulary)
    signature = [tf.TensorSpec([None], tf.string)]
    module.ids = tf.function(
        lambda texts: module.tokenizer.tokenize(texts).to_tensor(-1), input_signature=signature
    )
    tf.saved_model.save(module, str(tmp_path / "saved"))
    # In Turkish, the lowercase letter of I has no dot.
    text = "We the people: na\u00efve \u6771\u4eac! IN \u0130N \u00ccN JUSTICE"
    program = (
        "import sys, tensorflow as tf, tensorflow_text\n"
        "module = tf.saved_model.load(sys.argv[1])\n"
        "print(module.ids(tf.constant([sys.argv[2]])).numpy()[0].tolist())\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "saved"), text],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "LC_ALL": "tr_TR.UTF-8"},
    )
    assert result.stdout.strip() == str(plain_tokenize(text, vocabulary))


def test_words_whose_tokenization_failed_are_tokenized_again(vocabulary, monkeypatch):
    tokenizer = Tokenizer(vocabulary)
    cached = CorpusTokenizer(tokenizer)

    def fail(words):
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(tokenizer, "tokenize", fail)
        with pytest.raises(MemoryError):
            cached.tokenize(["we the people"])
    rows = cached.tokenize(["we the people"])
    assert list(rows[0]) == plain_tokenize("we the people", vocabulary)
