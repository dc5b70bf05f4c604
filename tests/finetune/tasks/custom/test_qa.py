"""Tests of question answering over users' files."""

import json
import types

import pytest

from electra_tf.util.console import warn_once
from electra_tf.util.errors import UserError
from finetune.data.features import DataReport
from finetune.predictor import Predictor
from finetune.tasks.base import SplitData
from finetune.tasks.qa.examples import MISPLACED

NO_EVAL = {"do_eval": False}
COLUMNS = {"question": "q", "context": "c", "answers": "a"}
SQUAD = {
    "data": [
        {
            "paragraphs": [
                {
                    "context": context,
                    "qas": [
                        {
                            "id": f"{context}{i}",
                            "question": "who?",
                            "answers": [{"text": "me", "answer_start": context.index("me")}],
                        }
                        for i in range(2)
                    ],
                }
                for context in ("was me", "me was here", "a me", "b me", "c me")
            ]
        }
    ]
}


def load(task, split):
    return task.load(split, DataReport("mine", split))


def jsonl(*records):
    return "\n".join(map(json.dumps, records))


def test_questions_that_cannot_be_used_are_counted_by_reason(make_task):
    records = [{"q": "who?", "c": "me or was me", "a": "nobody"} for _ in range(8)]
    files = {"train.jsonl": jsonl(*records)}
    task = make_task(files, "qa", NO_EVAL, columns=COLUMNS, dev_fraction=0)
    with pytest.raises(UserError, match="no usable question: 8 x answer not found in the con"):
        load(task, "train")


def test_answers_of_all_layouts(make_task):
    answers = [
        "me",
        ["me", "was me"],
        [{"text": "me", "answer_start": 10}, {"text": "x", "answer_start": 0}],
        {"text": ["me"], "answer_start": [10]},
        [],
        "",
    ]
    records = [{"q": "who?", "c": "me or was me", "a": answer} for answer in answers]
    task = make_task(
        {"train.jsonl": jsonl(*records)}, "qa", NO_EVAL, columns=COLUMNS, dev_fraction=0
    )
    examples = load(task, "train")
    assert task.v2
    assert [e.answers for e in examples] == [
        ("me",),
        ("me", "was me"),
        ("me", "x"),
        ("me",),
        (),
        (),
    ]
    assert [e.start_position for e in examples] == [0, 0, 3, 3, None, None]
    assert [e.is_impossible for e in examples] == [False] * 4 + [True] * 2
    assert [e.qas_id for e in examples] == [f"line {i}" for i in range(1, 7)]
    assert examples[0].context is examples[5].context


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("csv", "n,q,c,a,at\nx7,who?,me,me,0\nx8,who?,a me,me,2\n"),
        ("jsonl", jsonl({"n": 1, "q": "who?", "c": "me", "a": "me", "at": 0})),
    ],
)
def test_named_columns_that_a_file_lacks_are_warned_of(make_task, capsys, name, content):
    warn_once.cache_clear()
    files = {f"train.{name}": content, f"dev.{name}": content, f"test.{name}": content}
    columns = {**COLUMNS, "id": "name", "answer_start": "att"}
    task = make_task(files, "qa", columns=columns)
    load(task, "train")
    said = capsys.readouterr().err
    assert "has no column 'att' (answer_start)" in said
    assert "(id)" not in said
    load(task, "test")
    said = capsys.readouterr().err
    assert "has no column 'name' (id)" in said
    assert "answer_start" not in said
    right = make_task(files, "qa", columns={**COLUMNS, "id": "n", "answer_start": "at"})
    for split in ("train", "dev", "test"):
        load(right, split)
    assert capsys.readouterr().err == ""


def test_places_of_answers_that_are_not_read_are_told_of(make_task, capsys):
    warn_once.cache_clear()
    header = "id,question,context,answers,answer_start"
    files = {"train.csv": f"{header}\nx7,who?,a me me,me,5\n"}
    task = make_task(files, "qa", NO_EVAL, dev_fraction=0)
    (example,) = load(task, "train")
    assert (example.qas_id, example.start_position) == ("x7", 1)
    said = capsys.readouterr().err
    assert said.count("is not read: to use it, name all columns") == 1
    assert "train.csv has a column 'answer_start'" in said


