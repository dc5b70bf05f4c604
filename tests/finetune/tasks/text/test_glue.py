import functools

import numpy as np
import pytest

from electra_tf.util.errors import UserError
from finetune.config.task_kinds import CLASSIFICATION, REGRESSION
from finetune.data.features import DataReport
from finetune.tasks.base import PREDICT
from finetune.tasks.text.glue import make_glue_task
from finetune.tasks.text.tsv import EMPTY_TEXT, LABELS_UNREAD, MALFORMED
from tests.finetune.tasks.text.tiny import make_config, make_tokenizer, write

PAIR_HEADER = "index\tsentence1\tsentence2\tlabel"
PAIR_TEST_HEADER = "index\tsentence1\tsentence2"
MNLI_HEADER = "\t".join(f"column{i}" for i in range(10))
GLUE_TASKS = (*CLASSIFICATION.built_in, *REGRESSION.built_in)
STS_HEADER = "\t".join(f"column{i}" for i in range(7)) + "\tsentence1\tsentence2\tscore"


@pytest.fixture
def load(tmp_path):
    """Returns a function that loads a split as tuples, from the lines of its file."""

    def load(name, split, *lines, end="\n", **given):
        write(tmp_path / name / f"{split}.tsv", *lines, end=end)
        task = make_glue_task(make_config(tmp_path, **given), name, None)
        report = DataReport(name, split)
        examples = task.load(split, report)
        found = [(e.eid, e.text_a, e.text_b, e.label) for e in examples]
        return found, dict(report.problems)

    return load


@pytest.mark.parametrize(
    ("name", "split", "lines", "expected"),
    [
        ("cola", "train", ["ks08\t1\t\ta b", "ks08\t0\t*\tb a"], ("a b", None, "1")),
        ("cola", "test", ["index\tsentence", "0\ta b"], ("a b", None, "0")),
        ("sst", "dev", ["sentence\tlabel", "a b\t1"], ("a b", None, "1")),
        ("sst", "test", ["index\tsentence", "0\ta b"], ("a b", None, "0")),
        ("mrpc", "dev", ["q\ti\tj\ts\tt", "1\t7\t8\ta\tb"], ("a", "b", "1")),
        ("mrpc", "test", ["index\ti\tj\ts\tt", "0\t7\t8\ta\tb"], ("a", "b", "0")),
        ("qqp", "train", ["id\ti\tj\tq\tr\tl", "0\t7\t8\ta\tb\t1"], ("a", "b", "1")),
        ("qqp", "test", ["id\tq\tr", "0\ta\tb"], ("a", "b", "0")),
        (
            "mnli",
            "train",
            [
                f"{MNLI_HEADER}\tlabel1\tgold_label",
                "0\t\t\t\t\t\t\t\ta\tb\tneutral\tentailment",
            ],
            ("a", "b", "entailment"),
        ),
        (
            "mnli",
            "dev_mismatched",
            [f"{MNLI_HEADER}\tl1\tl2\tgold", "0\t\t\t\t\t\t\t\ta\tb\tneutral\tx\tneutral"],
            ("a", "b", "neutral"),
        ),
        (
            "mnli",
            "test_matched",
            [MNLI_HEADER, "0\t\t\t\t\t\t\t\ta\tb"],
            ("a", "b", "contradiction"),
        ),
        ("mnli", "diagnostic", [PAIR_TEST_HEADER, "0\ta\tb"], ("a", "b", "contradiction")),
        ("qnli", "dev", [PAIR_HEADER, "0\ta\tb\tnot_entailment"], ("a", "b", "not_entailment")),
        ("rte", "train", [PAIR_HEADER, "0\ta\tb\tentailment"], ("a", "b", "entailment")),
        ("rte", "test", [PAIR_TEST_HEADER, "0\ta\tb"], ("a", "b", "entailment")),
        ("wnli", "train", [PAIR_HEADER, "0\ta\tb\t1"], ("a", "b", "1")),
        ("sts", "dev", [STS_HEADER, "0\t\t\t\t\t\t\ta\tb\t3.750"], ("a", "b", 3.75)),
        ("sts", "test", [STS_HEADER[:-6], "0\t\t\t\t\t\t\ta\tb"], ("a", "b", 0.0)),
    ],
)
def test_columns(load, name, split, lines, expected):
    examples, problems = load(name, split, *lines)
    assert examples[0] == (0, *expected)
    assert len(examples) == len(lines) - (not (name == "cola" and split == "train"))
    assert problems == {}


def test_every_task_is_built_with_its_metrics(tmp_path):
    tasks = {name: make_glue_task(make_config(tmp_path), name, None) for name in GLUE_TASKS}
    main = {name: task.main_metric for name, task in tasks.items()}
    assert main.pop("cola") == "mcc"
    assert main.pop("sts") == "spearman"
    assert main == dict.fromkeys(
        ("sst", "mrpc", "qqp", "mnli", "qnli", "rte", "wnli"), "accuracy"
    )
    assert tasks["mrpc"].metrics == tasks["qqp"].metrics == ("accuracy", "f1")
    assert tasks["mnli"].labels == ("contradiction", "entailment", "neutral")
    assert tasks["mnli"].dev_splits == ("dev_matched", "dev_mismatched")
    assert tasks["mnli"].test_splits == ("test_matched", "test_mismatched", "diagnostic")
    assert tasks["rte"].split_files("dev") == [str(tmp_path / "rte" / "dev.tsv")]


