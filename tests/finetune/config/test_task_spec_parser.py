"""Tests of the descriptions of users' own tasks."""

import json

import pytest

from electra_tf.util.errors import UserError
from finetune.config.task_spec_parser import load_specs, spec_from_flags

ROUTER = {"name": "router", "kind": "classification", "files": {"train": "tickets.csv"}}


def load(**changes):
    (spec,) = load_specs(json.dumps({**ROUTER, **changes}))
    return spec


def test_a_file_is_read_with_its_folder(tmp_path):
    path = tmp_path / "router.json"
    path.write_text(
        json.dumps(
            {
                **ROUTER,
                "columns": {"text": "body", "text_b": 2, "label": "queue"},
                "labels": ["billing", 7],
                "metric": "mcc",
                "dev_fraction": None,
            }
        )
    )
    (spec,) = load_specs(str(path))
    assert spec.columns == {"text_a": "body", "text_b": 2, "label": "queue"}
    assert spec.labels == ("billing", "7")
    assert (spec.metric, spec.header, spec.format) == ("mcc", None, None)
    assert spec.candidate_paths("train", "/raw") == (
        str(tmp_path / "tickets.csv"),
        "/raw/router/tickets.csv",
    )


def test_a_list_describes_several_tasks_and_defaults_follow_the_kind():
    first, second = load_specs(
        json.dumps([ROUTER, {"name": "ner2", "kind": "tagging", "files": {"train": "a.iob2"}}])
    )
    assert (first.name, first.metric) == ("router", "accuracy")
    assert (second.name, second.metric, second.level) == ("ner2", "f1", "span")
    assert (first.column("text_a"), first.column("label")) == ("text", "label")


def test_labels_are_spelt_as_in_files():
    (spec,) = load_specs(json.dumps({**ROUTER, "labels": [False, True, 7]}))
    assert spec.labels == ("false", "true", "7")


def test_relative_paths_are_tried_beside_the_spec_and_then_among_the_tasks(tmp_path):
    raw = tmp_path / "raw"
    (raw / "router").mkdir(parents=True)
    spec_path = tmp_path / "router.json"
    spec_path.write_text(json.dumps(ROUTER))
    (spec,) = load_specs(str(spec_path))
    beside, among = tmp_path / "tickets.csv", raw / "router" / "tickets.csv"
    with pytest.raises(UserError) as error:
        spec.path("train", str(raw))
    assert str(beside) in str(error.value)
    assert str(among) in str(error.value)
    among.write_text("x")
    assert spec.path("train", str(raw)) == str(among)
    beside.write_text("x")
    assert spec.path("train", str(raw)) == str(beside)


def test_share_of_train_that_becomes_dev():
    assert load().held_out_fraction == 0.1
    assert load(dev_fraction=0).held_out_fraction == 0
    assert load(dev_fraction=0.25).held_out_fraction == 0.25
    assert load(files={"train": "a.csv", "dev": "b.csv"}).held_out_fraction == 0


@pytest.mark.parametrize(
    ("changes", "path", "expected"),
    [
        ({}, "a.tsv", "tsv"),
        ({}, "A.CSV.gz", "csv"),
        ({}, "a.jsonl", "jsonl"),
        ({"format": "tsv"}, "a.txt", "tsv"),
        ({"kind": "tagging"}, "a.conll.gz", "conll"),
        ({"kind": "qa"}, "a.json", "squad"),
        ({"kind": "qa"}, "a.jsonl.gz", "mrqa"),
        ({"kind": "qa", "format": "jsonl"}, "a.jsonl", "mrqa"),
    ],
)
def test_formats_follow_extensions(changes, path, expected):
    assert load(**changes).format_of(path) == expected


def test_qa_records_with_columns_are_flat():
    columns = {"question": "q", "context": "c", "answers": "a"}
    assert load(kind="qa", columns=columns).format_of("a.jsonl") == "jsonl"


