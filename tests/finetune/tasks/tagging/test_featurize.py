import pytest

from finetune.data.features import DataReport
from finetune.tasks.tagging.examples import TaggingExample
from finetune.tasks.tagging.featurize import CUT_WORDS, HAS_SPACE, NO_PIECES, tagging_rows
from tests.finetune.tasks.text.tiny import CLS, SEP, UNK, A, B, C, D, X, Y, make_tokenizer


@pytest.fixture
def featurize(tmp_path):
    """Returns a function that gives ids, positions, labels and reports of a sentence."""

    def featurize(words, max_seq_length, **given):
        report = DataReport("t", "dev")
        example = TaggingExample(3, tuple(words), ())
        labels = list(range(1, len(words) + 1))
        tokenizer = make_tokenizer(tmp_path)
        (row,) = tagging_rows(
            "t", [example], [labels], tokenizer, max_seq_length, report, **given
        )
        assert row["segment_ids"].tolist() == [1] * len(row["input_ids"])
        assert row["t_labels_mask"].tolist() == [1] * len(row["t_labels"])
        assert row["t_eid"] == 3
        found = (
            row[name].tolist() for name in ("input_ids", "t_labeled_positions", "t_labels")
        )
        return (*found, dict(report.problems))

    return featurize


def cut(words):
    return {CUT_WORDS: [{"eid": 3, "words": words}]}


@pytest.mark.parametrize(
    ("words", "length", "input_ids", "positions", "problems"),
    [
        (["a", "bxy", "c"], 7, [CLS, A, B, X, Y, C, SEP], [1, 2, 5], {}),
        (["a", "bxy", "c"], 6, [CLS, A, B, X, Y, SEP], [1, 2], cut(1)),
        # A later word that would fit is not put in place of one that does not.
        (["a", "bxy", "c"], 5, [CLS, A, SEP], [1], cut(2)),
        (["bxy"], 4, [CLS, SEP], [], cut(1)),
        (["a", "\u200b", "c"], 8, [CLS, A, UNK, C, SEP], [1, 2, 3], None),
        (["A", "é", "c"], 8, [CLS, A, D + 1, C, SEP], [1, 2, 3], {}),
    ],
)
def test_whole_words_that_fit(featurize, words, length, input_ids, positions, problems):
    found = featurize(words, length)
    assert found[:2] == (input_ids, positions)
    assert found[2] == list(range(1, len(positions) + 1))
    if problems is None:
        problems = {NO_PIECES: [{"eid": 3, "word": "\u200b"}]}
    assert found[3] == problems


@pytest.mark.parametrize("space", [" ", "\u00a0", "\u3000"])
def test_words_that_exports_divide_are_reported(featurize, space):
    """Vietnamese words of several syllables have spaces in them."""
    word = f"bx{space}d"
    input_ids, positions, _, problems = featurize(["a", word, "c"], 9)
    assert (input_ids, positions) == ([CLS, A, B, X, D, C, SEP], [1, 2, 5])
    assert problems == {HAS_SPACE: [{"eid": 3, "word": word}]}


def test_a_word_that_looks_like_a_special_token_is_a_word(featurize):
    input_ids, positions, labels, _ = featurize(["a", "[SEP]", "b"], 8)
    assert input_ids == [CLS, A, UNK, UNK, UNK, B, SEP]
    assert positions == [1, 2, 5]
    assert labels == [1, 2, 3]


def test_authors_truncation(featurize):
    # 4 words and 2 special tokens: the sentence ends when 6 + its tokens + 1 exceed 9.
    words = ["a", "bx", "c", "d"]
    found = featurize(words, 9, authors_truncation=True)
    assert found == ([CLS, A, B, X, SEP], [1, 2], [1, 2], cut(2))
    assert featurize(words, 7, authors_truncation=True)[0] == [CLS, SEP]
    assert featurize(words, 6, authors_truncation=True)[:2] == ([SEP], [])
    assert featurize(words, 12, authors_truncation=True)[1] == [1, 2, 4, 5]


def test_authors_special_words_shift_labels(featurize):
    found = featurize(["a", "[SEP]", "\u200b", "b"], 20, authors_truncation=True)
    assert found[:3] == ([CLS, A, SEP, B, SEP], [1, 3, 3], [1, 2, 3])
