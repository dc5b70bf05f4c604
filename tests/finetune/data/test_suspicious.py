"""Examples that are trained on and scored, and texts that the vocabulary does not fit."""

import numpy as np
import pytest

from finetune.data.suspicious import (
    count_repeated,
    describe_contradictions,
    describe_repeated,
    join_windows,
    warn_of_lost_segments,
    warn_of_odd_labels,
    warn_of_unknown_rows,
    warn_of_unseparated_labels,
    warn_of_written_lists,
)


def row(*ids: int, **more) -> dict:
    return {"input_ids": np.array(ids), "segment_ids": np.zeros(len(ids)), **more}


def test_rows_are_compared_by_their_tokens():
    train = [row(1, 2, label=0), row(3), row(1, **{"input_ids/1": np.array([2])})]
    assert count_repeated([row(1, 2, label=1), row(2, 1), row(1), row(3), row(3)], train) == 3
    # Choices are no longer text.
    choices = row(1, **{"input_ids/1": np.array([2])})
    other = row(1, **{"input_ids/1": np.array([2, 2])})
    assert count_repeated([choices, other], train) == 1
    # Ids come as integers of any size from files and caches.
    assert count_repeated([row(np.int64(3))], [row(np.int32(3))]) == 1


@pytest.mark.parametrize(("count", "printed", "warned"), [(0, 0, 0), (5, 1, 0), (6, 0, 1)])
def test_few_are_printed_and_many_warned_of(count, printed, warned, capsys):
    rows = [row(i) for i in range(100)]
    train = [row(i) for i in range(count)] or [row(1000)]
    lines = []
    describe_repeated(f"cola dev {count}", rows, train, lines.append)
    assert len(lines) == printed
    error = capsys.readouterr().err
    assert error.count("warning: cola dev") == warned
    for text in [*lines, *([error] if warned else [])]:
        assert f"{count} of 100 rows repeat a text of the train split" in text


@pytest.mark.parametrize(
    ("labels", "printed", "warned"),
    [([0, 0], 0, 0), ([0, 1], 1, 0), ([0, 1, 1, 2, 2, 0], 0, 1)],
    ids=["same", "few", "many"],
)
def test_texts_with_different_labels_are_told(labels, printed, warned, capsys):
    rows = [row(i, t_label_ids=i % 3) for i in range(100 - len(labels))]
    rows += [row(1000, t_label_ids=label) for label in labels]
    lines = []
    describe_contradictions("t train", rows, "t_label_ids", lines.append)
    error = capsys.readouterr().err
    assert (len(lines), error.count("warning: t train")) == (printed, warned)
    for text in [*lines, *([error] if warned else [])]:
        assert f"t train: {len(labels)} of 100 rows have the same text as another row" in text


def test_windows_are_compared_as_one_text():
    """Windows of different texts may be alike, such as those of a common beginning."""
    ids = [(0, 1, 2), (0, 3, 4), (1, 1, 2), (1, 3, 5)]
    rows = [row(*tokens, t_eid=np.int32(eid), t_label_ids=eid) for eid, *tokens in ids]
    texts = join_windows(rows, "t_eid")
    assert [text["input_ids"].tolist() for text in texts] == [[1, 2, 3, 4], [1, 2, 3, 5]]
    describe_contradictions("t train", texts, "t_label_ids", pytest.fail)
    assert count_repeated(texts, texts[:1]) == 1
    assert rows[0]["input_ids"].tolist() == [1, 2]


def test_labels_that_are_no_number_are_not_compared(capsys):
    rows = [row(1, t_label_ids=np.array(labels)) for labels in ([0, 1], [1, 0])]
    describe_contradictions("t train", [*rows, row(1)], "t_label_ids", pytest.fail)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(("size", "warned"), [(2, 0), (1, 1)])
def test_segments_that_the_encoder_does_not_know(size, warned, capsys):
    pair = {"segment_ids/1": np.array([0, 1])}
    warn_of_lost_segments(f"cola train {size}", [row(1, 2), row(3, **pair)], size)
    error = capsys.readouterr().err
    assert error.count(f"cola train {size}: in 1 of 3 sequences, tokens have") == warned


def test_unknown_words_of_all_sequences_are_counted(vocabulary, capsys):
    unknown, known = vocabulary.unk_id, vocabulary.ids["the"]
    warn_of_unknown_rows("task train", [row(*[known] * 20), row()], vocabulary)
    assert capsys.readouterr().err == ""
    first, last = vocabulary.cls_id, vocabulary.sep_id
    second = {"input_ids/1": np.array([first, unknown, unknown, last])}
    choices = row(first, *[known] * 8, last, **second)
    warn_of_unknown_rows("task dev", [choices], vocabulary)
    assert "20.0% of the words of task dev are unknown" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("labels", "separator", "warned"),
    [
        ([["a;b"], ["c"], []], ",", "';'"),
        ([["a,b"], ["c"]], ";", "','"),
        ([["a;b", "c"], ["c"]], ",", None),
        ([["a"], ["b"], []], ",", None),
        ([["a;b"]], ";", None),
        ([["\u5473\u3001\u4fa1\u683c"], ["\u5473"]], ",", "'\u3001'"),
        ([["\u5473\uff0c\u4ef7\u683c"], ["\u5473"]], ",", "'\uff0c'"),
        ([["\u0637\u0639\u0645\u060c \u0633\u0639\u0631"]], ",", "'\u060c'"),
    ],
)
def test_lists_that_look_like_one_label(labels, separator, warned, capsys):
    warn_of_unseparated_labels(labels, separator, f"train {labels} {separator}")
    error = capsys.readouterr().err
    assert bool(error) == (warned is not None)
    if warned:
        assert error.count(f'set "label_separator", which is {separator!r}, to {warned}') == 1


@pytest.mark.parametrize(
    ("lists", "example"),
    [
        ([["['the',", "'cat']"], ["['a']"], []], "['the',"),
        ([["[a", "b]"], ["a"], ["b"]], None),
        ([[], []], None),
    ],
)
def test_lists_that_a_program_wrote_as_text(lists, example, capsys):
    warn_of_written_lists(lists, "words", "spaces", "train.csv")
    error = capsys.readouterr().err
    assert bool(error) == (example is not None)
    if example:
        assert "words are lists written as text, whose brackets" in error
        assert f"such as {example!r}: write them with spaces between them" in error


@pytest.mark.parametrize(
    ("labels", "warned"),
    [
        (("1", "2"), None),
        (("1", "1.0", "2"), "'1', '1.0'"),
        (("a", "b ", "B"), "'b ', 'B'"),
        (("v1", "v1.0", "1/2", "-1", "1"), None),
        (("a", "a\u200b", "b"), r"'a', 'a\u200b'"),
    ],
)
def test_labels_that_are_meant_alike(labels, warned, capsys):
    warn_of_odd_labels(labels, 100, f"train {labels}")
    error = capsys.readouterr().err
    assert bool(error) == (warned is not None)
    if warned:
        assert f"but count as different labels: {warned}\n" in error


@pytest.mark.parametrize(("label", "is_missing"), [("NaN", True), ("none", False)])
def test_labels_that_stand_for_missing_values(label, is_missing, capsys):
    warn_of_odd_labels(("a", label), 100, f"train {label}")
    told = f"the label '{label}', which is learned as any other, looks like a missing value"
    assert (told in capsys.readouterr().err) == is_missing
