"""Statistics of records whose numbers are known."""

import os
import pathlib

import numpy as np
import pytest
import tensorflow as tf

from electra_tf.text.vocabulary import load_vocabulary
from electra_tf.util.console import percent
from electra_tf.util.errors import UserError
from pretrain_data.inspect.console_report import common_folder, format_report
from pretrain_data.inspect.duplicates import DuplicateCounter
from pretrain_data.inspect.inspection import inspect_files
from pretrain_data.inspect.statistics import summary

LENGTH = 8
# [CLS] is 2 and [SEP] 3, [UNK] 1; words from 5. First segment, second segment or None.
ROWS = {
    "a": [([5, 6], [7]), ([5, 1, 6, 8], None), ([5, 6], [7])],
    "b": [([5, 6], [7]), ([9], None)],
}


@pytest.fixture
def vocabulary(tmp_path):
    words = [f"##w{i}" if i == 8 else f"w{i}" for i in range(5, 32)]
    path = tmp_path / "vocab.txt"
    path.write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words]) + "\n")
    return load_vocabulary(path)


@pytest.fixture
def files(tmp_path):
    for name, rows in ROWS.items():
        with tf.io.TFRecordWriter(str(tmp_path / name)) as writer:
            for row in rows:
                writer.write(make_record(*row))
    (tmp_path / "c").touch()
    return [str(tmp_path / name) for name in "abc"]


def make_record(first, second) -> bytes:
    ids = [2, *first, 3]
    segments = [0] * len(ids)
    if second is not None:
        ids += [*second, 3]
        segments += [1] * (len(second) + 1)
    example = tf.train.Example()
    for name, values in {
        "input_ids": ids,
        "input_mask": [1] * len(ids),
        "segment_ids": segments,
    }.items():
        padded = values + [0] * (LENGTH - len(values))
        example.features.feature[name].int64_list.value.extend(padded)
    return example.SerializeToString()


def test_every_number_of_a_file_and_of_all(files, vocabulary):
    report = inspect_files(files, vocabulary, num_frequent=2).report
    first, second, empty = report["files"]
    assert [each["records"] for each in (first, second, empty)] == [3, 2, 0]
    assert (first["seq_length"], first["tokens"], first["text_tokens"]) == (LENGTH, 18, 10)
    assert first["padding_share"] == 6 / 24
    assert (first["words"], first["unknown_words"], first["unknown_share"]) == (9, 1, 1 / 9)
    assert first["one_segment_share"] == 1 / 3
    assert first["duplicates"] == 1
    assert second["duplicates"] == 1  # equals rows of the file before
    total = report["total"]
    assert total["records"] == 5
    assert total["duplicate_share"] == 0.4
    assert total["distinct_tokens"] == 6
    lengths = total["lengths"]
    assert (lengths["mean"], lengths["min"], lengths["max"]) == (27 / 5, 3, 6)
    assert lengths["median"] == 6
    assert [each["records"] for each in lengths["histogram"]] == [0, 0, 0, 1, 0, 0, 4]
    assert total["first_segment"]["mean"] == 11 / 5
    assert total["second_segment"] == {
        **summary(np.array([0, 3])),
        "histogram": [{"from": 0, "to": 0, "records": 0}, {"from": 1, "to": 1, "records": 3}],
    }
    frequent = [(each["token"], each["count"]) for each in total["frequent_tokens"]]
    assert frequent == [("w5", 4), ("w6", 4)]
    assert empty["padding_share"] is None
    assert empty["lengths"]["histogram"] == []


def test_the_report_in_words(files, vocabulary):
    text = format_report(inspect_files(files, vocabulary).report)
    assert "| a | 3 | 8 | 6.0 | 25.0% | 11.1% | 33.3% | 1 | w5 w6 w7 |" in text
    assert "| c | 0 | 0 | - | - | - | - | 0 |  |" in text
    assert "Segments: 40.0% of the records have one." in text


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (None, "-"),
        (0, "0.0%"),
        (1e-6, "<0.01%"),
        (0.0011, "0.11%"),
        (0.5, "50.0%"),
        (0.9994, "99.9%"),
        (0.9996, ">99.9%"),
        (1, "100.0%"),
    ],
)
def test_only_nothing_is_zero_percent_and_only_everything_a_hundred(share, text):
    assert percent(share) == text


