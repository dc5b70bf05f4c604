"""N-best lists: reading, ranking, error rates and the choice of the weight."""

import pytest

from electra_tf.inference.scoring.nbest import (
    Hypothesis,
    NBestList,
    error_rate,
    error_rates,
    rank,
    read_nbest_lists,
    tune_weight,
    warn_of_undivided_words,
)
from electra_tf.util.errors import UserError

LISTS = [
    NBestList(
        "a", (Hypothesis("the cat sad", -1.0), Hypothesis("the cat sat", -1.5)), "the cat sat"
    ),
    NBestList(
        "b",
        (Hypothesis("a dog", -1.0), Hypothesis("a fog", -1.1), Hypothesis("hog", -9.0)),
        "a dog",
    ),
]
SCORES = [[-9.0, -5.0], [-4.0, -3.0, -3.0]]


def test_reads_texts_and_objects(tmp_path):
    path = tmp_path / "lists.jsonl"
    path.write_text(
        '{"hypotheses": ["one", {"text": "two", "score": -2}]}\n\n'
        '{"id": "x", "hypotheses": ["three"], "reference": "tree"}\n'
        '{"id": "\\ud800", "hypotheses": ["half of an \\ud83d"]}\n'
        '{"id": null, "hypotheses": ["five"]}\n{"id": 7, "hypotheses": ["six"]}\n'
    )
    first, second, third, *others = read_nbest_lists(path, "--nbest_file")
    assert [each.name for each in others] == ["5", 7]
    # The output is UTF-8, which has no surrogates; the tokenizer drops U+FFFD.
    assert third == NBestList("\ufffd", (Hypothesis("half of an \ufffd"),))
    assert first == NBestList("1", (Hypothesis("one"), Hypothesis("two", -2.0)))
    assert (second.name, second.reference) == ("x", "tree")


def test_lists_with_and_without_scores_are_warned_of(tmp_path, capsys):
    path = tmp_path / "lists.jsonl"
    scored = '{"hypotheses": [{"text": "one", "score": -1}, {"text": "two", "score": -2}]}\n'
    path.write_text('{"hypotheses": ["one", {"text": "two"}]}\n' + scored)
    read_nbest_lists(path, "--nbest_file")
    assert capsys.readouterr().err == ""
    path.write_text(scored + '{"hypotheses": [{"text": "one", "score": -1}, "two"]}\n')
    read_nbest_lists(path, "--nbest_file")
    assert '1 of 2 lists have hypotheses with and without a "score", first line 2' in (
        capsys.readouterr().err
    )


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{", "Expecting"),
        ('{"hypotheses": ["a"], "hypotheses": ["b"]}', "duplicate key 'hypotheses'"),
        ("[]", "it is not an object"),
        ('{"a": 1}', '"hypotheses" must be a list'),
        ('{"hypotheses": []}', "there are no hypotheses"),
        ('{"hypotheses": [{"score": 1}]}', 'a hypothesis has no "text"'),
        ('{"hypotheses": [3]}', "3 is not a text"),
        ('{"hypotheses": [{"text": "a", "score": "b"}]}', "'b' is not a score"),
    ],
)
def test_a_line_that_is_not_a_list_is_named_with_the_reason(tmp_path, line, reason):
    path = tmp_path / "lists.jsonl"
    path.write_text(f'{{"hypotheses": ["one"]}}\n{line}\n')
    with pytest.raises(UserError, match=rf"--nbest_file=.*lists.jsonl, line 2: .*{reason}"):
        read_nbest_lists(path, "--nbest_file")
    path.write_text("\n")
    with pytest.raises(UserError, match="contains no n-best list"):
        read_nbest_lists(path, "--nbest_file")
    with pytest.raises(UserError, match="No such file"):
        read_nbest_lists(tmp_path / "none", "--nbest_file")


def test_lists_that_cannot_be_read_are_named(tmp_path):
    path = tmp_path / "lists.jsonl"
    with pytest.raises(UserError, match=f"^--nbest_file={path}: No such file"):
        read_nbest_lists(path, "--nbest_file")
    path.write_bytes(b'{"hypotheses": ["\xff"]}\n')
    with pytest.raises(UserError, match=f"^--nbest_file={path}: .*UTF-8"):
        read_nbest_lists(path, "--nbest_file")


def test_hypotheses_are_ranked_by_both_scores():
    assert rank(LISTS[0], SCORES[0], 0.0) == [0, 1]
    assert rank(LISTS[0], SCORES[0], 0.5) == [1, 0]
    assert rank(LISTS[1], SCORES[1], 0.5) == [1, 0, 2]
    tied = NBestList("t", (Hypothesis("a"), Hypothesis("b")))
    assert rank(tied, [1.0, 1.0], 1.0) == [0, 1]


def test_error_rates_and_the_weight_with_the_lowest():
    rates = error_rates(LISTS, SCORES, 0.5, "wer")
    assert rates == {"first": 1 / 5, "reranked": 1 / 5, "oracle": 0.0}
    # From 0.125 on the first list is right, up to 0.1 the second.
    assert error_rates(LISTS, SCORES, 0.15, "wer")["reranked"] == pytest.approx(1 / 5)
    scores = [SCORES[0], [-3.0, -3.0, -3.0]]
    assert tune_weight(LISTS, scores, "wer") == 0.15
    assert error_rates(LISTS, scores, 0.15, "cer")["reranked"] == 0.0


@pytest.mark.parametrize(
    ("reference", "text"),
    [
        ("今日は\u3000天気が", "今日は 天気が"),
        ("10\u00a0000 euros", "10 000 euros"),
        ("một\tViệt\n", "một Vie\u0302\u0323t"),
    ],
)
def test_white_space_and_unicode_form_are_no_errors(reference, text):
    for metric in ("wer", "cer"):
        assert error_rate([reference], [text], metric) == 0.0


def test_any_white_space_divides_words_of_error_rates():
    assert error_rate(["今日は\u3000天気が\u3000良い"], ["今日は 天気は 良い"], "wer") == 1 / 3
    assert error_rate(["ก ข"], ["ก\u00a0ค"], "cer") == 1 / 3


def test_word_errors_of_references_without_spaces_are_warned_of(capsys):
    texts = ["我在北京读书。", "วันนี้อากาศดี", "わかった", "오늘 날씨", "ja", "네"]
    lists = [NBestList("a", (Hypothesis("x"),), text) for text in texts]
    warn_of_undivided_words([*lists, NBestList("b", (Hypothesis("x"),))], "--nbest_file")
    assert capsys.readouterr().err == ""
    warn_of_undivided_words(lists[:5], "--nbest_file")
    assert "--nbest_file: 3 of 5 references have no spaces, so --nbest_metric=wer counts" in (
        capsys.readouterr().err
    )


def test_a_weight_cannot_be_tuned_without_references():
    with pytest.raises(UserError, match="--tune_nbest_file"):
        tune_weight([NBestList("a", (Hypothesis("x"),))], [[0.0]], "wer")
