"""Windows, positions of answers, and what is reported of them."""

import numpy as np
import pytest

from electra_tf.text.cached_tokenizer import CachedTokenizer
from electra_tf.text.vocabulary import SPECIAL_TOKENS, load_vocabulary
from electra_tf.util.errors import UserError
from finetune.data.features import DataReport
from finetune.tasks.qa.examples import Context, GivenAnswer, QuestionCollector
from finetune.tasks.qa.featurize import PART_OF_TOKEN, PART_OF_WORD, QAFeaturizer


def make_examples(*questions, v2=True):
    """Builds examples of (context, question, answer or None)."""
    builder = QuestionCollector(DataReport("squad", "train"), v2=v2, is_training=False)
    for number, (context, question, answer) in enumerate(questions):
        builder.add(
            Context(context),
            qas_id=f"q{number}",
            question=question,
            answers=[answer] if answer else [],
            located=GivenAnswer(answer) if answer else None,
            is_impossible=answer is None,
        )
    return builder.examples


@pytest.fixture
def featurize(make_config, tokenizer):
    def run(examples, **settings):
        featurizer = QAFeaturizer(make_config(**settings), "squad", tokenizer)
        report = DataReport("squad", "train")
        return featurizer.rows(examples, report), list(featurizer.windows(examples)), report

    return run


def answer_tokens(row, tokenizer):
    start, end = row["squad_start_positions"], row["squad_end_positions"]
    return tokenizer.tokens(row["input_ids"][start : end + 1])


def test_one_window(featurize, tokenizer):
    context = "The old bridge was built by Anna Berg."
    (row,), ((window,),), report = featurize(
        make_examples((context, "Who built it?", "Anna Berg"))
    )
    tokens = " ".join(tokenizer.tokens(row["input_ids"]))
    assert tokens == "[CLS] who built it ? [SEP] the old bridge was built by anna berg . [SEP]"
    assert row["segment_ids"].tolist() == [0] * 6 + [1] * 10
    assert row["input_ids"].dtype == row["segment_ids"].dtype == np.int32
    assert answer_tokens(row, tokenizer) == ["anna", "berg"]
    assert (row["squad_eid"], row["squad_is_impossible"]) == (0, 0)
    assert window.first_token == 6
    assert window.words.tolist() == [0, 1, 2, 3, 4, 5, 6, 7, 7]
    assert window.is_max_context.all()
    assert not report.problems


@pytest.mark.parametrize(
    ("answer", "tokens"),
    [
        ("1895", ["1895"]),
        ("Berg (1895", ["berg", "(", "1895"]),
        ("nese", ["japan", "##ese"]),  # no run of pieces of its own
        ("1895 1943", None),  # not in the context
    ],
)
def test_answers_are_narrowed_to_pieces(featurize, tokenizer, answer, tokens):
    context = "Japanese Berg (1895-1943)."
    (row,), _, report = featurize(make_examples((context, "Who?", answer)))
    assert (PART_OF_WORD in report.problems) == (answer == "nese")
    if tokens is None:
        assert (row["squad_start_positions"], row["squad_end_positions"]) == (0, 0)
    else:
        assert answer_tokens(row, tokenizer) == tokens


@pytest.mark.parametrize(
    ("start", "within_words", "position"),
    [(0, True, 3), (5, True, 5), (11, True, 7), (None, True, 3), (5, False, 3), (11, False, 7)],
)
def test_an_answer_that_occurs_several_times_is_found_at_its_place(
    featurize, start, within_words, position
):
    """Text without spaces is a single word, in which the authors take the first place."""
    collector = QuestionCollector(
        DataReport("squad", "train"), v2=False, is_training=True, within_words=within_words
    )
    collector.add(
        Context("1895\u30011895 (1895)"),
        qas_id="q",
        question="?",
        answers=["1895"],
        located=GivenAnswer("1895", start),
    )
    (row,), _, report = featurize(collector.examples)
    assert row["squad_start_positions"] == row["squad_end_positions"] == position
    assert not report.problems


@pytest.mark.parametrize(
    ("context", "answer", "start", "tokens", "learned"),
    [
        # The pieces of the answer alone are others than those in its word.
        ("Berg japaneseanna", "anna", 13, ["##anna"], None),
        ("annajapaneseanna", "anna", 12, ["##anna"], None),
        ("annajapaneseanna", "anna", 0, ["anna"], None),
        ("Berg japaneseanna", "se", 11, ["##ese"], "ese"),
        ("Berg japaneseanna", "pane", 7, ["japan", "##ese"], "japanese"),
        ("Berg (\u200b) anna", "\u200b", 6, None, None),
    ],
)
def test_answers_of_own_tasks_are_the_pieces_at_their_characters(
    make_config, tmp_path, context, answer, start, tokens, learned
):
    vocabulary = tmp_path / "vocab.txt"
    entries = [*SPECIAL_TOKENS, "berg", "japan", "##japan", "##ese", "anna", "##anna", "(", ")"]
    vocabulary.write_text("\n".join(entries))
    tokenizer = CachedTokenizer(load_vocabulary(vocabulary))
    featurizer = QAFeaturizer(make_config(), "squad", tokenizer)
    report = DataReport("squad", "train")
    collector = QuestionCollector(report, v2=False, is_training=True, within_words=True)
    collector.add(
        Context(context),
        qas_id="q",
        question="?",
        answers=[answer],
        located=GivenAnswer(answer, start),
    )
    (row,) = featurizer.rows(collector.examples, report)
    if tokens is None:
        assert report.problems == {"answer without tokens": [{"id": "q"}]}
        return
    assert answer_tokens(row, tokenizer) == tokens
    assert report.problems == (
        {PART_OF_TOKEN: [{"id": "q", "learned": learned}]} if learned else {}
    )


