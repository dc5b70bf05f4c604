"""Files of multiple choice: their columns, choices and labels."""

import json

import pytest

from electra_tf.util.console import warn_once
from electra_tf.util.errors import UserError
from finetune.config.task_kinds import kinds_by_name
from finetune.config.task_spec_parser import load_specs, spec_from_flags
from finetune.data.features import DataReport
from finetune.tasks.base import SplitData
from finetune.tasks.choice.examples import SAME_TOKENS

KIND = "multiple_choice"
SEPARATE = {"text": "t", "question": "q", "choices": ["x", "y", "z"], "label": "best"}
CSV = "t,q,x,y,z,best\ngood a,who,a,b,c,2\nbad,,b,c d,,0\n"


def lines(*records: dict) -> str:
    return "".join(f"{json.dumps(record)}\n" for record in records)


def load(task, split="dev"):
    report = DataReport(task.name, split)
    examples = task.load(split, report)
    rows = task.featurize(examples, is_training=False, report=report)
    return SplitData(split, examples, rows), report


def words(task, row, index=0):
    suffix = f"/{index}" if index else ""
    ids, segments = row[f"input_ids{suffix}"], row[f"segment_ids{suffix}"]
    return task.tokenizer.tokens(ids), segments.tolist()


def make(make_task, content, name="train.jsonl", **changes):
    return make_task({name: content, name.replace("train", "dev"): content}, KIND, **changes)


def test_every_choice_is_a_sequence(make_task):
    records = (
        {"text": "good a", "question": "who", "choices": ["a b", "c", "was me"], "label": 2},
        {"text": "bad", "question": "b", "choices": ["a", "b"], "label": 0},
    )
    columns = {name: name for name in ("text", "question", "choices", "label")}
    task = make(make_task, lines(*records), columns=columns)
    assert task.labels == ("0", "1", "2")
    data, _ = load(task)
    first, second = data.rows
    asked = ["[CLS]", "good", "a", "[SEP]", "who"]
    assert words(task, first) == ([*asked, "a", "b", "[SEP]"], [0] * 4 + [1] * 4)
    assert words(task, first, 1) == ([*asked, "c", "[SEP]"], [0] * 4 + [1] * 3)
    assert words(task, first, 2) == ([*asked, "was", "me", "[SEP]"], [0] * 4 + [1] * 4)
    assert words(task, second, 2) == ([], [])
    assert [row["mine_label_ids"] for row in data.rows] == [2, 0]
    assert [row["mine_eid"] for row in data.rows] == [0, 1]


def test_a_question_that_is_not_read_is_told_of(make_task, capsys):
    warn_once.cache_clear()
    record = {"text": "good", "question": "who", "choices": ["a", "b"], "label": 1, "id": 7}
    task = make(make_task, lines(record, {**record, "label": 0}))
    data, _ = load(task)
    first = data.examples[0]
    assert (first.question, first.guid) == (None, "7")
    assert "train.jsonl has a column 'question', which is not" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "content"), [("train.csv", CSV), ("train.tsv", CSV.replace(",", "\t"))]
)
def test_choices_may_have_a_column_each(make_task, name, content):
    data, _ = load(make(make_task, content, name, columns=SEPARATE))
    first, second = data.examples
    assert (first.text, first.question, first.choices, first.label) == (
        "good a",
        "who",
        ("a", "b", "c"),
        2,
    )
    # The cells of the third and of the question are empty.
    assert (second.question, second.choices, second.label) == ("", ("b", "c d"), 0)


def test_more_choices_than_letters_need_names(make_task):
    texts = [f"a{number}" for number in range(27)]
    record = {"text": "t", "choices": texts, "label": "A"}
    columns = {name: name for name in record}
    with pytest.raises(UserError, match=r"27 choices exceed the letters A to Z: name them as"):
        make(make_task, lines(record, {**record, "label": "B"}), columns=columns)
    names = [f"n{number}" for number in range(27)]
    records = [{**record, "label": name} for name in ("n0", "n26")]
    task = make(make_task, lines(*records), columns=columns, labels=names)
    assert [row["mine_label_ids"] for row in load(task)[0].rows] == [0, 26]


