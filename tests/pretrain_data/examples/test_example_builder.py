"""Tests of example construction: no token is lost, and text is cut at its boundaries."""

import random
from array import array

import pytest

from electra_tf.text.framing import frame
from pretrain_data.examples.example_builder import ExampleBuilder
from pretrain_data.examples.example_writer import ExampleSerializer
from pretrain_data.examples.packing_builder import PackingExampleBuilder
from pretrain_data.examples.text_boundaries import TextBoundaries

CLS, SEP = 2, 3


class CertainDraws(random.Random):
    """Draws that are always 0.5: two segments, and rows of full length."""

    def random(self) -> float:
        return 0.5


def tokens_of(example) -> list[int]:
    """Returns the ids without [CLS] and [SEP]."""
    tokens = [i for i in example.input_ids if i not in (CLS, SEP)]
    assert len(tokens) == len(example.input_ids) - example.num_special
    return tokens


def words(example, vocabulary) -> tuple[str, str]:
    """Returns the two segments as text."""
    tokens = [vocabulary.tokens[i] for i in example.input_ids]
    first, second = tokens[1 : example.first_length - 1], tokens[example.first_length : -1]
    return " ".join(first), " ".join(second)


@pytest.mark.parametrize("builder_class", [ExampleBuilder, PackingExampleBuilder])
@pytest.mark.parametrize("seed", range(20))
def test_every_token_is_in_the_examples_once_and_in_order(vocabulary, seed, builder_class):
    rng = random.Random(seed)
    max_length = rng.choice([5, 6, 8, 16, 32, 64])
    sentences = rng.random() < 0.5
    builder = builder_class(vocabulary, max_length, rng, lines_are_sentences=sentences)
    packs = builder_class is PackingExampleBuilder
    ids = [vocabulary.ids[token] for token in ("the", "sea", ".", ",", "##s", '"', "a", "1")]
    examples, expected = [], []
    for _ in range(200):
        line = rng.choices(ids, k=rng.choice([0, 1, 3, 9, 30, 200]))
        expected += line
        piece = rng.randint(0, len(line))
        if rng.random() < 0.3:
            examples += builder.add_line(line[:piece], complete=False)
            line = line[piece:]
        examples += builder.add_line(array("i", line))
        if rng.random() < 0.1:
            num_before = sum(len(tokens_of(example)) for example in examples)
            examples += builder.end_document()
            num_after = sum(len(tokens_of(example)) for example in examples)
            assert num_before <= num_after <= len(expected)
            assert num_after > len(expected) - max_length if packs else len(expected)
    examples += builder.end_document()
    examples += builder.finish()
    assert [i for example in examples for i in tokens_of(example)] == expected
    assert builder.dropped_tokens == {}
    assert max(len(example.input_ids) for example in examples) <= max_length
    for example in examples:
        ids = list(example.input_ids)
        assert ids[0] == CLS
        assert ids[-1] == ids[example.first_length - 1] == SEP
        assert ids.count(SEP) == example.num_special - 1
        assert packs or example.num_special <= 3


def test_long_lines_are_cut_at_sentences_then_at_words(vocabulary):
    sentence = ["the"] * 13 + ["."]
    builder = ExampleBuilder(vocabulary, 32, CertainDraws())

    def build(*lines: list[str]) -> list[tuple[str, str]]:
        examples = []
        for line in lines:
            examples += builder.add_line([vocabulary.ids[token] for token in line])
        examples += builder.end_document()
        return [words(example, vocabulary) for example in examples]

    text = " ".join(sentence)
    # Two sentences fit into 29 tokens, and are the segments.
    assert build(sentence * 5) == [(text, text), (text, text), (text, "")]
    # Lines end sentences, too.
    verse = ["sea"] * 13
    assert build(verse, verse, verse) == [(" ".join(verse),) * 2, (" ".join(verse), "")]
    # No sentence ends: cut before a word, never before a continuation.
    word = ["people", "##s", "##s"]
    examples = build(word * 20)
    assert [len(" ".join(e).split()) for e in examples] == [27, 27, 6]
    for first, second in examples:
        assert first.startswith("people")
        assert not second or second.startswith("people")
    # A word that is longer than the row is the only one to be cut.
    assert [len(" ".join(e).split()) for e in build(["people"] + ["##s"] * 40)] == [29, 12]


def test_lines_that_are_sentences_are_not_cut_behind_abbreviations(vocabulary):
    ids = vocabulary.ids
    line = [ids["the"]] * 9 + [ids["."]]
    title = [ids["sea"], ids["."], ids["people"]] * 5
    rows = []
    for known in (False, True):
        builder = ExampleBuilder(vocabulary, 32, CertainDraws(), lines_are_sentences=known)
        lines = [line, line, title, line]
        examples = [example for each in lines for example in builder.add_line(each)]
        rows.append([len(tokens_of(e)) for e in examples + builder.end_document()])
    assert rows == [[28, 17], [20, 25]]


