"""Tests of users' texts with labels, label sets and numbers."""

import json

import pyarrow
import pytest
from pyarrow import parquet

from electra_tf.util.console import warn_once
from electra_tf.util.errors import UserError
from finetune.config.finetuning import FinetuningConfig
from finetune.config.task_spec_parser import load_specs
from finetune.data.features import DataReport
from finetune.tasks.text.custom import ClassLabels, LabelSets, NumberLabels, TextSource

LABEL_COLUMNS = {
    "classification": ClassLabels,
    "multilabel": LabelSets,
    "regression": NumberLabels,
}


@pytest.fixture
def make_source(tmp_path):
    """Returns a function that writes files and makes the source of a task called mine."""

    def make(files, /, kind="classification", config=None, **changes):
        for name, content in files.items():
            (tmp_path / name).write_text(content)
        spec_file = tmp_path / "mine.json"
        given = {
            "name": "mine",
            "kind": kind,
            "files": {name.split(".")[0]: name for name in files if name != "new.tsv"},
        }
        spec_file.write_text(json.dumps({**given, **changes}))
        (spec,) = load_specs(str(spec_file))
        settings = {"data_dir": str(tmp_path), "model_name": "m", "task_names": ("mine",)}
        config = FinetuningConfig.create(**settings, **(config or {}))
        return TextSource(spec, config, LABEL_COLUMNS[kind])

    return make


def load(source, split):
    return source.load(split, DataReport("mine", split))


def tsv(*rows):
    return "\n".join(["text\tlabel", *rows]) + "\n"


TRAIN = tsv("good film\tpos", "bad film\tneg", "so so\tpos")


def test_examples_of_pairs(make_source):
    source = make_source(
        {"train.csv": 'q,a,y,n\nwho?,me,1,x1\nwhy?,"so, there",0,x2\n'},
        columns={"text_a": "q", "text_b": "a", "label": "y", "id": "n"},
        dev_fraction=0,
    )
    first, second = load(source, "train")
    assert (first.eid, first.text_a, first.text_b) == (0, "who?", "me")
    assert (first.label, first.guid) == ("1", "x1")
    assert (second.eid, second.text_b, second.guid) == (1, "so, there", "x2")
    assert source.labels.names == ("0", "1")
    assert source.dev_splits == ()


def test_without_columns_ids_are_read_and_second_texts_are_told_of(make_source, capsys):
    warn_once.cache_clear()
    files = {"train.csv": "id,text,text_b,label\nx1,good,film,1\nx2,bad,film,0\n"}
    source = make_source(files, dev_fraction=0)
    assert [(e.guid, e.text_a, e.text_b) for e in load(source, "train")] == [
        ("x1", "good", None),
        ("x2", "bad", None),
    ]
    assert "train.csv has a column 'text_b', which is not read: to" in capsys.readouterr().err
    columns = {"text": "text", "label": "label"}
    (first, _) = load(make_source(files, columns=columns, dev_fraction=0), "train")
    assert first.guid is None
    assert not capsys.readouterr().err


def test_ids_that_nobody_has_named_are_left_out_if_they_cannot_be_read(make_source, tmp_path):
    """Such files need no ids."""
    table = pyarrow.table({"id": [b"\xff", b"\xfe"], "text": ["a", "b"], "label": [0, 1]})
    parquet.write_table(table, tmp_path / "a.parquet")
    source = make_source({}, files={"train": str(tmp_path / "a.parquet")}, dev_fraction=0)
    assert [(e.guid, e.text_a) for e in load(source, "train")] == [(None, "a"), (None, "b")]
    files = {"train.csv": "id,text,label,id\n1,a,x,1\n2,b,y,2\n"}
    (first, _) = load(make_source(files, dev_fraction=0), "train")
    assert first.guid is None
    columns = {"text": "text", "label": "label", "id": "id"}
    with pytest.raises(UserError, match="more than one column 'id'"):
        load(make_source(files, columns=columns, dev_fraction=0), "train")