def test_mnli_needs_the_first_dev_split_only(tmp_path, capsys):
    (tmp_path / "mnli").mkdir()
    for split in ("train", "dev_matched"):
        (tmp_path / "mnli" / f"{split}.tsv").touch()
    build = functools.partial(make_glue_task, make_config(tmp_path), "mnli", None)
    assert build().dev_splits == ("dev_matched",)
    missing = tmp_path / "mnli" / "dev_mismatched.tsv"
    assert capsys.readouterr().err == (
        f"warning: mnli: there is no {missing}, so only dev_matched is evaluated\n"
    )
    missing.touch()
    assert build().dev_splits == ("dev_matched", "dev_mismatched")
    assert capsys.readouterr().err == ""


PAIRS = ["q\ti\tj\ts\tt", "1\t7\t8\ta\tb", "0\t7\t8\tc\td"]
IN_ONE_ORDER = [(0, "a", "b", "1"), (1, "c", "d", "0")]
IN_BOTH_ORDERS = [*IN_ONE_ORDER, (2, "b", "a", "1"), (3, "d", "c", "0")]


@pytest.mark.parametrize(
    ("split", "doubled", "expected"),
    [
        ("train", True, IN_BOTH_ORDERS),
        ("train", False, IN_ONE_ORDER),
        ("dev", True, IN_ONE_ORDER),
    ],
)
def test_both_orders_of_a_pair(load, split, doubled, expected):
    assert load("mrpc", split, *PAIRS, double_unordered=doubled)[0] == expected


def test_ordered_pairs_are_not_doubled(load):
    examples, _ = load("rte", "train", PAIR_HEADER, "0\ta\tb\tentailment")
    assert len(examples) == 1


@pytest.mark.parametrize(
    ("split", "lines", "labels"),
    [
        (
            "train",
            ["id\ti\tj\tq\tr\tl", "0\t1\t2\ta\tb\t1", "\t\t\tbroken", "2\t5\t6\tc\td\t0"],
            "10",
        ),
        ("test", ["id\tq\tr", "0\ta\tb", "1\t\t\tbroken", "2\tc\td"], "00"),
    ],
)
def test_broken_rows_of_qqp_are_reported_and_take_a_number_as_with_the_authors(
    load, tmp_path, split, lines, labels
):
    examples, problems = load("qqp", split, *lines)
    assert examples == [(0, "a", "b", labels[0]), (2, "c", "d", labels[1])]
    path = str(tmp_path / "qqp" / f"{split}.tsv")
    assert problems == {MALFORMED: [{"file": path, "line": 3, "columns": 4}]}


def test_quotes_and_carriage_returns(load):
    examples, _ = load("sst", "dev", "sentence\tlabel\r", '"a b\t1\r', end="\r\n\r\n")
    assert examples == [(0, '"a b', None, "1")]


def test_an_empty_text_is_reported(load):
    examples, problems = load("rte", "dev", PAIR_HEADER, "0\ta\t\tentailment")
    assert examples == [(0, "a", "", "entailment")]
    assert [case["line"] for case in problems[EMPTY_TEXT]] == [2]


@pytest.mark.parametrize(
    ("name", "lines", "messages"),
    [
        ("sst", ["sentence\tlabel", "a\t1", "b"], ["train.tsv, line 3: 1 columns", "has 2"]),
        ("rte", [PAIR_HEADER, "0\ta\tb\tc\tentailment"], ["line 2: 5 columns", "has 4"]),
        ("cola", ["ks08\t1\t\ta", "ks08\t1\ta"], ["train.tsv, line 2: 3 columns", "has 4"]),
        ("mnli", [PAIR_HEADER, "0\ta\tb\tneutral"], ["line 1: 4 columns", "at least 10"]),
        ("sst", ["sentence\tlabel", "a\t2"], ["line 2: unknown label '2'", "are 0, 1"]),
        (
            "rte",
            [PAIR_HEADER, "0\ta\tb\tentailmnt"],
            ["line 2", "'entailmnt'", "Did you mean 'entailment'?"],
        ),
        ("sts", [STS_HEADER, "0\t\t\t\t\t\t\ta\tb\thigh"], ["line 2", "from 0 to 5", "'high'"]),
        ("sts", [STS_HEADER, "0\t\t\t\t\t\t\ta\tb\t5.1"], ["line 2", "from 0 to 5", "'5.1'"]),
        ("sts", [STS_HEADER, "0\t\t\t\t\t\t\ta\tb\tnan"], ["line 2", "from 0 to 5", "'nan'"]),
        ("sst", ["sentence\tlabel"], ["train.tsv contains no examples"]),
        ("sst", [""], ["train.tsv is empty"]),
        ("cola", ["ks08\t1\t\ta\rks08\t1\t\tb"], ["train.tsv", "carriage return"]),
    ],
)
def test_bad_input(load, tmp_path, name, lines, messages):
    with pytest.raises(UserError) as raised:
        load(name, "train", *lines)
    for message in (str(tmp_path / name / "train.tsv"), *messages):
        assert message in str(raised.value)


