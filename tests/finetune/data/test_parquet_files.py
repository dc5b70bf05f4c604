"""Tests of task files in the Parquet format."""

import sys

import pyarrow
import pytest
from pyarrow import parquet

from electra_tf.util.errors import UserError
from finetune.data.file_readers import read_records

TEXT_LABEL = {"text_a": "text", "label": "label"}


def write(tmp_path, columns, **options):
    path = tmp_path / "a.parquet"
    parquet.write_table(pyarrow.table(columns), path, **options)
    return str(path)


def read(path, columns=TEXT_LABEL, optional=()):
    records = read_records(path, file_format="parquet", columns=columns, optional=optional)
    return [(record.line, record.values) for record in records]


def test_rows_of_all_row_groups_with_values_of_every_type(tmp_path):
    columns = {
        "text": ["a", "b", "c"],
        "label": pyarrow.array(["x", "y", "x"]).dictionary_encode(),
        "id": pyarrow.array([1, None, 3], pyarrow.int8()),
        "tags": [["O"], ["B-X", "I-X"], ["O"]],
        "time": pyarrow.array([0, 1, 2], pyarrow.timestamp("s")),
    }
    path = write(tmp_path, columns, row_group_size=2)
    wanted = {**TEXT_LABEL, "id": "id", "tags": -2, "group": "none"}
    assert read(path, wanted, optional=("id", "group")) == [
        (1, {"text_a": "a", "label": "x", "id": 1, "tags": ["O"]}),
        (2, {"text_a": "b", "label": "y", "tags": ["B-X", "I-X"]}),
        (3, {"text_a": "c", "label": "x", "id": 3, "tags": ["O"]}),
    ]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (
            {"Text": ["a"], "label": ["x"]},
            r"no column 'text' \(text_a\); its columns are: Text, label\. Did you mean 'Text'",
        ),
        (
            {"text": ["a", None], "label": ["x", "y"]},
            r"row 2 has no value of 'text' \(text_a\)",
        ),
        (
            {"text": [b"a"], "label": ["x"]},
            r"the column 'text' \(text_a\) has the type binary; it must be text, a number",
        ),
        ({"text": pyarrow.array([], pyarrow.string()), "label": []}, "contains no examples$"),
    ],
)
def test_bad_columns_are_named(tmp_path, columns, message):
    if not len(columns["label"]):
        columns["label"] = columns["text"]
    with pytest.raises(UserError, match=rf"a\.parquet.*{message}"):
        read(write(tmp_path, columns))


def test_bad_values_are_named_with_their_row(tmp_path):
    path = write(tmp_path, {"text": ["a", " "], "label": ["x", "y"]})
    _, record = read_records(path, file_format="parquet", columns=TEXT_LABEL)
    with pytest.raises(UserError, match=r"a\.parquet: row 2: text_a is empty; .* the row"):
        record.text("text_a")


def test_damaged_and_missing_files_are_named(tmp_path, monkeypatch):
    path = write(tmp_path, {"text": ["good film"] * 99, "label": ["x"] * 99})
    with open(path, "rb") as file:
        whole = file.read()
    for broken in (b"", b"text\tlabel\n", whole[:-9]):
        with open(path, "wb") as file:
            file.write(broken)
        with pytest.raises(UserError, match=r"a\.parquet is not a complete Parquet file: .*"):
            read(path)
    with pytest.raises(UserError, match="No such file"):
        read(str(tmp_path / "none.parquet"))
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(UserError, match=r"needs pyarrow, .*electra-tf\[corpus\]"):
        read(path)


def test_two_columns_of_one_name_are_refused(tmp_path):
    path = tmp_path / "a.parquet"
    table = pyarrow.table([["a"], ["b"], ["x"]], names=["text", "text", "label"])
    parquet.write_table(table, path)
    with pytest.raises(UserError, match=f"^{path} has more than one column 'text'$"):
        read(str(path))
