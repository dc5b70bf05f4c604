"""Tests of vocabulary files."""

import hashlib

import numpy as np
import pytest

from electra_tf.text.vocabulary import (
    MODEL_FLAG,
    describe_other_tokens,
    load_model_vocabulary,
    load_vocabulary,
)
from electra_tf.util.errors import UserError

SPECIAL = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n"


def test_ids_are_line_numbers(tmp_path):
    path = tmp_path / "vocab.txt"
    content = (SPECIAL + "a\n##b \nc\u2028d\n").encode()
    path.write_bytes(content)
    vocabulary = load_vocabulary(path)
    assert vocabulary.tokens == (
        *("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"),
        *("a", "##b", "c\u2028d"),
    )
    assert vocabulary.size == 8
    assert vocabulary.ids["##b"] == 6
    assert vocabulary.sha256 == hashlib.sha256(content).hexdigest()


def test_words_are_counted_by_their_first_pieces(tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_text(SPECIAL + "a\n##b\n")
    ids = np.array([2, 5, 6, 6, 1, 4, 5, 3, 0, 0])  # a##b##b [UNK] [MASK] a
    assert load_vocabulary(path).count_words(ids) == 4


def test_special_tokens_may_be_anywhere(tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_text("a\n[MASK]\n[SEP]\n[CLS]\n[UNK]\n[PAD]")
    vocabulary = load_vocabulary(path)
    special_ids = (vocabulary.mask_id, vocabulary.sep_id, vocabulary.cls_id)
    assert special_ids == (1, 2, 3)
    assert (vocabulary.unk_id, vocabulary.pad_id) == (4, 5)


def test_bert_vocabulary_is_the_published_one(bert_vocabulary):
    assert bert_vocabulary.size == 30522
    assert bert_vocabulary.mask_id == 103
    assert bert_vocabulary.sha256.startswith("07eced375cec144d")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (SPECIAL + "a\nb\na\n", "token 'a' is on line 6 and again on line 8"),
        (SPECIAL + "a\n\nb\n", "line 7 is empty"),
        (SPECIAL + "a\n\n", "line 7 is empty"),
        ("\ufeff" + SPECIAL + "a\n", r"starts with a byte order mark \(U\+FEFF\)"),
        (SPECIAL.replace("[MASK]", "x"), r"lacks the special token \[MASK\];"),
        ("a\n", r"lacks the special tokens \[PAD\], \[UNK\], \[CLS\], \[SEP\], \[MASK\];"),
        ("", "line 1 is empty"),
    ],
)
def test_bad_vocabularies_are_refused(tmp_path, content, message):
    path = tmp_path / "vocab.txt"
    path.write_text(content)
    with pytest.raises(UserError, match=rf"vocab\.txt \(--vocab-file\).*{message}"):
        load_vocabulary(path)


def test_missing_file_and_wrong_encoding_are_named(tmp_path):
    with pytest.raises(UserError, match=r"none\.txt \(--my-flag\) does not exist"):
        load_vocabulary(tmp_path / "none.txt", flag="--my-flag")
    (tmp_path / "tokenizer.json").write_text("{}")
    message = r"does not exist: it is inside tokenizer\.json, from which convert_checkpoint\.py"
    with pytest.raises(UserError, match=message):
        load_vocabulary(tmp_path / "none.txt")
    path = tmp_path / "latin.txt"
    path.write_bytes(SPECIAL.encode() + b"caf\xe9\n")
    with pytest.raises(UserError, match="not UTF-8: invalid byte at offset 34"):
        load_vocabulary(path)


def test_embeddings_without_a_token_get_an_unused_one(tmp_path, capsys):
    path = tmp_path / "vocab.txt"
    path.write_text(SPECIAL + "a\n")
    given = load_vocabulary(path)
    assert load_model_vocabulary(path, 6) == given
    assert capsys.readouterr().err == ""
    padded = load_model_vocabulary(path, 8)
    assert padded.tokens == (*given.tokens, "[unused_row_6]", "[unused_row_7]")
    assert (padded.size, padded.ids["[unused_row_7]"], padded.ids["a"]) == (8, 7, 5)
    assert padded.sha256 == given.sha256
    assert capsys.readouterr().err == (
        f"warning: {path} has 6 entries, fewer than --vocab_size=8: the last 2 embeddings have "
        "no token\n"
    )
    with pytest.raises(UserError, match=r"--vocab_size is 5, but .* has 6 entries: pass"):
        load_model_vocabulary(path, 5)
    # Exports have no such flag.
    load_model_vocabulary(path, 7, MODEL_FLAG)
    assert "6 entries, fewer than the model's 7: the last 1" in capsys.readouterr().err
    with pytest.raises(
        UserError, match=r"^--model_dir: the model has 5 .*, so it belongs to another"
    ):
        load_model_vocabulary(path, 5, MODEL_FLAG)


@pytest.mark.parametrize(
    ("given", "model", "said"),
    [
        ("a\nb\n", "a\nb", None),
        ("a \r\nb\n", "a\nb\n", None),
        ("a\nb\nc\n", "a\nb\n", None),
        ("a\nmine\n", "a\n[unused7]\n", None),
        ("a\nc\nb\n", "a\nb\nc\n", "2 of 3 tokens, such as 'c' instead of 'b' on line 2"),
    ],
)
def test_other_tokens_than_a_model_has(given, model, said):
    assert describe_other_tokens(given.encode(), model.encode()) == said