def test_labels_of_train_are_sorted_numbers_first(make_source):
    rows = [f"text\t{label}" for label in ("b", "10", "2", "-1", "a")]
    assert make_source({"train.tsv": tsv(*rows)}).labels.names == ("-1", "2", "10", "a", "b")
    given = make_source({"train.tsv": tsv(*rows)}, labels=["b", "a", "2", "-1", "10"])
    assert given.labels.names == ("b", "a", "2", "-1", "10")


def test_labels_that_look_like_one_are_warned_of(make_source, capsys):
    rows = [f"text\t{label}" for label in ("Spam", "spam", "no  spam", "no spam", "ham")]
    files = {"train.tsv": tsv(*rows)}
    assert len(make_source(files).labels.names) == 5
    assert "'Spam', 'spam'; 'no  spam', 'no spam'" in capsys.readouterr().err
    # Labels that are listed are meant.
    names = ["Spam", "spam", "no  spam", "no spam", "ham"]
    assert len(make_source(files, labels=names).labels.names) == 5
    assert capsys.readouterr().err == ""


def test_a_column_of_ids_for_labels_is_warned_of(make_source, capsys):
    few = [f"text\t{i}" for i in range(20)]
    assert len(make_source({"train.tsv": tsv(*few)}).labels.names) == 20
    assert capsys.readouterr().err == ""
    many = [f"text\t{i}" for i in range(30)]
    assert len(make_source({"train.tsv": tsv(*many)}).labels.names) == 30
    assert "30 different labels in 30" in capsys.readouterr().err
    # Each of them twice.
    assert len(make_source({"train.tsv": tsv(*many, *many)}).labels.names) == 30
    assert capsys.readouterr().err == ""


def test_splits_by_name(make_source):
    files = {f"{name}.tsv": TRAIN for name in ("train", "test_b", "shop", "dev", "test")}
    source = make_source(files)
    assert source.dev_splits == ("dev", "shop")
    assert source.test_splits == ("test_b", "test")
    assert [e.label for e in load(source, "shop")] == ["pos", "neg", "pos"]
    with pytest.raises(UserError, match="no split 'dve', only train, test_b, shop, dev, test"):
        load(source, "dve")


def test_dev_is_held_out_of_train_with_the_same_shares(make_source):
    rows = [f"text {i}\t{'a' if i % 4 else 'b'}" for i in range(40)]
    lines = [json.dumps({"text": row[:-2], "label": row[-1]}) for row in rows]
    files = {"train.jsonl": "\n".join(lines)}
    source = make_source(files, dev_fraction=0.2)
    train, dev = load(source, "train"), load(source, "dev")
    assert source.dev_splits == ("dev",)
    assert sorted(e.text_a for e in (*train, *dev)) == sorted(r[:-2] for r in rows)
    assert sorted(e.label for e in dev) == ["a"] * 6 + ["b"] * 2
    assert [e.eid for e in dev] == list(range(8))
    other_seed = make_source(files, dev_fraction=0.2, config={"seed": 7})
    assert load(other_seed, "dev") == dev
    assert load(make_source(files, dev_fraction=0.2, dev_seed=1), "dev") != dev
    report = DataReport("mine", "dev")
    source.load("dev", report)
    assert report.lines() == [
        "mine dev: 1 x no dev file: examples of train are held out as dev"
    ]


def test_parquet_files_are_found_by_extension(make_source, tmp_path):
    table = pyarrow.table({"review": ["good", "bad"] * 5, "stars": [5, 1] * 5})
    parquet.write_table(table, tmp_path / "reviews.parquet")
    files = {"train": str(tmp_path / "reviews.parquet")}
    columns = {"text": "review", "label": "stars"}
    source = make_source({}, files=files, columns=columns)
    assert source.labels.names == ("1", "5")
    assert len(load(source, "train")) + len(load(source, "dev")) == 10
    with pytest.raises(UserError, match=r"no column 'star'.* Did you mean 'stars'"):
        _ = make_source({}, files=files, columns={**columns, "label": "star"}).labels.names


def test_cross_validation_holds_nothing_out(make_source):
    source = make_source({"train.tsv": TRAIN}, config={"num_folds": 2})
    assert len(load(source, "train")) == 3
    with pytest.raises(UserError, match="no split 'dev', only train"):
        load(source, "dev")


