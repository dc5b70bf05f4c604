"""Tests of example construction against construction in plain Python."""

import random

import pytest

from pretrain_data.build.example_builder import ExampleBuilder
from pretrain_data.build.example_writer import ExampleSerializer
from tests.pretrain_data.build.plain_examples import plain_examples


@pytest.mark.parametrize("max_seq_length", [5, 7, 16, 64])
@pytest.mark.parametrize("blanks_separate_docs", [True, False])
def test_same_examples_and_draws_as_in_plain_python(
    vocabulary, max_seq_length, blanks_separate_docs
):
    rng = random.Random(max_seq_length)
    # A word stands for that many tokens; lines may be blank or have no tokens.
    words = ["", "", "0", "1", "2", "5", "9", "30", "200"]
    files = ["\n".join(rng.choices(words, k=200)) for _ in range(3)]

    def tokenize(line: str) -> list[int]:
        return list(range(100, 100 + int(line or 0)))

    expected, next_random = plain_examples(
        files,
        tokenize,
        vocabulary.cls_id,
        vocabulary.sep_id,
        max_seq_length,
        seed=3,
        blanks_separate_docs=blanks_separate_docs,
    )
    rng = random.Random(3)
    builder = ExampleBuilder(vocabulary, max_seq_length, rng)
    examples = []
    for content in files:
        lines = content.split("\n")
        for line in lines if lines[-1] else lines[:-1]:
            if line:
                examples.append(builder.add_line(tokenize(line)))
            elif blanks_separate_docs:
                examples.append(builder.end_document())
        examples.append(builder.end_document())
    examples = [example for example in examples if example]
    actual = [{"input_ids": list(e.input_ids), "segment_ids": e.segment_ids} for e in examples]
    assert actual == expected
    assert rng.random() == next_random
    assert max(len(e.input_ids) for e in examples) == max_seq_length


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
    example = builder.end_document()
    example.input_ids.extend([16383, 16384, 2**21])
    record = ExampleSerializer(300, 2**21 + 1).serialize(example)
    features = tf.train.Example.FromString(record).features.feature
    assert sorted(features) == ["input_ids", "input_mask", "segment_ids"]
    ids = [2, 5, 127, 128, 4095, 3, 16383, 16384, 2**21]
    assert features["input_ids"].int64_list.value == ids + [0] * 291
    assert features["input_mask"].int64_list.value == [1] * 9 + [0] * 291
    assert features["segment_ids"].int64_list.value == [0] * 6 + [1] * 3 + [0] * 291
    canonical = tf.train.Example.FromString(record).SerializeToString(deterministic=True)
    assert record == canonical
