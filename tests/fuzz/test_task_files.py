"""Descriptions of tasks, and readers of task files, on whatever they are given."""

import gzip
import json
import math
import re

import pytest
from hypothesis import strategies as st

from electra_tf.util.errors import UserError
from finetune.config.task_kinds import kinds_by_name
from finetune.config.task_spec import TaskSpec
from finetune.config.task_spec_parser import load_specs, spec_from_flags
from finetune.data.features import DataReport
from finetune.data.file_readers import read_records
from finetune.data.raw_examples import RawExample
from finetune.tasks.custom_files import Labels
from finetune.tasks.qa.examples import QuestionCollector
from finetune.tasks.qa.readers import read_questions
from tests.fuzz.inputs import ODD_TEXTS, json_values, outcome, texts, tries

KEYS = (
    *(
        "name",
        "kind",
        "files",
        "format",
        "header",
        "columns",
        "group_column",
        "labels",
        "metric",
    ),
    *("label_separator", "min_label", "max_label", "dev_fraction", "dev_seed", "level"),
    *("unanswerable", "kinds"),
)
GOOD = {
    "name": st.sampled_from(["a", "t1", "../a", "a/b", "", "-"]),
    "kind": st.sampled_from([*kinds_by_name()]),
    "files": st.dictionaries(
        st.sampled_from(["train", "dev", "test", "test_a", "predict", "x", "", "../x"]),
        st.sampled_from(
            ["a.tsv", "b.csv", "../../a.jsonl", "/etc/passwd", "a.parquet", "~/x.tsv"]
        )
        | texts,
        max_size=3,
    ),
    "columns": st.dictionaries(
        st.sampled_from(
            ["text", "text_a", "text_b", "label", "words", "tags", "question", "choices", "id"]
        ),
        st.integers(-3, 3) | texts | st.lists(st.integers(-3, 3) | texts, max_size=3),
        max_size=4,
    ),
    "labels": st.lists(texts | st.integers(0, 3), max_size=4),
}


@st.composite
def descriptions(draw):
    keys = draw(st.lists(st.sampled_from(KEYS), unique=True, max_size=8))
    keys = list(dict.fromkeys((*draw(st.sampled_from([("name", "kind", "files"), ()])), *keys)))
    return {key: draw(GOOD[key] | json_values if key in GOOD else json_values) for key in keys}


@tries(600, given=descriptions() | json_values)
def test_descriptions(given):
    text = json.dumps(given)
    if not text.lstrip().startswith(("{", "[")):
        return  # a path
    specs = outcome(load_specs, text)
    if isinstance(specs, UserError):
        return
    for spec in specs:
        assert isinstance(spec, TaskSpec)
        assert not {"/", "\\", "\0"} & set(spec.name)
        for bound in (spec.min_label, spec.max_label):
            assert bound is None or math.isfinite(float(bound))
        for split in spec.files:
            outcome(spec.path, split, "no/such")
            outcome(spec.format_of, spec.files[split])


@tries(
    300,
    values=st.dictionaries(
        st.sampled_from([f"own_task_{key}" for key in KEYS]),
        texts
        | st.sampled_from(
            [
                *("train=a.tsv", "classification", "text=0,label=1", "a,b"),
                *("multiple_choice", "text=0,label=1,choices=2+3", "text=a,choices=+"),
            ]
        ),
        max_size=5,
    ),
)
def test_descriptions_by_flags(values):
    outcome(spec_from_flags, values, "t")


@pytest.mark.parametrize(
    "content", [b"\xff", b"[" * 100_000, b"", b"\0", b"{}", b'{"name": "a"}']
)
def test_description_files(tmp_path, content):
    path = tmp_path / "task.json"
    path.write_bytes(content)
    assert isinstance(outcome(load_specs, str(path)), UserError)
    assert isinstance(outcome(load_specs, str(tmp_path)), UserError)
    assert isinstance(outcome(load_specs, "a\0.json"), UserError)


VALUES = (*ODD_TEXTS, 1, 10**400, 1.5, float("nan"), float("inf"), True, None, [], {}, ["a", 1])


@tries(500, value=st.sampled_from(VALUES) | json_values)
def test_values_of_cells(value):
    record = RawExample("f.jsonl", 3, {"x": value})
    number = outcome(record.number, "x")
    if not isinstance(number, UserError):
        assert math.isfinite(number)
        assert isinstance(value, (int, float)) or value.strip().isascii()
        assert "_" not in str(value)
    for read in (record.text, record.words, record.label, record.name, record.group):
        result = outcome(read, "x")
        assert not isinstance(result, UserError) or str(result).startswith("f.jsonl: line 3: ")
    outcome(record.labels, "x", ",")