def test_fingerprints_cover_specification_data_and_train(make_source, tmp_path):
    source = make_source({"train.tsv": TRAIN, "dev.tsv": TRAIN})
    names = ["mine.json", "dev.tsv", "train.tsv"]
    assert source.split_files("dev") == [str(tmp_path / name) for name in names]
    assert source.split_files("train") == [str(tmp_path / n) for n in (names[0], names[2])]


def test_multilabel_cells_and_lists(make_source, tmp_path):
    source = make_source(
        {
            "train.tsv": tsv("one\ta; b", "none\t", "two\tb;b"),
            "dev.jsonl": '{"text": "x", "label": ["b", "a"]}\n{"text": "y", "label": []}\n',
        },
        kind="multilabel",
        label_separator=";",
    )
    assert source.labels.names == ("a", "b")
    assert [e.label for e in load(source, "train")] == [("a", "b"), (), ("b",)]
    assert [e.label for e in load(source, "dev")] == [("b", "a"), ()]
    (tmp_path / "dev.jsonl").write_text('{"text": "x", "label": ["a", "c"]}\n')
    with pytest.raises(UserError, match=r"dev\.jsonl: line 1: label 'c' is not in .* a, b"):
        load(source, "dev")


def test_labels_of_the_description_keep_their_order(make_source):
    files = {"train.tsv": tsv("one\tb", "two\tc")}
    source = make_source(files, kind="multilabel", labels=["c", "b", "a"], dev_fraction=0)
    assert source.labels.names == ("c", "b", "a")
    assert [e.label for e in load(source, "train")] == [("b",), ("c",)]
    source = make_source(files, kind="multilabel", labels=["b", "a"], dev_fraction=0)
    with pytest.raises(UserError, match=r"train\.tsv: line 3: unknown label 'c'; .* b, a"):
        load(source, "train")


@pytest.mark.parametrize("kind", ["classification", "multilabel"])
def test_listed_labels_without_a_training_example_are_told(make_source, capsys, kind):
    """A model may predict them nevertheless."""
    warn_once.cache_clear()
    files = {"train.tsv": tsv("one\tb", "two\tc", "three\tb")}
    load(make_source(files, kind, labels=["c", "b"], dev_fraction=0), "train")
    assert not capsys.readouterr().err
    load(make_source(files, kind, labels=["d", "c", "b", "a"], dev_fraction=0), "train")
    error = capsys.readouterr().err
    assert "train.tsv: no example has 'd', 'a' of the \"labels\" in " in error


def test_a_separator_that_separates_nothing_is_warned_of(make_source, capsys):
    files = {"train.tsv": tsv("one\ta;b", "two\tc")}
    assert make_source(files, kind="multilabel").labels.names == ("a;b", "c")
    assert "such as 'a;b'; if that is a list" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("labels", "warned"),
    [
        (("[0, 1, 1]", "[1, 0, 1]", "[0, 0, 0]"), "'0' and '1'"),
        (("[true, false]", "[false, false]"), "'false' and 'true'"),
        (('"0,1"', '"1,1"'), "'0' and '1'"),
        (("[0, 1, 2]", "[1]"), None),
    ],
)
def test_lists_that_tell_labels_by_position_are_warned_of(make_source, capsys, labels, warned):
    content = "".join(f'{{"text": "x", "label": {label}}}\n' for label in labels)
    source = make_source({"train.jsonl": content}, kind="multilabel", dev_fraction=0)
    assert len(source.labels.names) > 1
    error = capsys.readouterr().err
    assert ("by position" in error) == (warned is not None)
    assert warned is None or f"train.jsonl: the only labels are {warned}; if" in error


RANGE = {"min_label": 0, "max_label": 5}


