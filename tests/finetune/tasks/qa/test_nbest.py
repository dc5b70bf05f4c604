"""Reading answers off scores, and turning them back into text."""

import numpy as np
import pytest

from finetune.data.features import DataReport
from finetune.tasks.qa.examples import Context, QAExample
from finetune.tasks.qa.featurize import QAFeaturizer
from finetune.tasks.qa.nbest import FinalText, NBestDecoder, join_pieces

CONTEXT = "The (old) bridge was built by Anna Berg."
# Pieces: [CLS] who ? [SEP] the ( old ) bridge was built by anna berg . [SEP]
FIRST = 4


@pytest.fixture
def decode(make_config, tokenizer):
    def run(outputs, context=CONTEXT, *, v2=True, authors_text=False, **settings):
        config = make_config(**settings)
        featurizer = QAFeaturizer(config, "squad", tokenizer)
        example = QAExample(0, "q", "who ?", Context(context))
        rows = featurizer.rows([example], DataReport("squad", "dev"))
        (windows,) = featurizer.windows([example])
        decoder = NBestDecoder(config, tokenizer, v2, authors_text=authors_text)
        decoder.prepare([example])
        return decoder.decode(example, windows, rows, outputs)

    return run


def logits(length: int = 16, **places: float) -> np.ndarray:
    """Returns logits that are -5 but at places `p<index>`."""
    values = np.full(length, -5, np.float32)
    for name, value in places.items():
        values[int(name[1:])] = value
    return values


def independent(starts: dict, ends: dict, length: int = 16, answerable: float = 0.0) -> dict:
    return {
        "start_logits": logits(length, **starts),
        "end_logits": logits(length, **ends),
        "answerable_logit": np.float32(answerable),
    }


def joint(*spans: tuple[int, int, float, float], beam: int = 2, answerable=0.0) -> dict:
    """Returns beams of (start, end, start score, end score), one end a start."""
    output = {
        "start_top_index": np.zeros(beam, np.int32),
        "start_top_log_probs": np.full(beam, -50, np.float32),
        "end_top_index": np.zeros((beam, beam), np.int32),
        "end_top_log_probs": np.full((beam, beam), -50, np.float32),
        "start_logits": np.zeros(16, np.float32),
        "answerable_logit": np.float32(answerable),
    }
    for i, (start, end, start_score, end_score) in enumerate(spans):
        output["start_top_index"][i], output["start_top_log_probs"][i] = start, start_score
        output["end_top_index"][i, 0], output["end_top_log_probs"][i, 0] = end, end_score
    return output


def test_independent_spans_in_order(decode):
    output = independent({"p12": 2, "p10": 1}, {"p13": 3, "p12": 0})
    decoded = decode([output], joint_prediction=False, n_best_size=3)
    texts = [answer.text for answer in decoded.nbest]
    assert texts == ["Anna Berg", "built by Anna Berg", "Anna"]
    scores = np.array([5.0, 4.0, 2.0])
    assert [a.start_logit + a.end_logit for a in decoded.nbest] == scores.tolist()
    shares = np.exp(scores) / np.exp(scores).sum()
    np.testing.assert_allclose([a.probability for a in decoded.nbest], shares, rtol=1e-6)


def test_spans_outside_of_the_context_do_not_count(decode):
    # In the question, at [CLS], at both [SEP], the end before the start, and too long.
    spans = [(1, 12, 9, 9), (0, 0, 9, 9), (3, 5, 9, 9), (12, 15, 9, 9), (13, 12, 9, 9)]
    output = joint(*spans, (4, 13, 9, 9), (8, 8, -1, -1), beam=7)
    for too_long in (9, 5):
        decoded = decode([output], max_answer_length=too_long)
        assert [answer.text for answer in decoded.nbest] == ["bridge"]
    decoded = decode([output], max_answer_length=10)
    assert decoded.text == "The (old) bridge was built by Anna Berg"


def test_equal_texts_count_once_and_keep_the_best_scores(decode):
    output = joint((6, 6, 1, 1), (6, 6, 3, 1))
    decoded = decode([output])
    assert [(a.text, a.start_logit, a.probability) for a in decoded.nbest] == [("old", 3, 1)]