def test_columns_by_index_need_no_header(make_task):
    content = CSV.partition("\n")[2]
    columns = {"text": 0, "question": 1, "choices": [2, 3, 4], "label": -1}
    data, _ = load(make(make_task, content, "train.csv", header=False, columns=columns))
    assert [example.choices for example in data.examples] == [("a", "b", "c"), ("b", "c d")]


def test_parquet_has_lists_or_objects(make_task, tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    table = pyarrow.table(
        {
            "question": ["who", "was", "me"],
            "choices": [
                {"text": ["a", "b"], "label": ["A", "B"]},
                {"text": ["b", "c", "d"], "label": ["1", "2", "3"]},
                {"text": ["a", "d"], "label": ["A", "B"]},
            ],
            "answerKey": ["B", "3", "A"],
        }
    )
    task = make_task(
        {"train.parquet": ""},
        KIND,
        config={"num_folds": 2},
        columns={"text": "question", "choices": "choices", "label": "answerKey"},
        labels=["1", "2", "3"],
    )
    parquet.write_table(table, tmp_path / "train.parquet")
    data, _ = load(task, "train")
    assert [example.choices for example in data.examples] == [
        ("a", "b"),
        ("b", "c", "d"),
        ("a", "d"),
    ]
    assert [example.label for example in data.examples] == [1, 2, 0]
    assert data.examples[0].names == ("A", "B")


@pytest.mark.parametrize(
    ("labels", "given", "names", "indices"),
    [
        ((0, 1), None, ("0", "1"), [0, 1]),
        (("B", "A"), None, ("A", "B"), [1, 0]),
        (("2", 1), ["1", "2"], ("1", "2"), [1, 0]),
        (("yes", "no"), ["no", "yes"], ("no", "yes"), [1, 0]),
    ],
)
def test_labels_are_indices_letters_or_names(make_task, labels, given, names, indices):
    content = lines(
        *({"text": "a", "choices": ["b", "c"], "label": label, "id": 7} for label in labels)
    )
    changes = {} if given is None else {"labels": given}
    task = make(make_task, content, **changes)
    assert task.labels == names
    data, _ = load(task)
    assert [example.label for example in data.examples] == indices


def test_long_texts_are_truncated_and_counted_once_an_example(make_task):
    record = {"text": "good " * 30, "choices": ["a b", "c", "d"], "label": 0}
    data, report = load(make(make_task, lines(record, {**record, "text": "a"})))
    assert [len(data.rows[0][name]) for name in ("input_ids", "input_ids/1")] == [16, 16]
    assert data.rows[0]["segment_ids"].tolist() == [0] * 13 + [1] * 3
    ((problem, cases),) = report.problems.items()
    assert problem == "text truncated"
    assert [case["eid"] for case in cases] == [0]


def test_choices_of_the_same_tokens_are_counted(make_task):
    choices = [["a", "b", "A"], ["a", "b", "c"], ["b " * 20 + end for end in "abc"]]
    records = [{"text": "good", "choices": each, "label": 2} for each in choices]
    _, report = load(make(make_task, lines(*records)))
    assert report.problems[SAME_TOKENS] == [
        {"eid": 0, "choices": [2]},
        {"eid": 2, "choices": [1, 2]},
    ]


GOOD = {"text": "a", "choices": ["b", "c"], "label": 1}


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ({"choices": ["b"]}, "line 2: an example needs at least 2 choices, not 1"),
        ({"choices": []}, "line 2: an example needs at least 2 choices, not 0"),
        ({"choices": ["b", " "]}, "line 2: choice 2 is empty"),
        ({"choices": "b"}, r'line 2: choices must be a list of strings, not "b"; if there is'),
        ({"choices": ["b", 3]}, r"line 2: choices must be a list of strings"),
        ({"choices": {"texts": ["b"]}}, 'an object with the lists "text" and "label"'),
        ({"choices": {"text": ["b", "c"], "label": ["A"]}}, "2 texts, but 1 labels"),
        ({"choices": {"text": ["b", "c"], "label": ["A", "A"]}}, "list of different strings"),
        ({"label": 2}, r"line 2: label '2' is not one of its 2 choices, 0, 1; if they"),
        ({"label": "c"}, r"line 2: label 'c' is not one of its 2 choices, 0, 1"),
        ({"label": -1}, "line 2: label '-1' is not one of"),
        ({"label": [1]}, "line 2: label must be a string"),
        ({"text": " "}, "line 2: text is empty"),
        ({"text": 7}, "line 2: text must be a string, not 7"),
    ],
)
def test_bad_examples_are_refused(make_task, record, message):
    with pytest.raises(UserError, match=rf"train\.jsonl: .*{message}"):
        load(make(make_task, lines(GOOD, {**GOOD, **record})), "train")