def test_columns_of_files_without_columns_are_warned_of(make_task, capsys):
    make_task({"train.json": json.dumps(SQUAD)}, "qa", columns=COLUMNS)
    assert '"columns" of' in capsys.readouterr().err


def test_the_authors_check_of_answers_is_that_of_built_in_tasks(make_task):
    records = [{"q": "who?", "c": c, "a": "was me"} for c in ("was me", "was\u00a0me")]
    for checks, count in ((False, 2), (True, 1)):
        given = {**NO_EVAL, "authors_qa_answer_check": checks}
        files = {"train.jsonl": jsonl(*records)}
        task = make_task(files, "qa", given, columns=COLUMNS, dev_fraction=0)
        assert len(load(task, "train")) == count


def test_answers_in_tables_with_their_place(make_task):
    content = 'n,q,c,a,at\nx7,who?,"me, me",me,4\nx8,who?,a me,me,\n'
    columns = {**COLUMNS, "id": "n", "answer_start": "at"}
    task = make_task({"train.csv": content}, "qa", NO_EVAL, columns=columns, dev_fraction=0)
    examples = load(task, "train")
    assert not task.v2
    assert [(e.qas_id, e.start_position) for e in examples] == [("x7", 1), ("x8", 1)]


def test_the_files_of_squad_and_a_dev_without_shared_contexts(make_task):
    task = make_task({"train.json": json.dumps(SQUAD)}, "qa", dev_fraction=0.4)
    train, dev = load(task, "train"), load(task, "dev")
    assert (len(train), len(dev)) == (6, 4)
    assert not {e.context.text for e in train} & {e.context.text for e in dev}
    assert [e.eid for e in dev] == [0, 1, 2, 3]
    assert task.dev_splits == ("dev",)


def test_whether_questions_may_have_no_answer_can_be_given(make_task):
    files = {"train.json": json.dumps(SQUAD)}
    assert make_task(files, "qa", unanswerable=True).v2
    assert not make_task(files, "qa").v2


@pytest.mark.parametrize(
    ("v2", "metric", "main"),
    [(False, "exact_match", "exact_match"), (True, "exact_match", "exact"), (True, "f1", "f1")],
)
def test_main_metric(make_task, monkeypatch, v2, metric, main):
    files = {"train.json": json.dumps(SQUAD), "dev.json": json.dumps(SQUAD)}
    task = make_task(files, "qa", unanswerable=v2, metric=metric)
    examples = load(task, "dev")
    rows = task.featurize(examples, is_training=False, report=DataReport("mine", "dev"))
    decoded = [types.SimpleNamespace(text="me", null_odds=-9.0) for _ in examples]
    monkeypatch.setattr(task, "decode", lambda data, outputs: decoded)
    scores = task.score(SplitData("dev", examples, rows), [{"loss": 0.5}] * len(rows))
    assert (scores.main, scores.main_value) == (main, 100)