def test_labels_that_look_like_numbers():
    spec = TaskSpec(name="t", kind=kinds_by_name()["classification"], files={"train": "t.tsv"})
    names = ["9" * 5000, "10", "9", "a", "²", "٣"]
    assert Labels(spec, names, "t.tsv").names[:2] == ("9", "10")


cells = st.sampled_from(
    ['"', '""', '"a"', "a\tb", "a,b", '"a', 'a"', "\r", "\v", "\x85", "\u2028"]
)
lines = st.lists(cells | texts, max_size=3).flatmap(
    lambda row: st.sampled_from(["\t".join(row), ",".join(row), " ".join(row)])
)


@tries(
    400,
    rows=st.lists(lines, max_size=5),
    file_format=st.sampled_from(["tsv", "csv", "conll", "jsonl"]),
    header=st.booleans(),
    ending=st.sampled_from(["\n", "\r\n", "\r"]),
    compressed=st.booleans(),
)
def test_tables(tmp_path_factory, rows, file_format, header, ending, compressed):
    content = ending.join(rows).encode("utf-8", "surrogatepass")
    path = tmp_path_factory.getbasetemp() / f"table.{file_format}{'.gz' if compressed else ''}"
    path.write_bytes(gzip.compress(content, 1) if compressed else content)
    columns = {"a": 0, "b": -1}
    if file_format == "jsonl":
        columns = {"a": "x"}
    records = outcome(
        read_records, str(path), file_format=file_format, columns=columns, header=header
    )
    if isinstance(records, UserError):
        assert str(path) in str(records)
        return
    for record in records:
        assert set(record.values) == set(columns)
    if file_format == "tsv":
        kept = re.split("\r?\n", content.decode().removeprefix("\ufeff"))
        assert [r.values["a"] for r in records] == [
            row.split("\t")[0] for row in kept[header:] if row
        ]


@tries(
    200,
    position=st.integers(0, 10_000),
    byte=st.integers(0, 255),
    cut=st.integers(0, 10_000),
)
def test_damaged_parquet(tmp_path_factory, position, byte, cut):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet

    folder = tmp_path_factory.getbasetemp()
    whole = folder / "whole.parquet"
    if not whole.exists():
        table = pa.table({"x": ["a", "b", "c"] * 5, "y": list(range(15))})
        pyarrow.parquet.write_table(table, whole)
    content = bytearray(whole.read_bytes())
    content[position % len(content)] = byte
    if cut % 3 == 0:
        content = content[: cut % len(content)]
    path = folder / "damaged.parquet"
    path.write_bytes(content)
    columns = {"a": "x", "b": "y"}
    records = outcome(read_records, str(path), file_format="parquet", columns=columns)
    assert isinstance(records, UserError) or all(set(r.values) == {"a", "b"} for r in records)


ANSWERS = st.lists(
    st.fixed_dictionaries({"text": texts, "answer_start": st.integers(-9, 99) | json_values})
    | json_values,
    max_size=2,
)
QAS = st.lists(
    st.fixed_dictionaries(
        {"id": texts | json_values, "question": texts | json_values},
        optional={"answers": ANSWERS | json_values, "is_impossible": json_values},
    )
    | json_values,
    max_size=2,
)
PARAGRAPHS = st.fixed_dictionaries(
    {
        "context": st.sampled_from(["who was me", "a é b", "  "]) | texts,
        "qas": QAS | json_values,
    }
)


@tries(400, paragraphs=st.lists(PARAGRAPHS | json_values, max_size=2), mrqa=st.booleans())
def test_questions(tmp_path_factory, paragraphs, mrqa):
    folder = tmp_path_factory.getbasetemp()
    if mrqa:
        path, content = folder / "q.jsonl", "\n".join(map(json.dumps, paragraphs))
    else:
        path, content = folder / "q.json", json.dumps({"data": [{"paragraphs": paragraphs}]})
    path.write_text(content)
    for is_training in (True, False):
        report = DataReport("t", "train")
        builder = QuestionCollector(report, v2=True, is_training=is_training)
        result = outcome(read_questions, str(path), builder)
        assert result is None or str(path) in str(result)
        for example in builder.examples:
            start, end = example.start_position, example.end_position
            if start is not None:
                words = " ".join(example.context.words[start : end + 1])
                assert " ".join(example.orig_answer_text.split()).lower() in words.lower()
            example.question_text.encode()
