"""Reading SQuAD and MRQA, and finding answers in contexts."""

import gzip
import json
import unicodedata

import pytest

from electra_tf.util.errors import UserError
from finetune.data.features import DataReport
from finetune.tasks.qa.examples import (
    NO_ANSWER,
    NOT_FOUND,
    OTHER_FORM,
    REPEATED_ID,
    Context,
    GivenAnswer,
    QuestionCollector,
)
from finetune.tasks.qa.readers import read_questions
from tests.finetune.tasks.qa.conftest import ask


def read(path: str, *, v2=True, is_training=True, **options):
    report = DataReport("squad", "train")
    builder = QuestionCollector(report, v2=v2, is_training=is_training, **options)
    read_questions(path, builder)
    return builder.examples, report.problems


def test_only_five_characters_separate_words():
    context = Context(" a\u00a0b\tc\r\nd\u202fe\u2009f  g")
    assert context.words == ["a\u00a0b", "c", "d", "e\u2009f", "g"]
    offsets = [-1, 0, 0, 0, 0, 1, 1, 1, 2, 2, 3, 3, 3, 3, 3, 4]
    assert [context.word_at(i) for i in range(len(context.text))] == offsets


def test_answers_become_words(write_squad):
    context = "The bridge was built by Anna Berg (1895-1943). It stands."
    path = write_squad(
        (context, [ask("a", "Anna Berg", 24), ask("b"), ask("c", "1895", 35)]),
        ("Here it stands", [ask("d", "stands", 8)]),
    )
    examples, problems = read(path)
    assert [(e.eid, e.qas_id, e.start_position, e.end_position) for e in examples] == [
        (0, "a", 5, 6),
        (1, "b", None, None),
        (2, "c", 7, 7),
        (3, "d", 2, 2),
    ]
    assert [e.is_impossible for e in examples] == [False, True, False, False]
    assert examples[0].context is examples[2].context
    assert examples[2].answers == ("1895",)
    assert not problems


def test_what_cannot_be_found_is_dropped_from_train_alone_and_reported(write_squad):
    questions = [
        ask("moved", "Berg", 0),
        ask("outside", "Berg", 12),
        ask("negative", "Berg", -4),
        ask("empty", "", 3),
        ask("good", "Berg", 5),
    ]
    path = write_squad(("Anna Berg", questions))
    examples, problems = read(path)
    assert [(e.eid, e.qas_id) for e in examples] == [(0, "good")]
    assert [case["id"] for case in problems[NOT_FOUND]] == [
        "moved",
        "outside",
        "negative",
        "empty",
    ]
    examples, problems = read(path, is_training=False)
    assert [e.qas_id for e in examples] == ["moved", "outside", "negative", "empty", "good"]
    assert [e.start_position for e in examples] == [None, None, None, None, 1]
    assert examples[0].answers == ("Berg",)
    assert {case["dropped"] for case in problems[NOT_FOUND]} == {False}


def test_answers_that_start_in_whitespace(write_squad):
    given = [
        (" Anna Berg", [ask("first", " Anna", 0)]),
        (" Anna", [ask("only", " Anna", 0)]),
        ("by Anna", [ask("inner", " Anna", 2)]),
    ]
    examples, problems = read(write_squad(*given))
    positions = [(e.qas_id, e.start_position, e.end_position) for e in examples]
    assert positions == [("first", 0, 0), ("only", 0, 0), ("inner", 0, 1)]
    assert not problems
    # Theirs takes the last word for the one before the first.
    examples, problems = read(write_squad(*given), authors_answer_check=True)
    positions = [(e.qas_id, e.start_position, e.end_position) for e in examples]
    assert positions == [("only", 0, 0), ("inner", 0, 1)]
    assert [case["id"] for case in problems[NOT_FOUND]] == ["first"]


def test_other_white_space_in_answers(write_squad):
    path = write_squad(("The Café\u00a0Zoë here", [ask("a", "Café\u00a0Zoë", 4)]))
    examples, problems = read(path)
    assert (examples[0].start_position, examples[0].end_position) == (1, 1)
    assert not problems
    examples, problems = read(path, authors_answer_check=True)
    assert not examples
    assert len(problems[NOT_FOUND]) == 1


def test_questions_without_an_answer_have_no_place_in_version_1(write_squad):
    path = write_squad(("Anna Berg", [ask("a"), ask("b", "Berg", 5, is_impossible=True)]))
    examples, problems = read(path, v2=False)
    assert [e.qas_id for e in examples] == ["b"]
    assert not examples[0].is_impossible
    assert problems[NO_ANSWER] == [{"id": "a", "dropped": True}]
    # Nothing can be right in dev, where they count, but a file to predict has no answers.
    examples, problems = read(path, v2=False, is_training=False)
    assert [e.qas_id for e in examples] == ["a", "b"]
    assert problems[NO_ANSWER] == [{"id": "a", "dropped": False}]
    for given in ({"v2": False, "labeled": False}, {"v2": True}):
        assert not read(path, is_training=False, **given)[1]