def test_a_part_with_more_pieces_than_its_word_is_not_sought_behind_the_word(
    featurize, tokenizer
):
    collector = QuestionCollector(DataReport("squad", "train"), v2=False, is_training=True)
    collector.add(
        Context("zxyx and xyx ( here )"),
        qas_id="q",
        question="what ?",
        answers=["xyx"],
        located=GivenAnswer("xyx", 1),
    )
    (row,), _, report = featurize(collector.examples)
    assert answer_tokens(row, tokenizer) == ["zxyx"]
    assert PART_OF_WORD in report.problems


def plain_windows(count: int, room: int, stride: int) -> tuple[list[range], list[int]]:
    """Lays windows over pieces one by one, and finds the best window of each piece."""
    windows = []
    start = 0
    while start < count:
        windows.append(range(start, min(start + room, count)))
        if windows[-1].stop == count:
            break
        start += min(len(windows[-1]), stride)
    best = []
    for piece in range(count):
        scores = [
            (min(piece - w.start, w.stop - 1 - piece) + 0.01 * len(w), -number)
            for number, w in enumerate(windows)
            if piece in w
        ]
        best.append(-max(scores)[1])
    return windows, best


@pytest.mark.parametrize("stride", [1, 3, 5, 12, 40])
@pytest.mark.parametrize("count", [1, 11, 12, 13, 14, 30])
def test_windows_and_their_best_pieces(featurize, stride, count):
    words = [f"{'xyz'[i % 3]}" for i in range(count)]
    examples = make_examples((" ".join(words), "who ?", None))
    rows, (windows,), report = featurize(examples, max_seq_length=17, doc_stride=stride)
    expected, best = plain_windows(count, 12, stride)
    assert [row["squad_eid"] for row in rows] == list(range(len(expected)))
    assert [w.words.tolist() for w in windows] == [list(w) for w in expected]
    for number, (window, row) in enumerate(zip(windows, rows, strict=True)):
        assert len(row["input_ids"]) == len(window.words) + 5
        of_window = [best[piece] == number for piece in expected[number]]
        assert window.is_max_context.tolist() == of_window
    assert ("context longer than the window" in report.problems) == (count > 12)


def test_positions_follow_the_windows(featurize, tokenizer):
    words = ["x"] * 10 + ["anna", "berg"] + ["y"] * 8
    examples = make_examples((" ".join(words), "who ?", "anna berg"), ("x y", "who ?", None))
    rows, _, _ = featurize(examples, max_seq_length=17, doc_stride=4)
    found = [row["squad_start_positions"] for row in rows]
    # Windows start at pieces 0, 4 and 8 of 20; the first position of a context is 4.
    assert found == [14, 10, 6, 0]
    assert [row["squad_eid"] for row in rows] == [0, 1, 2, 1000]
    assert [row["squad_is_impossible"] for row in rows] == [0, 0, 0, 1]
    assert all(answer_tokens(row, tokenizer) == ["anna", "berg"] for row in rows[:3])


def test_an_answer_over_the_edge_of_all_windows_is_reported(featurize):
    words = ["x"] * 11 + ["anna", "berg"] + ["y"] * 8
    examples = make_examples((" ".join(words), "who ?", "anna berg"))
    rows, _, report = featurize(examples, max_seq_length=17, doc_stride=12)
    assert {row["squad_start_positions"] for row in rows} == {0}
    assert report.problems["answer not contained in any window"] == [{"id": "q0"}]


def test_an_answer_without_tokens_is_reported(featurize, tokenizer):
    dropped = "\u200b"  # by the tokenizer
    examples = make_examples((f"the old {dropped} bridge", "who", dropped))
    (row,), _, report = featurize(examples)
    assert report.problems == {"answer without tokens": [{"id": "q0"}]}
    assert (row["squad_start_positions"], row["squad_end_positions"]) == (0, 0)
    examples = make_examples((f"the old ({dropped}) bridge", "who", dropped))
    (row,), _, report = featurize(examples)
    assert report.problems == {PART_OF_WORD: [{"id": "q0", "pieces": 2}]}
    assert answer_tokens(row, tokenizer) == ["(", ")"]


def test_lengths_are_reported_and_questions_cut(featurize, tokenizer):
    examples = make_examples(
        ("x y z", "who built the old bridge ?", "x y z"), ("\u200b", "who ?", None)
    )
    rows, windows, report = featurize(examples, max_query_length=3, max_answer_length=2)
    assert tokenizer.tokens(rows[0]["input_ids"])[:5] == [
        "[CLS]",
        "who",
        "built",
        "the",
        "[SEP]",
    ]
    assert report.problems == {
        "question truncated to max_query_length": [{"id": "q0", "pieces": 6}],
        "answer longer than max_answer_length": [{"id": "q0", "pieces": 3}],
        "context without tokens": [{"id": "q1"}],
    }
    assert [len(w) for w in windows] == [1, 0]


def test_a_question_that_fills_the_input_is_refused(featurize):
    examples = make_examples(("x y", "who " * 30, None))
    with pytest.raises(UserError, match="--max_seq_length=16 or reduce --max_query_length=64"):
        featurize(examples, max_seq_length=16)
