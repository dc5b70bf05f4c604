"""Tests of the splitting of lines into sentences."""

import random

import pytest

from electra_tf.util.errors import UserError
from pretrain_data.corpus import sentences
from pretrain_data.corpus.blocks import Block
from pretrain_data.corpus.documents import document_spans
from pretrain_data.corpus.sentences import SentenceSplitter, check_sentences
from tests.electra_tf.text.plain_tokenizer import plain_tokenize

pytest.importorskip("sentencex", reason="needs electra-tf[corpus]")


def block(lines, **settings) -> Block:
    return Block(lines, 10, 5, 1, True, "a.txt", **settings)


@pytest.mark.parametrize(
    ("language", "line", "expected"),
    [
        (
            "en",
            'Mr. Smith left at 5 p.m. yesterday. "Go away!" she said.  It cost $3.14.',
            [
                "Mr. Smith left at 5 p.m. yesterday. ",
                '"Go away!" she said.  ',
                "It cost $3.14.",
            ],
        ),
        ("ko", "안녕하세요. 저는 학생입니다!", ["안녕하세요. ", "저는 학생입니다!"]),
        ("zh", "你好。我是学生！", ["你好。", "我是学生！"]),
        ("de", "Am 3. Mai kam Dr. Kohl. Er ging.", ["Am 3. Mai kam Dr. Kohl. ", "Er ging."]),
        ("en", "no end", ["no end"]),
        ("en", "  \t", ["  \t"]),
        ("en", "", [""]),
    ],
)
def test_sentences_of_a_line(language, line, expected):
    assert SentenceSplitter(language).split_line(line) == expected


def test_sentences_have_the_tokens_of_the_line_and_none_is_blank(vocabulary):
    splitter = SentenceSplitter("en")
    rng = random.Random(0)
    parts = ["the", "sea", ".", "!", "?", '"', "'", "Mr.", "3.", "a)", "(", " ", "  ", "\t"]
    parts += [
        "\u3002",
        "\u6d77",
        "\u00a0",
        "\x85",
        "\u2028",
        "\u0301",
        "\u200b",
        "\r",
        "\u0964",
    ]
    num_split = 0
    for _ in range(1500):
        line = "".join(rng.choices(parts, k=rng.randint(1, 30)))
        split = splitter.split_line(line)
        num_split += len(split) > 1
        assert "".join(split) == line
        assert len(split) == 1 or not any(sentence.isspace() for sentence in split)
        tokens = [token for part in split for token in plain_tokenize(part, vocabulary)]
        assert tokens == plain_tokenize(line, vocabulary), split
    assert num_split > 300


def test_a_cut_inside_of_a_word_is_none(monkeypatch):
    splitter = SentenceSplitter("en")
    cuts = ["wo", "rd. ", " ", "Next", ". End"]
    monkeypatch.setattr(splitter, "_segment", lambda language, line: cuts)
    assert splitter.split_line("".join(cuts)) == ["word.  ", "Next", ". End"]


def test_documents_of_a_block_end_where_they_did():
    splitter = SentenceSplitter("en")
    lines = ["One here. Two here.", "", "Three here."]
    text = splitter.split_block(block(lines, continues_line=True, ends_line=False))
    assert text.lines == ["One here. ", "Two here.", "", "Three here."]
    assert (text.continues_line, text.ends_line, text.num_repairs) == (True, False, 1)
    assert [span[:2] for span in document_spans(text, True)] == [(0, 2), (3, 4)]
    records = splitter.split_block(block(lines, document_ends=(0, 1, 3)))
    assert records.document_ends == (0, 2, 4)


def test_an_unknown_choice_and_a_missing_package_are_one_line(monkeypatch):
    with pytest.raises(UserError, match="--sentences must be one of lines, split, not x"):
        check_sentences("x", "en")
    with pytest.raises(UserError, match=r"--sentence_language must be .* not 'English'"):
        check_sentences("split", "English")
    monkeypatch.setitem(__import__("sys").modules, "sentencex", None)
    check_sentences("lines", "en")
    with pytest.raises(UserError, match=r"--sentences=split needs .*electra-tf\[corpus\]"):
        check_sentences("split", "en")
    with pytest.raises(UserError, match=r"electra-tf\[corpus\]"):
        sentences.SentenceSplitter("en")