def test_repeated_ids_are_reported(write_squad):
    path = write_squad(("Anna Berg", [ask("a", "Berg", 5), ask("a", "Anna", 0)]))
    assert read(path)[1][REPEATED_ID] == [{"id": "a"}]


def test_an_answer_without_a_place_is_looked_up():
    report = DataReport("own", "train")
    builder = QuestionCollector(report, v2=True, is_training=True)
    for name, text in (("a", "Berg"), ("b", "Nobody")):
        builder.add(
            Context("Anna Berg"),
            qas_id=name,
            question="Who?",
            answers=[text],
            located=GivenAnswer(text),
        )
    assert [(e.qas_id, e.start_position) for e in builder.examples] == [("a", 1)]
    assert [case["id"] for case in report.problems[NOT_FOUND]] == ["b"]


@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_answers_in_another_unicode_form_are_told(form):
    answer = unicodedata.normalize("NFD" if form == "NFC" else "NFC", "H\u00e0 N\u1ed9i")
    report = DataReport("own", "train")
    builder = QuestionCollector(report, v2=False, is_training=True, within_words=True)
    for start in (None, 0):
        builder.add(
            Context(unicodedata.normalize(form, "H\u00e0  N\u1ed9i, th\u1ee7 \u0111\u00f4")),
            qas_id=f"at {start}",
            question="?",
            answers=[answer],
            located=GivenAnswer(answer, start),
        )
    assert [case["id"] for case in report.problems[OTHER_FORM]] == ["at None", "at 0"]
    assert not report.problems[NOT_FOUND]


def test_lone_surrogates_do_not_move_offsets(write_squad):
    examples, _ = read(write_squad(("\ud800 Anna Berg", [ask("a", "Berg", 7)])))
    assert examples[0].context.words[examples[0].start_position] == "Berg"
    assert examples[0].context.text.encode()


@pytest.mark.parametrize("suffix", [".jsonl", ".jsonl.gz"])
def test_mrqa(tmp_path, suffix):
    # The text may be spelled otherwise than in the context; the places count, and the last
    # character is within the answer.
    detected = [{"text": "anna Berg", "char_spans": [[11, 19], [30, 38]]}, {"text": "Anna"}]
    qas = [
        {
            "qid": "q",
            "question": "Who?",
            "answers": ["Anna Berg", "Berg"],
            "detected_answers": detected[:1],
        }
    ]
    lines = [
        {"header": {"dataset": "x"}},
        {"context": "[PAR] It is Anna Berg, here", "qas": []},
        {"context": "[PAR] Here Anna Berg, built it", "qas": qas},
    ]
    path = tmp_path / f"train{suffix}"
    text = "".join(json.dumps(line) + "\n" for line in lines)
    opened = gzip.open if suffix.endswith(".gz") else open
    with opened(path, "wt") as file:
        file.write(text)
    (example,), problems = read(str(path), v2=False)
    assert (example.qas_id, example.answers) == ("q", ("Anna Berg", "Berg"))
    assert (example.start_position, example.end_position) == (2, 3)
    assert not problems


def test_an_answer_detected_in_mrqa_is_one_even_if_no_text_is_listed(tmp_path):
    detected = [{"text": "Berg", "char_spans": [[8, 11]]}]
    qas = {"qid": "a", "question": "Who?", "answers": [], "detected_answers": detected}
    path = tmp_path / "train.jsonl"
    path.write_text(json.dumps({"context": "It is a Berg", "qas": [qas]}))
    (example,), problems = read(str(path), v2=True)
    assert (example.is_impossible, example.answers) == (False, ("Berg",))
    assert not problems


def test_ends_of_mrqa_may_be_behind_the_answer(tmp_path):
    context = "Built by Anna Berg"
    spans = [[9, 17], [9, 18], [9, 40]]
    qas = [
        {
            "qid": str(end),
            "question": "Who?",
            "detected_answers": [{"text": "Anna Berg", "char_spans": [[start, end]]}],
        }
        for start, end in spans
    ]
    path = tmp_path / "train.jsonl"
    path.write_text(json.dumps({"context": context, "qas": qas}))
    examples, problems = read(str(path), v2=False)
    assert [(e.start_position, e.end_position) for e in examples] == [(2, 3)] * 3
    assert not problems