@pytest.mark.parametrize(
    ("name", "first", "warned"),
    [
        ("sst", "a\t1", True),
        ("sst", "sentence\tlabel", False),
        ("sst", "0\t1", False),  # of pandas
        ("rte", "0\ta\tb\tentailment", True),
    ],
)
def test_an_example_in_place_of_the_names_is_warned_of(load, capsys, name, first, warned):
    label = "1" if name == "sst" else "entailment"
    row = "\t".join(["c"] * first.count("\t") + [label])
    examples, _ = load(name, "train", first, row)
    assert len(examples) == 1
    assert ("is read as the names of the columns" in capsys.readouterr().err) == warned


def test_missing_file_and_split(tmp_path):
    task = make_glue_task(make_config(tmp_path), "rte", None)
    with pytest.raises(
        UserError, match=r"No such file: .*rte/dev\.tsv \(the dev split.*--raw_data_dir"
    ):
        task.load("dev", DataReport("rte", "dev"))
    with pytest.raises(UserError, match="no split 'diagnostic', only train, dev, test"):
        task.load("diagnostic", DataReport("rte", "diagnostic"))


def test_invalid_utf8(tmp_path):
    write(tmp_path / "sst" / "dev.tsv", "sentence\tlabel", "a\t1")
    with (tmp_path / "sst" / "dev.tsv").open("ab") as file:
        file.write(b"caf\xe9\t1\n")
    task = make_glue_task(make_config(tmp_path), "sst", None)
    with pytest.raises(UserError, match=r"dev\.tsv: line 3 is not UTF-8"):
        task.load("dev", DataReport("sst", "dev"))


def test_unlabeled_file_is_laid_out_as_test(tmp_path):
    path = tmp_path / "new" / "texts.tsv"
    write(path, PAIR_TEST_HEADER, "7\ta\tb", "8\tc\td")
    task = make_glue_task(make_config(tmp_path, predict_file=str(path)), "rte", None)
    examples = task.load(PREDICT, DataReport("rte", PREDICT))
    assert [(e.eid, e.text_a, e.text_b) for e in examples] == [(0, "a", "b"), (1, "c", "d")]


@pytest.mark.parametrize(
    ("name", "lines", "expected"),
    [
        ("cola", ["gj04\t1\t\ta b", "gj04\t0\t*\tb"], [(0, "a b", None), (1, "b", None)]),
        ("sst", ["sentence\tlabel", "a b\t1", "1\t0"], [(0, "a b", None), (1, "1", None)]),
        ("qqp", ["id\ti\tj\tq\tr\tl", "0\t1\t2\ta\tb\t1"], [(0, "a", "b")]),
        ("sts", [STS_HEADER, "0\t\t\t\t\t\t\ta\tb\t3.75"], [(0, "a", "b")]),
    ],
)
@pytest.mark.parametrize("split", [PREDICT, "test"])
def test_a_file_to_predict_may_have_labels(tmp_path, name, lines, expected, split):
    path = tmp_path / name / "test.tsv"
    write(path, *lines)
    task = make_glue_task(make_config(tmp_path, predict_file=str(path)), name, None)
    report = DataReport(name, split)
    examples = task.load(split, report)
    assert [(e.eid, e.text_a, e.text_b) for e in examples] == expected
    assert report.problems == {LABELS_UNREAD: [{"file": str(path)}]}


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("sst", ["index\tsentence", "0\t1", "1\ta b"]),
        ("sts", [STS_HEADER[:-6], "0\t\t\t\t\t\t\ta\t5", "1\t\t\t\t\t\t\ta\tb"]),
        ("cola", ["index\tsentence", "0\t1"]),
    ],
)
def test_texts_that_look_like_labels_are_no_labels(tmp_path, name, lines):
    path = tmp_path / "new.tsv"
    write(path, *lines)
    task = make_glue_task(make_config(tmp_path, predict_file=str(path)), name, None)
    report = DataReport(name, PREDICT)
    assert task.load(PREDICT, report)[0].eid == 0
    assert report.problems == {}


def test_features(tmp_path):
    write(tmp_path / "sts" / "dev.tsv", STS_HEADER, "0\t\t\t\t\t\t\ta b\tCX d\t1.25")
    task = make_glue_task(make_config(tmp_path), "sts", make_tokenizer(tmp_path))
    report = DataReport("sts", "dev")
    (row,) = task.featurize(task.load("dev", report), is_training=False, report=report)
    assert {name: np.asarray(value).tolist() for name, value in row.items()} == {
        "input_ids": [2, 5, 6, 3, 7, 11, 8, 3],
        "segment_ids": [0, 0, 0, 0, 1, 1, 1, 1],
        "sts_eid": 0,
        "sts_targets": 0.25,
    }
    assert {spec.name: spec.dtype for spec in task.feature_specs} == {
        "sts_eid": "int32",
        "sts_targets": "float32",
    }
    assert dict(report.problems) == {}