def test_regression_range(make_source):
    files = {"train.tsv": tsv("a\t1", "b\t4.5"), "dev.tsv": tsv("c\t6")}
    found = make_source(files, kind="regression")
    assert found.labels.range == (1.0, 4.5)
    assert [e.label for e in load(found, "dev")] == [6.0]
    given = make_source(files, kind="regression", **RANGE)
    assert given.labels.range == (0.0, 5.0)
    with pytest.raises(
        UserError, match=r"dev\.tsv: line 2: label 6\.0 is not between .*\(0\).*\(5\)"
    ):
        load(given, "dev")
    with pytest.raises(UserError, match=r"train\.tsv: labels are from 2\.0 to 2\.0"):
        _ = make_source({"train.tsv": tsv("a\t2", "b\t2")}, kind="regression").labels.range
    one = make_source({"train.tsv": tsv("a\t2", "b\t2")}, kind="regression", **RANGE)
    with pytest.raises(UserError, match=r"train\.tsv: labels are from 2\.0 to 2\.0"):
        load(one, "train")
    with pytest.raises(UserError, match=r'train\.tsv: line 3: label must be a number, not "x"'):
        load(make_source({"train.tsv": tsv("a\t2", "b\tx")}, kind="regression"), "train")


def test_files_to_predict_need_no_labels(make_source, tmp_path):
    (tmp_path / "new.tsv").write_text("text\nhello\n")
    config = {"predict_file": str(tmp_path / "new.tsv")}
    for kind, dummy in (("classification", "neg"), ("multilabel", ())):
        source = make_source({"train.tsv": TRAIN}, kind, config)
        (example,) = load(source, "predict")
        assert (example.text_a, example.label) == ("hello", dummy)


@pytest.mark.parametrize("test", [tsv("fine\tpos"), tsv("fine\t?"), "text\nfine\n"])
def test_labels_of_test_are_not_looked_at(make_source, test):
    source = make_source({"train.tsv": TRAIN, "dev.tsv": TRAIN, "test.tsv": test})
    (example,) = load(source, "test")
    assert (example.text_a, example.label) == ("fine", "neg")


def test_errors_of_labels(make_source):
    files = {"train.tsv": TRAIN, "dev.tsv": tsv("fine\tpos", "so so\tneutral")}
    with pytest.raises(
        UserError,
        match=r"dev\.tsv: line 3: label 'neutral' is not in .*train\.tsv, .*neg, pos",
    ):
        load(make_source(files), "dev")
    with pytest.raises(
        UserError, match=r"dev\.tsv: line 3: unknown label 'neutral'; .* labels neg, pos"
    ):
        load(make_source(files, labels=["neg", "pos"]), "dev")
    alike = {"train.tsv": tsv("a\té", "b\tneg"), "dev.tsv": tsv("a\te\u0301")}
    for labels in ({}, {"labels": ["é", "neg"]}):
        with pytest.raises(UserError, match=r"It differs from 'é' only in case, .*Uni"):
            load(make_source(alike, **labels), "dev")
    with_neutral = make_source(files, labels=["neg", "neutral", "pos"])
    assert [e.label for e in load(with_neutral, "dev")] == ["pos", "neutral"]
    same = {"train.tsv": tsv("a\tx", "b\tx")}
    with pytest.raises(UserError, match=r"train\.tsv: all 2 examples have the label 'x'"):
        _ = make_source(same).labels.names
    with pytest.raises(UserError, match="all 2 examples have the label 'x'"):
        load(make_source(same, labels=["x", "y"]), "train")
    with pytest.raises(UserError, match="no example has a label"):
        _ = make_source({"train.tsv": tsv("a\t", "b\t")}, kind="multilabel").labels.names
    with pytest.raises(UserError, match="no example has a label"):
        load(
            make_source({"train.tsv": tsv("a\t")}, kind="multilabel", labels=["x", "y"]),
            "train",
        )
    with pytest.raises(UserError, match="too few examples to hold out"):
        load(make_source({"train.tsv": tsv("a\tx", "b\ty")}), "train")


def test_missing_texts_and_files_are_named(make_source, tmp_path):
    with pytest.raises(UserError, match=r"train\.tsv: line 3: text_a is empty"):
        load(make_source({"train.tsv": tsv("a\tx", " \ty")}), "train")
    source = make_source({"train.tsv": TRAIN, "dev.tsv": TRAIN})
    (tmp_path / "dev.tsv").unlink()
    among = tmp_path / "finetuning_data" / "mine" / "dev.tsv"
    with pytest.raises(
        UserError, match=f"the dev file .* tried {tmp_path}/dev.tsv and {among}"
    ):
        load(source, "dev")