@pytest.mark.parametrize(
    ("context", "answer", "words"),
    [
        ("Annabel met Ann .", "Ann", (2, 2)),
        ("Annabel met ANN .", "Ann", (2, 2)),
        ("Here Ann met ann", "ann", (3, 3)),
        ("The Japanese came", "Japan", (1, 1)),
        ("The JAPANESE came", "Japan", (1, 1)),
        ("to (1895-1943). In 1895", "(1895", (1, 1)),
        ("by Anna\nBerg", "Anna  Berg ", (1, 2)),
        ("by Anna", "Berg", None),
        ("by Anna", " ", None),
        ("a.c b abc", "abc", (2, 2)),
        ("\U0001f600 the bridge", "bridge", (2, 2)),
        # Vowel signs and accents are parts of words, too.
        ("\u0930\u093e\u092e\u0941 \u0930\u093e\u092e", "\u0930\u093e\u092e", (1, 1)),
        ("\u0915\u093f \u0915", "\u0915", (1, 1)),
        ("cafe\u0301 cafe", "cafe", (1, 1)),
        ("\u0915\u093f \u0916", "\u0915", (0, 0)),
        ("aaa aa", "aa", (1, 1)),
        ("xa b a b a", "a b a", (2, 4)),
    ],
)
def test_an_answer_without_its_place_is_found_as_words(context, answer, words):
    report = DataReport("own", "train")
    builder = QuestionCollector(report, v2=False, is_training=False)
    located = GivenAnswer(answer)
    question = {"qas_id": "q", "question": "who ?", "answers": [answer], "located": located}
    builder.add(Context(context), **question)
    (example,) = builder.examples
    assert (example.start_position, example.end_position) == (words or (None, None))
    assert bool(report.problems[NOT_FOUND]) == (words is None)


def test_answers_of_squad_files_need_no_place(tmp_path):
    qa = {"id": "a", "question": "who ?", "answers": [{"text": "Berg"}, {"text": "Anna Berg"}]}
    paragraph = {"context": "by Anna Berg", "qas": [qa]}
    path = tmp_path / "dev.json"
    path.write_text(json.dumps({"data": [{"paragraphs": [paragraph]}]}))
    (example,), problems = read(str(path), is_training=False)
    assert example.answers == ("Berg", "Anna Berg")
    assert (example.start_position, example.end_position) == (2, 2)
    assert not problems


@pytest.mark.parametrize(
    ("suffix", "fields", "expected"),
    [
        (".json", {"id": "a", "qid": "b"}, "a"),
        (".json", {"qid": "b"}, "b"),
        (".jsonl", {"id": "a", "qid": "b"}, "b"),
        (".jsonl", {"id": "a"}, "a"),
    ],
)
def test_ids_of_squad_and_mrqa(tmp_path, suffix, fields, expected):
    paragraph = {"context": "x", "qas": [{"question": "y", "answers": [], **fields}]}
    content = {"data": [{"paragraphs": [paragraph]}]} if suffix == ".json" else paragraph
    path = tmp_path / f"dev{suffix}"
    path.write_text(json.dumps(content))
    (example,), _ = read(str(path), is_training=False)
    assert example.qas_id == expected


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.json", "{", "a.json is not valid JSON"),
        (
            "a.json",
            '{"data": [{"title": "x", "title": "y"}]}',
            "a.json .*duplicate key 'title'",
        ),
        ("a.json", '{"version": "1"}', 'a.json lacks "data"'),
        (
            "a.json",
            '{"data": [{"paragraphs": [{"qas": []}]}]}',
            r'data\[0\]\.paragraphs\[0\] lacks "context"',
        ),
        (
            "a.json",
            '{"data": [{"paragraphs": [{"context": "x", "qas": [{"question": "y"}]}]}]}',
            r'paragraphs\[0\]\.qas\[0\] needs an "id"',
        ),
        (
            "a.json",
            '{"data": [{"paragraphs": [{"context": "x", "qas": [{"question": "y", "id": "1", '
            '"answers": [{"text": "x", "answer_start": "0"}]}]}]}]}',
            r'answers\[0\]: "answer_start" must be an integer',
        ),
        ("a.jsonl", '{"header": {}}\n{"context": 3, "qas": []}\n', 'line 2: "context" must'),
        ("a.jsonl", '{"header": {}}\n\nnothing\n', "line 3 is not valid JSON"),
        ("a.jsonl", '{"header": {}}\n[]\n', "line 2 must be an object, not list"),
        (
            "a.jsonl",
            '{"context": "x", "question": "y"}',
            'line 1 lacks "qas".*name the "columns"',
        ),
        (
            "a.jsonl",
            '{"context": "x", "qas": [{"qid": "q", "question": "y", "detected_answers": '
            '[{"text": "x", "char_spans": [3]}]}]}',
            r"line 1.qas\[0\].detected_answers\[0\]: \"char_spans\" must be a list of pairs",
        ),
    ],
)
def test_bad_input_is_named(tmp_path, name, content, message):
    path = tmp_path / name
    path.write_text(content)
    with pytest.raises(UserError, match=message):
        read(str(path))


def test_missing_and_broken_files_are_named(tmp_path):
    with pytest.raises(UserError, match=r"No such file: .*none\.json"):
        read(str(tmp_path / "none.json"))
    (tmp_path / "a.jsonl.gz").write_bytes(b"no gzip")
    with pytest.raises(UserError, match=r"a\.jsonl\.gz is not a complete \.gz"):
        read(str(tmp_path / "a.jsonl.gz"))
