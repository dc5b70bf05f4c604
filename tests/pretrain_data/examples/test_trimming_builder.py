"""Tests of the authors' construction of examples, against one in plain Python."""

import random

import pytest

from pretrain_data.examples.trimming_builder import TrimmingExampleBuilder
from tests.pretrain_data.examples.plain_examples import plain_examples


@pytest.mark.parametrize("max_seq_length", [5, 7, 16, 64])
@pytest.mark.parametrize("blanks_separate_docs", [True, False])
@pytest.mark.parametrize("piece_length", [1, 7, 1000])
def test_same_examples_and_draws_as_in_plain_python(
    vocabulary, max_seq_length, blanks_separate_docs, piece_length
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
    builder = TrimmingExampleBuilder(vocabulary, max_seq_length, rng)
    examples, num_tokens = [], 0
    for content in files:
        lines = content.split("\n")
        for line in lines if lines[-1] else lines[:-1]:
            if line:
                ids = tokenize(line)
                num_tokens += len(ids)
                # A long line comes in pieces.
                while len(ids) > piece_length:
                    assert builder.add_line(ids[:piece_length], complete=False) == []
                    ids = ids[piece_length:]
                examples += builder.add_line(ids)
            elif blanks_separate_docs:
                examples += builder.end_document()
        examples += builder.end_document()
    actual = [{"input_ids": list(e.input_ids), "segment_ids": e.segment_ids} for e in examples]
    assert actual == expected
    assert rng.random() == next_random
    assert max(len(e.input_ids) for e in examples) == max_seq_length
    written = sum(len(e.input_ids) - 2 - any(e.segment_ids) for e in examples)
    assert written + sum(builder.dropped_tokens.values()) == num_tokens
    assert min(builder.dropped_tokens.values()) > 0