def test_questions_to_predict_need_no_answers(make_task, tmp_path):
    files = {
        "train.jsonl": jsonl({"q": "who?", "c": "me", "a": "me"}),
        "dev.jsonl": jsonl({"q": "who?", "c": "me", "a": "me"}),
        "test.jsonl": jsonl({"q": "who?", "c": "me", "a": "me"}),
        "test_b.jsonl": jsonl({"q": "who?", "c": "me"}),
        "new.jsonl": jsonl({"q": "who?", "c": "was me"}),
    }
    config = {"predict_file": str(tmp_path / "new.jsonl")}
    task = make_task(files, "qa", config, columns=COLUMNS)
    (example,) = load(task, "predict")
    assert (example.context.text, example.answers) == ("was me", ())
    (example,) = load(task, "test_b")
    assert example.qas_id == "line 1"


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ({"q": "who?", "c": "me", "a": 3}, "line 1: answers must be a text, a list .* not 3"),
        ({"q": "who?", "c": "me", "a": [3]}, "line 1: answers must be a text"),
        ({"q": "who?", "c": "me", "a": [{"txt": "me"}]}, "line 1: answers must be a text"),
        ({"q": "who?", "c": "me", "a": {"text": "me"}}, "line 1: answers must be a text"),
        (
            {"q": "who?", "c": "me", "a": [{"text": "me", "answer_start": "x"}]},
            "line 1: answer_start must be the index of a character .* not 'x'",
        ),
        ({"q": "", "c": "me", "a": "me"}, "line 1: question is empty"),
        ({"q": "who?", "a": "me"}, r"line 1 has no 'c' \(context\)"),
        ({"q": "who?", "c": "me"}, r"line 1 has no 'a' \(answers\)"),
    ],
)
def test_bad_records_are_named(make_task, record, message):
    with pytest.raises(UserError, match=rf"train\.jsonl: {message}"):
        make_task({"train.jsonl": jsonl(record)}, "qa", columns=COLUMNS)


def test_layouts_and_extensions_agree(make_task):
    with pytest.raises(UserError, match=r'end in \.jsonl or \.jsonl\.gz; "format" .* mrqa'):
        make_task({"train.json": json.dumps(SQUAD)}, "qa", format="mrqa")


@pytest.mark.parametrize(
    ("context", "answers", "start", "learned", "misplaced"),
    [
        # UTF-16 counts the smileys twice; the second place is that of another city.
        ("😀😀😀北京好，北京美。", "北京", 6, (3, 5), True),
        ("the  the cat", " the", 4, (5, 8), False),
        ("Η εταιρεία Γ.Σ.Α.Ε. ιδρύθηκε.", "Γ.Σ", 11, (11, 14), False),
        ("The U.S. won.", ["USA", "U.S."], None, (4, 8), False),
        ("In New \u00a0 York, new york", "new york", 4, (3, 13), True),
        ("In New York, new york", "new york", 13, (13, 21), False),
    ],
)
def test_answers_are_found_where_they_are(
    make_task, context, answers, start, learned, misplaced
):
    record = {"q": "who?", "c": context, "a": answers, "at": start}
    columns = {**COLUMNS, "answer_start": "at"}
    files = {"train.jsonl": jsonl(record)}
    task = make_task(files, "qa", NO_EVAL, columns=columns, dev_fraction=0)
    report = DataReport("mine", "train")
    (example,) = task.load("train", report)
    assert example.answer_characters == learned
    if context.startswith("the"):
        assert example.start_position == 1
    (found,) = report.problems.get(MISPLACED, [{}])
    assert found.get("learned") == (learned[0] if misplaced else None)


def test_contexts_without_tokens_have_no_rows(make_task):
    records = [{"q": "who?", "c": "\u200b", "a": ""}, {"q": "who?", "c": "\u200b", "a": ""}]
    train = jsonl({"q": "who?", "c": "me", "a": "me"})
    files = {"train.jsonl": train, "dev.jsonl": jsonl(*records)}
    task = make_task(files, "qa", columns=COLUMNS)
    data = SplitData("dev", examples := load(task, "dev"), [])
    assert task.featurize(examples, is_training=False, report=DataReport("mine", "dev")) == []
    assert Predictor.predict(None, task, data, 8) == []
    assert len(task.predictions(data, [])) == 2


def test_questions_without_any_answer_are_refused_in_training(make_task):
    records = [{"q": "who?", "c": f"me or was me {i}", "a": ""} for i in range(8)]
    files = {"train.jsonl": jsonl(*records)}
    with pytest.raises(UserError, match=r"train\.jsonl: no question has an answer, so there"):
        make_task(files, "qa", columns=COLUMNS)
    task = make_task(files, "qa", {"do_train": False}, columns=COLUMNS)
    data = SplitData("dev", load(task, "dev"), [])
    assert task.single_label(data) == "“no answer”"
