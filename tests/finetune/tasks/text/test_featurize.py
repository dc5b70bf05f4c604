import pytest

from electra_tf.text.framing import truncated_lengths
from finetune.data.features import DataReport
from finetune.tasks.text.examples import NO_TOKENS, TRUNCATED, InputExample, text_rows
from finetune.tasks.text.windows import window_rows
from tests.finetune.tasks.text.tiny import CLS, SEP, A, B, C, D, make_tokenizer


def one_by_one(length_a: int, length_b: int, room: int) -> tuple[int, int]:
    while length_a + length_b > room:
        if length_a > length_b:
            length_a -= 1
        else:
            length_b -= 1
    return length_a, length_b


def test_truncation_takes_tokens_from_the_longer_text():
    for room in range(1, 8):
        for length_a in range(10):
            for length_b in range(10):
                expected = one_by_one(length_a, length_b, room)
                assert truncated_lengths(length_a, length_b, room) == expected


@pytest.mark.parametrize(
    ("text_a", "text_b", "input_ids", "segment_ids", "reported"),
    [
        ("a b", None, [CLS, A, B, SEP], [0] * 4, []),
        ("a b", "", [CLS, A, B, SEP], [0] * 4, []),
        ("a", "b c", [CLS, A, SEP, B, C, SEP], [0, 0, 0, 1, 1, 1], []),
        ("a b c d a b", None, [CLS, A, B, C, D, A, SEP], [0] * 7, [(6, 5)]),
        ("a b c d", "d c b", [CLS, A, B, SEP, D, C, SEP], [0, 0, 0, 0, 1, 1, 1], [(7, 4)]),
        ("a", "d c b a", [CLS, A, SEP, D, C, B, SEP], [0, 0, 0, 1, 1, 1, 1], [(5, 4)]),
        ("", "a", [CLS, SEP, A, SEP], [0, 0, 1, 1], []),
    ],
)
def test_rows(tmp_path, text_a, text_b, input_ids, segment_ids, reported):
    report = DataReport("t", "dev")
    examples = [InputExample(4, text_a, text_b, "0")]
    (row,) = text_rows("t", examples, make_tokenizer(tmp_path), 7, report)
    assert row["input_ids"].tolist() == input_ids
    assert row["segment_ids"].tolist() == segment_ids
    assert row["t_eid"] == 4
    cases = report.problems.get(TRUNCATED, [])
    assert cases == [{"eid": 4, "tokens": tokens, "kept": kept} for tokens, kept in reported]


@pytest.mark.parametrize(
    ("text_a", "text_b", "is_reported"),
    [
        ("\u200b", None, True),
        ("a", "\ufeff \u200d", True),
        ("\U0001fae8", None, True),  # an emoji of Unicode 15
        ("a \u200b", "b", False),
        ("", " ", False),  # reported where it is read
    ],
)
def test_texts_without_tokens_are_reported(tmp_path, text_a, text_b, is_reported):
    examples = [InputExample(4, text_a, text_b, "0")]
    tokenizer = make_tokenizer(tmp_path)
    for rows, options in ((text_rows, ()), (window_rows, (2,))):
        report = DataReport("t", "dev")
        rows("t", examples, tokenizer, 7, *options, report)
        assert report.problems == ({NO_TOKENS: [{"eid": 4}]} if is_reported else {})