def test_more_choices_than_in_train_are_refused(make_task):
    more = {**GOOD, "choices": ["a", "b", "c"]}
    files = {"train.jsonl": lines(GOOD), "dev.jsonl": lines(GOOD, more)}
    task = make_task(files, KIND)
    with pytest.raises(UserError, match=r"dev\.jsonl: line 2: 3 choices, but .* at most 2 \("):
        load(task)
    load(make_task(files, KIND, labels=["0", "1", "2"]))


def test_a_missing_column_is_told_with_the_nearest_name(make_task):
    with pytest.raises(UserError, match=r"no column 'y2' \(choices\[1\]\).*Did you mean 'y'"):
        make(
            make_task,
            CSV,
            "train.csv",
            columns={**SEPARATE, "choices": ["x", "y2", "z"]},
        )
    with pytest.raises(UserError, match=r"line 1 has no 'choice' \(choices\).*mean 'choices'"):
        make(
            make_task,
            lines(GOOD),
            columns={"text": "text", "choices": "choice", "label": "label"},
        )


def test_test_files_need_no_labels(make_task):
    test = lines({"text": "a", "choices": ["b", "c"]})
    files = {name: lines(GOOD, GOOD) for name in ("train.jsonl", "dev.jsonl")}
    data, _ = load(make_task({**files, "test.jsonl": test}, KIND), "test")
    assert data.examples[0].choices == ("b", "c")


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"choices": ["x"]}, "one column of lists, or several different columns"),
        ({"choices": ["x", "x"]}, "one column of lists, or several different columns"),
        ({"text": ["x", "y"]}, r"must name one column as 'text', not \['x', 'y'\]"),
        ({"context": "c"}, "unknown role 'context'"),
    ],
)
def test_bad_columns_are_refused(columns, message):
    given = {"text": "t", "choices": "c", "label": "l", **columns}
    spec = {"name": "a", "kind": KIND, "files": {"train": "t.csv"}, "columns": given}
    with pytest.raises(UserError, match=message):
        load_specs(json.dumps(spec))


def test_descriptions_by_flags():
    values = {
        "own_task_kind": KIND,
        "own_task_files": "train=a.csv",
        "own_task_columns": "text=ctx,choices=ending0+ending1 + 7,label=gold",
    }
    spec = spec_from_flags(values, "swag")
    assert spec.columns == {
        "text": "ctx",
        "choices": ("ending0", "ending1", 7),
        "label": "gold",
    }
    assert spec.kind is kinds_by_name()[KIND]
    values["own_task_columns"] = "text=ctx,choices=endings,label=gold"
    assert spec_from_flags(values, "swag").columns["choices"] == "endings"
    # A plus is part of the name of any other column.
    values |= {"own_task_kind": "classification", "own_task_columns": "text=a+b,label=c"}
    assert spec_from_flags(values, "t").columns == {"text_a": "a+b", "label": "c"}


@pytest.mark.parametrize(("labels", "warned"), [((1, 2), True), ((0, 1, 2), False)])
def test_labels_that_seem_to_count_from_one_are_warned_of(make_task, capsys, labels, warned):
    content = lines(
        *(
            {"text": "good", "choices": ["a", "b", "c"], "label": labels[i % len(labels)]}
            for i in range(20)
        )
    )
    task = make(make_task, content, name="train.jsonl")
    load(task, "train")
    assert ("no example has the label 0" in capsys.readouterr().err) == warned
    named = make(make_task, content.replace("0", "3"), labels=["1", "2", "3"])
    load(named, "train")
    assert not capsys.readouterr().err
