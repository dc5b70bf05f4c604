"""Tests of the training of vocabularies."""

import gzip
import itertools
import pathlib

import pytest

from electra_tf.text.tokenizer import Tokenizer
from electra_tf.text.vocabulary import (
    SPECIAL_TOKENS,
    Vocabulary,
    VocabularyBuildConfig,
    load_vocabulary,
)
from electra_tf.util.errors import UserError
from pretrain_data.build.vocabulary_builder import build_vocabulary, count_words, learn_pieces
from pretrain_data.corpus.text_files import find_corpus

NO_MESSAGES = {"print_fn": lambda message: None}
# Ninety stems with five endings each, so that pieces pay.
WORD_COUNTS = {
    f"{first}{vowel}{last}{ending}": 5 + (7 * i + 11 * j) % 13
    for i, (first, vowel, last) in enumerate(itertools.product("wjpscl", "aeiou", "kmt"))
    for j, ending in enumerate(("", "s", "ed", "ing", "er"))
}


@pytest.fixture
def text_dir(tmp_path) -> pathlib.Path:
    directory = tmp_path / "text"
    (directory / "below").mkdir(parents=True)
    text = "\n".join(f"{word} " * count for word, count in WORD_COUNTS.items())
    (directory / "a.txt").write_text("The Caf\u00e9, the caf\u00e9.\n\n" + text)
    with gzip.open(directory / "below/b.txt.gz", "wt", encoding="utf-8") as f:
        f.write("\ud55c\uad6d \ub9d0 \ud55c\uad6d\uc5b4\n")
    return directory


def build(text_dir: pathlib.Path, name: str = "vocab.txt", **settings) -> Vocabulary:
    settings = {"vocab_size": 200, **settings}
    output_file = text_dir.parent / "out" / name
    config = VocabularyBuildConfig(text_dir, output_file, **settings)
    return build_vocabulary(config, **NO_MESSAGES)


def test_words_are_those_of_the_tokenizer(text_dir):
    corpus = find_corpus(text_dir)
    stripped = count_words(corpus, do_lower_case=True, strip_accents=True)
    assert {w: n for w, n in stripped.items() if w in ("the", "cafe", ",", ".")} == {
        **{"the": 2, "cafe": 2, ",": 1, ".": 1}
    }
    assert {w: n for w, n in stripped.items() if w in WORD_COUNTS} == WORD_COUNTS
    # Decomposed syllables: three letters each.
    assert stripped["\u1112\u1161\u11ab\u1100\u116e\u11a8"] == 1
    cased = count_words(corpus, do_lower_case=False, strip_accents=False)
    assert (cased["The"], cased["the"], cased["Caf\u00e9"], cased["\ud55c\uad6d"]) == (1,) * 4


@pytest.mark.parametrize("vocab_size", [130, 131, 300])
def test_the_size_is_exact_and_frequent_pieces_are_found(vocab_size):
    pieces = learn_pieces(WORD_COUNTS, vocab_size, **NO_MESSAGES)
    assert pieces[:5] == SPECIAL_TOKENS
    assert len(set(pieces)) == len(pieces) == vocab_size
    assert {"##s", "##ed", "##ing", "##er"} <= set(pieces)
    # Every letter, alone and as a continuation.
    letters = set("".join(WORD_COUNTS))
    assert letters | {f"##{letter}" for letter in letters} <= set(pieces)


def test_only_frequent_characters_are_in_a_small_vocabulary(text_dir):
    vocabulary = build(text_dir, vocab_size=130, strip_accents=False)
    texts = ["spingloc", "\ub9d0"]
    spelled, unknown = Tokenizer(vocabulary, strip_accents=False).tokenize(texts).to_list()
    assert vocabulary.unk_id not in spelled
    assert unknown == [vocabulary.unk_id]


def test_same_text_gives_the_same_file_whatever_the_order(text_dir):
    first = build(text_dir)
    (text_dir / "a.txt").rename(text_dir / "z.txt")
    second = build(text_dir, "second.txt")
    assert first.sha256 == second.sha256
    assert load_vocabulary(first.path).tokens == first.tokens
    assert sorted(p.name for p in first.path.parent.iterdir()) == ["second.txt", "vocab.txt"]


def test_an_existing_file_is_replaced_only_when_told(text_dir):
    first = build(text_dir)
    with pytest.raises(UserError, match=r"vocab\.txt \(--output-file\) exists.*--overwrite"):
        build(text_dir, vocab_size=150)
    assert load_vocabulary(first.path).sha256 == first.sha256
    assert build(text_dir, vocab_size=150, overwrite=True).size == 150


def test_bad_settings_are_refused_before_anything_is_written(text_dir):
    with pytest.raises(UserError, match=r"only \d+ distinct pieces.*--vocab-size=\d+ or less"):
        build(text_dir, vocab_size=5000)
    with pytest.raises(UserError, match="--vocab-size must be at least 32, not 8"):
        build(text_dir, vocab_size=8)
    (text_dir / "a.txt").write_text("\n \n")
    (text_dir / "below/b.txt.gz").unlink()
    with pytest.raises(UserError, match="contains no words"):
        build(text_dir)
    assert not (text_dir.parent / "out").exists()
    with pytest.raises(UserError, match=r"\(--output-file\) is a directory"):
        build(text_dir, name=str(text_dir))


def test_the_messages_name_the_next_command(text_dir):
    messages = []
    output_file = text_dir.parent / "my vocab.txt"
    config = VocabularyBuildConfig(text_dir, output_file, vocab_size=200, strip_accents=False)
    build_vocabulary(config, messages.append)
    assert "200 entries in" in messages[-1]
    assert f"--vocab-file '{output_file}'" in messages[-1]
    assert messages[-1].endswith(" --no-strip-accents")