def test_rows_go_on_with_the_next_document(vocabulary):
    builder = PackingExampleBuilder(vocabulary, 24, CertainDraws())
    rows = []

    def add(document: str) -> None:
        for line in document.split(" | "):
            rows.extend(builder.add_line([vocabulary.ids[token] for token in line.split()]))
        rows.extend(builder.end_document())

    for document in [
        "the sea . | the town .",
        "people ##s .",
        "the sea and the town and the sea . | the sea .",
        "town " * 8 + ". | " + "sea " * 20 + ".",
        "the people",
    ]:
        add(document.strip())
    rows += builder.finish()
    expected = [
        # Ends behind the sentence that fits.
        "[CLS] the sea . the town . [SEP] people ##s . [SEP] "
        "the sea and the town and the sea . [SEP]",
        "[CLS] the sea . [SEP] town town town town town town town town . [SEP]",
        # Half full, since nothing that ends a sentence fits, and then alone.
        "[CLS] " + "sea " * 20 + ". [SEP]",
        "[CLS] the people [SEP]",
    ]
    assert [" ".join(vocabulary.tokens[i] for i in row.input_ids) for row in rows] == expected
    assert [row.first_length for row in rows] == [8, 5, 23, 4]
    assert rows[0].segment_ids == [0] * 8 + [1] * 14
    assert builder.num_packed == 2
    assert builder.num_documents == 5
    assert builder.finish() == []


def test_packed_rows_have_less_padding(vocabulary):
    rng = random.Random(0)
    line = [vocabulary.ids["sea"]] * 5
    padding = []
    for builder_class in (ExampleBuilder, PackingExampleBuilder):
        builder, rows = builder_class(vocabulary, 64, random.Random(0)), []
        for _ in range(300):
            for _ in range(rng.randint(1, 12)):
                rows += builder.add_line(line)
            rows += builder.end_document()
        rows += builder.finish()
        padding.append(1 - sum(len(row.input_ids) for row in rows) / (64 * len(rows)))
    assert padding[0] > 0.4
    assert padding[1] < 0.1


def test_rows_are_at_least_half_full(vocabulary):
    builder = ExampleBuilder(vocabulary, 32, CertainDraws())
    line = [vocabulary.ids[token] for token in ["the"] * 5 + ["."] + ["sea"] * 50]
    examples = builder.add_line(line)
    assert len(examples[0].input_ids) == 32


@pytest.mark.parametrize(
    ("tokens", "boundaries"),
    [
        ("the sea . the people", [3]),
        ('the sea . " the people', [4]),
        ("the sea . . . the people", [5]),
        ("the sea ! ) the people ? the", [4, 7]),
        ("3 . 1 the 1 . 2", []),
        ("the j . sea", []),
        ("the . ##s sea", []),
        ("the sea , the ; people", []),
    ],
)
def test_sentences_end_behind_their_punctuation(vocabulary, tokens, boundaries):
    ids = [vocabulary.ids[token] for token in tokens.split()]
    text = TextBoundaries(vocabulary)
    found = [
        position
        for position in range(1, len(ids))
        if text.last_sentence_boundary(ids, position, position)
    ]
    assert found == boundaries
    if found:
        assert text.first_sentence_boundary(ids, 1, len(ids) - 1) == found[0]
        assert text.last_sentence_boundary(ids, 1, len(ids) - 1) == found[-1]


def test_most_examples_have_two_segments_and_some_are_short(vocabulary):
    builder = ExampleBuilder(vocabulary, 64, random.Random(3))
    sentence = [vocabulary.ids[token] for token in ["the"] * 9 + ["."]]
    for line in (sentence, sentence * 1000):
        examples = [e for _ in range(5000 * 10 // len(line)) for e in builder.add_line(line)]
        two = sum(e.first_length < len(e.input_ids) for e in examples) / len(examples)
        short = sum(len(e.input_ids) < 50 for e in examples) / len(examples)
        assert 0.8 < two < 0.95
        assert 0.01 < short < 0.08


def test_counts_documents(vocabulary):
    builder = ExampleBuilder(vocabulary, 16, random.Random(0))
    for line in ["a", "b", "", "", "c", "", "d"]:
        _ = builder.add_line([7]) if line else builder.end_document()
    builder.end_document()
    builder.end_document()
    assert builder.num_documents == 3


def test_bytes_parse_as_an_example_of_the_authors_format(vocabulary):
    import tensorflow as tf

    builder = ExampleBuilder(vocabulary, 300, random.Random(1))
    builder.add_line([5, 127, 128, 4095])
    (example,) = builder.end_document()
    example.input_ids.extend([16383, 16384, 2**21])
    other = frame(vocabulary, [9] * 200, [130])
    serializer = ExampleSerializer(300, 2**21 + 1)
    assert serializer.serialize([]) == []
    _, record, _ = records = serializer.serialize([other, example, other])
    assert records[::2] == serializer.serialize([other]) * 2
    features = tf.train.Example.FromString(record).features.feature
    assert sorted(features) == ["input_ids", "input_mask", "segment_ids"]
    ids = [2, 5, 127, 128, 4095, 3, 16383, 16384, 2**21]
    assert features["input_ids"].int64_list.value == ids + [0] * 291
    assert features["input_mask"].int64_list.value == [1] * 9 + [0] * 291
    assert features["segment_ids"].int64_list.value == [0] * 6 + [1] * 3 + [0] * 291
    canonical = tf.train.Example.FromString(record).SerializeToString(deterministic=True)
    assert record == canonical
