"""Words of a list, found by forward maximum matching, and masked as a whole."""

import importlib
import pathlib
import types

import numpy as np
import pytest
import tensorflow as tf

from electra_tf.config.pretraining import PretrainingConfig
from electra_tf.masking.base import NoHparams, TokenStatistics
from electra_tf.masking.masked_batch import mask_batch
from electra_tf.masking.whole_word import WholeWordMasking, number_words
from electra_tf.masking.word_list import WordTrie, load_word_list, word_list_sha256
from electra_tf.model.batch_types import PretrainInputs, SpecialTokenIds
from electra_tf.model.randomness import Randomness
from electra_tf.text.vocabulary import load_vocabulary
from electra_tf.util.errors import UserError

VOCAB_SIZE = 12
WORDS = [(5, 6), (5, 6, 7, 8), (7, 8), (8, 9, 5), (9, 5)]
TEXT = "我们在北京大学学习"
TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *sorted(set(TEXT)), "new", "york"]


def longest_first(row: list[int]) -> list[bool]:
    """Plain-Python forward maximum matching: which tokens continue a word."""
    continues, i = [], 0
    while i < len(row):
        lengths = (len(w) for w in WORDS if tuple(row[i : i + len(w)]) == w)
        length = max(lengths, default=1)
        continues += [False] + [True] * (length - 1)
        i += length
    return continues


@pytest.mark.parametrize("length", [1, 2, 7, 64])
def test_words_are_those_of_forward_maximum_matching(length):
    rows = np.random.default_rng(length).integers(4, 10, (200, length)).astype(np.int32)
    trie = WordTrie(WORDS, VOCAB_SIZE)
    assert trie.num_words == len(WORDS)
    for function in (trie.continues_word, tf.function(trie.continues_word, jit_compile=True)):
        found = function(tf.constant(rows)).numpy().tolist()
        assert found == [longest_first(row.tolist()) for row in rows]


def test_the_length_may_be_unknown():
    trie = WordTrie(WORDS, VOCAB_SIZE)
    signature = [tf.TensorSpec([None, None], tf.int32)]
    continues = tf.function(trie.continues_word, input_signature=signature)
    row = [2, 5, 6, 7, 9, 5, 3]
    assert continues(tf.constant([row])).numpy().tolist() == [longest_first(row)]


def test_words_are_units_of_whole_word_masking():
    #        CLS 5 6 7 8 | 5 6 | 9 ##10 SEP 7 8; the second word crosses no special token
    row = tf.constant([[2, 5, 6, 7, 8, 5, 6, 9, 10, 3, 7, 8]])
    tokens = TokenStatistics(np.arange(VOCAB_SIZE) == 10, words=WordTrie(WORDS, VOCAB_SIZE))
    candidates = row > 4
    words = number_words(row, candidates, tokens).numpy()[0]
    assert words.tolist() == [0, 1, 1, 1, 1, 2, 2, 3, 3, 4, 5, 5]
    key = tf.constant([1, 2], tf.uint32)
    order = WholeWordMasking(NoHparams(), tokens).order(row, candidates, key, 0)
    assert order.units.numpy()[0].tolist() == words.tolist()
    assert len(set(order.priority.numpy()[0, 1:5])) == 1


@pytest.fixture
def vocabulary(tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_text("\n".join(TOKENS) + "\n", encoding="utf-8")
    return load_vocabulary(path)


def load(source, vocabulary) -> WordTrie:
    return load_word_list(str(source), vocabulary, do_lower_case=True, strip_accents=True)


def test_a_model_without_the_list_does_not_mask(vocabulary, tmp_path):
    path = tmp_path / "words.txt"
    path.write_text("北京\n", encoding="utf-8")
    config = PretrainingConfig.create(
        data_dir="data", model_name="m", masking="whole_word", word_list=str(path)
    )
    row = tf.constant([[2, 5, 6, 7, 3]])
    features = dict(zip(PretrainInputs._fields[:3], (row, row > 0, row * 0), strict=True))

    def mask_with(words: WordTrie | None) -> PretrainInputs:
        tokens = TokenStatistics.of(vocabulary.tokens, words=words)
        strategy = WholeWordMasking(NoHparams(), tokens)
        special = SpecialTokenIds(vocabulary.cls_id, vocabulary.sep_id, vocabulary.mask_id)
        return mask_batch(config, special, strategy, features, randomness=Randomness(0, 0))

    assert mask_with(load(path, vocabulary)).masked_lm_positions.shape[0] == 1
    with pytest.raises(UserError, match=f"--word_list={path} has not been read"):
        mask_with(None)


def test_a_file_of_words_is_tokenized_as_the_records(vocabulary, tmp_path):
    path = tmp_path / "words.txt"
    lines = ["我们 1200 r", "北京", "北京大学 30", "New York", "学习\t5", "我", "没有", ""]
    path.write_text("\r\n".join(lines), encoding="utf-8")
    trie = load(path, vocabulary)
    assert trie.num_words == 5  # of one character, or unknown: the rest
    ids = {token: i for i, token in enumerate(vocabulary.tokens)}
    row = [ids[token] for token in (*TEXT, "new", "york")]
    lengths = trie.longest_matches(tf.constant([row], tf.int32)).numpy()[0]
    found = dict(zip((*TEXT, "new", "york"), lengths.tolist(), strict=True))
    assert (found["我"], found["北"], found["new"], found["在"]) == (2, 4, 2, 1)
    continues = trie.continues_word(tf.constant([row], tf.int32)).numpy()[0].astype(int)
    assert continues.tolist() == [0, 1, 0, 0, 1, 1, 1, 0, 1, 0, 1]  # 北京大学 | 学习


def test_the_dictionary_of_jieba_is_read(vocabulary, tmp_path, monkeypatch):
    (tmp_path / "dict.txt").write_text("北京 34488 ns\n", encoding="utf-8")
    package = types.SimpleNamespace(__file__=str(tmp_path / "__init__.py"))
    monkeypatch.setattr(importlib, "import_module", lambda name: {"jieba": package}[name])
    assert load("jieba", vocabulary).num_words == 1


def test_bad_word_lists_are_refused(vocabulary, tmp_path, monkeypatch):
    with pytest.raises(UserError, match=r"--word_list: .*missing.txt cannot be read"):
        load(tmp_path / "missing.txt", vocabulary)
    with pytest.raises(UserError, match=r"--word_list: .*cannot be read"):
        word_list_sha256(str(tmp_path))
    path: pathlib.Path = tmp_path / "words.txt"
    path.write_bytes("我们\n".encode() + "北京".encode("gb18030"))
    with pytest.raises(UserError, match=r"words.txt: line 2 is not UTF-8 \(byte 0xb1\)"):
        load(path, vocabulary)
    path.write_text("没有\n我\n", encoding="utf-8")
    with pytest.raises(
        UserError, match=r"none of the 3 lines of .*words.txt is a word of 2 to"
    ):
        load(path, vocabulary)
    given = {"data_dir": "d", "model_name": "m", "word_list": str(path)}
    with pytest.raises(UserError, match="--word_list needs --masking=whole_word"):
        PretrainingConfig.create(**given)
    assert PretrainingConfig.create(**given, masking="span").word_list == str(path)