@pytest.mark.parametrize("path", ["a.txt", "a", "a.json", "a.conll"])
def test_unknown_formats_are_refused(path):
    with pytest.raises(UserError, match=r'a.*: the extension .* "format" .* tsv, csv, jsonl'):
        load().format_of(path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"colums": {}},
            r"task 'router' has the unknown key 'colums'\. Did you mean 'columns'",
        ),
        ({"kind": None}, r"task 'router' lacks the key \"kind\""),
        ({"files": None}, 'lacks the key "files"'),
        ({"name": None}, 'task lacks the key "name"'),
        ({"name": "a,b"}, "\"name\" must be letters from A to Z, digits, - and _, not 'a,b'"),
        ({"kind": "classify"}, '"kind" must be one of classification, multilabel'),
        ({"files": {"dev": "a.csv"}}, '"files" lacks the split "train"'),
        (
            {"files": {"train": "a.csv", "predict": "b.csv"}},
            'must not name the split "predict", which is --predict_file',
        ),
        ({"name": "일"}, '"name" must be letters'),
        ({"files": "a.csv"}, '"files" must be an object of paths'),
        ({"header": "no"}, '"header" must be true or false'),
        ({"labels": ["a"]}, '"labels" must be a list of at least two'),
        ({"labels": [0.5, 1.5]}, "two labels, which are strings, integers or booleans, not"),
        ({"labels": [True, "true"]}, "lists 'true' more than once"),
        ({"labels": ["1", 1]}, "lists '1' more than once"),
        ({"labels": ["a", "b", " "]}, "\"labels\" has an empty label: 'a', 'b', ' '"),
        ({"metric": "f2"}, "\"metric\" of a classification .* accuracy, .*mcc.*, not 'f2'"),
        ({"kind": "regression", "metric": "mcc"}, "regression task must be one of spearman"),
        ({"format": "conll"}, "classification task must be one of tsv, csv, jsonl"),
        ({"min_label": 0}, '"min_label" is for regression, but this task is classification'),
        ({"level": "span"}, '"level" is for tagging'),
        ({"kind": "regression", "min_label": 5, "max_label": 5}, r"\(5\) must be below"),
        ({"dev_fraction": 1}, '"dev_fraction" must be at least 0 and below 1, not 1'),
        (
            {"files": {"train": "a.csv", "dev": "b.csv"}, "dev_fraction": 0.1},
            "remove one of them",
        ),
        ({"columns": {"txt": 1}}, r"unknown role 'txt'\. Did you mean 'text'"),
        ({"columns": {"text": 1}}, '"columns" lacks label; a classification task needs'),
        ({"columns": {"text": 1, "text_a": 0, "label": 2}}, 'both "text" and "text_a"'),
        (
            {"columns": {"text_a": "q", "text_b": "q", "label": "l"}},
            "names the column 'q' as 'text_a' and as 'text_b'",
        ),
        ({"columns": {"text": 1, "label": 1}}, "names the column 1 as 'text_a' and as 'label'"),
        (
            {
                "kind": "multiple_choice",
                "columns": {"text": "t", "choices": ["a", "b"], "label": "b"},
            },
            "names the column 'b' as 'choices' and as 'label'",
        ),
        ({"header": False}, '"columns" must be indices'),
        ({"header": False, "columns": {"text": "a", "label": 1}}, '"columns" must be indices'),
    ],
)
def test_bad_descriptions_are_refused(changes, message):
    with pytest.raises(UserError, match=message):
        load(**changes)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "--task_spec is not valid JSON"),
        ("[]", "must be a JSON object"),
        ("[1]", "must be a JSON object"),
        (json.dumps([ROUTER, ROUTER]), "describes task 'router' more than once"),
        ('{"name": "a", "name": "b"}', "duplicate key 'name'"),
        ("absent.json", r"--task_spec=absent\.json: cannot be read: No such file"),
    ],
)
def test_bad_json_is_refused(text, message):
    with pytest.raises(UserError, match=message):
        load_specs(text)


def flags(**own):
    return {f"own_task_{key}": value for key, value in own.items()}


def test_flags_describe_a_task_as_a_file_does():
    spec = spec_from_flags(
        flags(
            kind="classification",
            files="train=a.tsv, dev=b.tsv",
            columns="text=review,label=-1",
            labels="bad,good",
            metric="mcc",
            format=None,
        ),
        "reviews",
    )
    assert spec.name == "reviews"
    assert spec.files == {"train": "a.tsv", "dev": "b.tsv"}
    assert spec.columns == {"text_a": "review", "label": -1}
    assert spec.labels == ("bad", "good")
    assert spec.metric == "mcc"
    assert spec_from_flags(flags(kind=None), "reviews") is None


@pytest.mark.parametrize(
    ("own", "message"),
    [
        ({"kind": "qa"}, "--own_task_kind needs --own_task_files"),
        ({"files": "train=a"}, "--own_task_files needs --own_task_kind"),
        ({"kind": "qa", "files": "a.tsv"}, "--own_task_files must have the form train=a.tsv"),
        ({"kind": "qa", "files": "train=a,b/c.tsv"}, "use --task_spec for names with commas"),
        ({"kind": "qa", "files": "dev=a,dev=b"}, "--own_task_files has 'dev' twice"),
        (
            {"kind": "qa", "files": "dev=a.json"},
            r'own_task_\*: task .* lacks the split "train"',
        ),
    ],
)
def test_bad_flags_are_named(own, message):
    with pytest.raises(UserError, match=message):
        spec_from_flags(flags(**own), "mine")


def test_a_group_column_is_a_name_or_an_index():
    assert load(group_column="user").group_column == "user"
    with pytest.raises(UserError, match='"group_column" must be a column name or index'):
        load(group_column=1.5)
    flags = {"own_task_kind": "classification", "own_task_files": "train=a.csv"}
    spec = spec_from_flags({**flags, "own_task_group_column": "-1"}, "mine")
    assert spec.group_column == -1