def test_a_sample_takes_the_start_of_every_file(files, vocabulary):
    found = inspect_files(files[:2], vocabulary, max_records=2, num_examples=2)
    assert [each["records"] for each in found.report["files"]] == [1, 1]
    assert found.report["records_per_file"] == 1
    assert [row["input_ids"].tolist() for row in found.rows] == [[2, 5, 6, 3, 7, 3, 0, 0]] * 2
    rows = inspect_files(files, vocabulary, num_examples=50).rows
    assert [int(row["input_ids"][2]) for row in rows] == [6, 1, 6, 6, 3]


def test_duplicates_are_exact_within_the_memory_and_estimated_beyond():
    rows = np.arange(4000, dtype=np.int32)[:, None].view(np.uint8)
    counter = DuplicateCounter(max_hashes=4000)
    assert [counter.add(rows), counter.add(rows[:100])] == [0, 100]
    assert counter.is_exact
    counter = DuplicateCounter(max_hashes=500)
    counter.add(rows)
    assert not counter.is_exact
    assert len(counter._hashes) <= 500
    assert counter.add(rows) == pytest.approx(4000, rel=0.2)


@pytest.mark.parametrize("damage", ["data", "length", "truncated"])
def test_damage_is_located_or_skipped(files, vocabulary, damage):
    content = bytearray(pathlib.Path(files[0]).read_bytes())
    offset = len(content) // 3
    if damage == "truncated":
        content = content[:-5]
        offset *= 2
    elif damage == "length":
        content[offset : offset + 8] = b"\xff" * 8
    else:
        content[offset + 20] ^= 1
    pathlib.Path(files[0]).write_bytes(content)
    with pytest.raises(UserError, match=rf"/a: bad record at byte {offset}: .*skip_bad"):
        inspect_files(files, vocabulary)
    counts = inspect_files(files, vocabulary, skip_bad_records=True).report["files"][0]
    assert counts["records"] == {"data": 2, "length": 1, "truncated": 2}[damage]
    assert counts["skipped_records"] == 1


def test_ids_beyond_the_vocabulary_are_located(files, vocabulary):
    with tf.io.TFRecordWriter(files[2]) as writer:
        writer.write(make_record([5], None))
        writer.write(make_record([99], None))
    with pytest.raises(UserError, match=r"/c: bad record at byte \d+: its input_ids has 99"):
        inspect_files(files, vocabulary)


def test_files_without_a_record_are_refused(files, vocabulary):
    with pytest.raises(UserError, match=r"--records: no record in 1 files, first: .*/c$"):
        inspect_files(files[2:], vocabulary, flag="--records")


def test_files_of_relative_absolute_and_remote_folders_are_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    here = os.path.abspath(".")
    for files, common in [
        (["a/x", "a/b/y"], "a"),
        (["x", "a/y"], ""),
        (["a/x", f"{here}/b/y"], here),
        (["gs://bucket/a/x", f"{here}/b/y"], ""),
    ]:
        assert common_folder({"files": [{"file": file} for file in files]}) == common


def test_the_text_says_what_was_sampled_left_out_and_skipped(files, vocabulary):
    report = inspect_files(files, vocabulary).report
    text = format_report(report)
    for words in ("Sample:", "more files", "estimated", "skipped"):
        assert words not in text
    report["records_per_file"] = 2000
    report["duplicates_estimated"] = True
    report["total"]["skipped_records"] = 1234
    report["files"] = report["files"][:1] * 23
    text = format_report(report)
    assert "Sample: at most 2,000 records from the start of each file." in text
    assert "\n3 more files: see --json or --html.\n" in text
    assert "The number of duplicates is estimated from a sample of the rows." in text
    assert "1,234 damaged records were skipped." in text