@pytest.mark.parametrize(("authors_text", "answer"), [(True, "empty"), (False, "")])
def test_without_a_span_there_is_a_stand_in(decode, authors_text, answer):
    decoded = decode([joint((1, 1, 9, 9))], authors_text=authors_text)
    assert [(a.text, a.probability) for a in decoded.nbest] == [(answer, 1.0)]
    assert decoded.text == answer
    assert decode([], "\u200b", authors_text=authors_text).text == answer


def test_a_start_counts_in_the_window_that_shows_it_best(decode):
    context = " ".join(["x"] * 6 + ["anna"] + ["y"] * 5)
    # Room for 8 pieces, steps of 4: piece 6 is the last but one of the first window and
    # the third of the second one.
    settings = {"max_seq_length": 13, "doc_stride": 4}
    first, second = joint((10, 10, 9, 9)), joint((6, 6, 1, 1))
    decoded = decode([first, joint()], context, **settings)
    assert decoded.text == ""
    decoded = decode([first, second], context, **settings)
    assert [(a.text, a.start_logit) for a in decoded.nbest] == [("anna", 1.0)]


@pytest.mark.parametrize("window", [0, 1])
def test_texts_at_their_pieces_and_the_authors_texts(decode, window):
    """Of words whose accents are characters of their own, the authors' code takes all."""
    context = "x " * 6 + "(cafe\u0301)\n(Cafe\u0301)."
    # Pieces: [CLS] who ? [SEP] x x x x x x ( cafe ) ( cafe ) . [SEP]; in windows, from the 5th.
    place, settings = (14, {}) if not window else (10, {"max_seq_length": 14, "doc_stride": 4})
    outputs = [joint()] * window + [joint((place, place, 9, 9), (place - 3, place, 1, 1))]
    own = decode(outputs, context, **settings)
    assert [answer.text for answer in own.nbest] == ["Cafe\u0301", "cafe\u0301) (Cafe\u0301"]
    authors = decode(outputs, context, authors_text=True, **settings)
    assert [a.text for a in authors.nbest] == ["(Cafe\u0301).", "(cafe\u0301) (Cafe\u0301)."]


def test_null_odds(decode):
    context = " ".join(["x"] * 6 + ["anna"] + ["y"] * 5)
    settings = {"max_seq_length": 13, "doc_stride": 4}
    outputs = [joint((4, 4, 1, 1), answerable=2.0), joint((6, 6, 3, 2), answerable=-1.5)]
    assert decode(outputs, context, **settings).null_odds == -1.5
    assert decode(outputs, context, v2=False, **settings).null_odds is None
    plain = {**settings, "answerable_classifier": False, "joint_prediction": False}
    outputs = [
        independent({"p0": 4, "p4": 1}, {"p0": 2, "p4": 1}, length=13),
        independent({"p0": 1, "p6": 3}, {"p0": 1.5, "p6": 2}, length=13),
    ]
    assert decode(outputs, context, **plain).null_odds == 2.5 - 5
    # The authors' start of the search for the minimum: what a context without text has.
    for settings in ({}, plain):
        assert decode([], "\u200b", **settings).null_odds == 1_000_000


def test_join_pieces():
    assert join_pieces(["japan", "##ese", "berg", "##s", "-"]) == "japanese bergs -"
    assert join_pieces(["##ese", "x"]) == "ese x"


@pytest.mark.parametrize(
    ("predicted", "original", "final"),
    [
        ("anna berg", "Anna Berg's", "Anna Berg"),
        ("1895", "(1895-1943).", "1895"),
        ("cafe", "«Café»,", "Café"),
        ("' s cafe", "Berg's Café", "'s Café"),
        ("berg", "Anna\u00a0Berg", "Anna\u00a0Berg"),  # other white space has no counterpart
        ("nobody", "Anna Berg", "Anna Berg"),
        ("not", "Anna Berg", "Anna Berg"),
        ("", "Anna Berg", "Anna Berg"),
        (" x", "(x x", "(x x"),
        ("i", "x İ i", "İ"),
    ],
)
def test_final_text(tokenizer, predicted, original, final):
    assert FinalText(tokenizer)(predicted, original.split(" ")) == final
