"""The comparison of two checkouts finds every difference, and names it."""

import json
import pathlib
import shutil

import numpy as np
import pytest
import tensorflow as tf

from benchmarks.compare_checkouts.comparing import (
    Comparison,
    array_difference,
    compare_folders,
    compare_last_checkpoints,
    flatten,
)


@pytest.fixture
def sides(tmp_path) -> tuple[pathlib.Path, pathlib.Path]:
    """Two folders with equal checkpoints, logs, TensorBoard scalars and tables."""
    before, after = tmp_path / "before", tmp_path / "after"
    save(before, kernel=[1.0, float("nan")], step=3)
    record = {"step": 3, "loss": 0.1, "accuracy": None, "tokens_per_second": 7.0}
    (before / "train_log.jsonl").write_text(json.dumps(record) + "\n")
    (before / "results.txt").write_text("mcc 1.00, 3 steps, 12 s\n")
    with tf.summary.create_file_writer(str(before / "tensorboard")).as_default(step=3):
        tf.summary.scalar("train/loss", 0.1)
    shutil.copytree(before, after)
    return before, after


def save(folder: pathlib.Path, *, step: int, **arrays) -> None:
    checkpoint = tf.train.Checkpoint(**{k: tf.Variable(v) for k, v in arrays.items()})
    checkpoint.write(str(folder / f"ckpt-{step}"))


def compare(sides: tuple[pathlib.Path, pathlib.Path]) -> list[str]:
    result = compare_folders(*sides, sides[0] / "no_inputs")
    return [f"{each.where}: {each.what}" for each in result.differences]


def test_equal_folders(sides):
    log = sides[1] / "train_log.jsonl"
    log.write_text(log.read_text().replace("7.0", "8.0"))
    (sides[1] / "results.txt").write_text("mcc 1.00, 3 steps, 2 min\n")
    result = compare_folders(*sides, sides[0] / "no_inputs")
    assert result.differences == []
    assert (result.checkpoints, result.arrays) == (1, 1)
    assert result.values == 5  # 3 of the log, 1 scalar, 1 line


def test_arrays_keys_and_shapes(sides):
    save(sides[1], kernel=[1.5, float("nan")], step=3)
    (difference,) = compare(sides)
    assert "kernel/.ATTRIBUTES/VARIABLE_VALUE: 1 of 2 values, by up to 0.5" in difference
    save(sides[1], kernel=[[1.0, float("nan")]], bias=0.0, step=3)
    added, shape = compare(sides)
    assert added.startswith("ckpt-3.index: key bias/")
    assert added.endswith("only after")
    assert shape.endswith("[2] became [1, 2]")


def test_bits():
    assert array_difference(np.float32([0.0]), np.float32([-0.0])).startswith("equal values")
    assert array_difference(np.float32([1]), np.float64([1])) == "float32 became float64"
    assert array_difference(np.float32([np.nan]), np.float32([np.nan])) is None


def test_logs_scalars_tables_and_files(sides):
    log = sides[1] / "train_log.jsonl"
    log.write_text(log.read_text().replace("0.1", "0.1000001"))
    (sides[1] / "results.txt").write_text("mcc 1.01, 3 steps, 12 s\n")
    shutil.rmtree(sides[1] / "tensorboard")
    (sides[1] / "new.tfrecord-0-of-1").write_text("")
    assert [line.partition(": ")[0] for line in compare(sides)] == [
        "file new.tfrecord-0-of-1",
        "results.txt",
        "train_log.jsonl",
        "TensorBoard",
    ]


def test_last_checkpoints(sides):
    result = Comparison()
    compare_last_checkpoints(*sides, "same", result)
    assert (result.differences, result.arrays) == ([], 1)
    save(sides[1], kernel=[1.0, 0.0], step=5)
    compare_last_checkpoints(*sides, "same", result)
    assert len(result.differences) == 2  # the step and the array
    result = Comparison()
    compare_last_checkpoints(sides[0] / "nothing", sides[1], "same", result)
    assert len(result.differences) == 1


def test_leaves_without_times():
    nested = {"trials": [{"seconds": 3.0, "mcc": 1}, {}], "seconds_left": 1, "steps": 2}
    assert flatten(nested) == {"trials/0/mcc": 1, "trials/1": {}, "steps": 2}


def test_an_empty_comparison_is_no_success(tmp_path):
    (difference,) = compare((tmp_path, tmp_path))
    assert difference == "folder: no files to compare"


def test_feature_caches_in_another_order(sides):
    def feature(value: int) -> tf.train.Feature:
        return tf.train.Feature(int64_list=tf.train.Int64List(value=[value]))

    for folder, order, label in ((sides[0], "ab", 1), (sides[1], "ba", 1), (sides[1], "ab", 2)):
        # The wire format of a map is a repeated field, in any order.
        parts = [
            tf.train.Features(feature={name: feature(label)}).SerializeToString()
            for name in order
        ]
        example = tf.train.Example(features=tf.train.Features.FromString(b"".join(parts)))
        record = b"".join(parts)
        raw = b"\x0a" + bytes([len(record)]) + record
        assert tf.train.Example.FromString(raw) == example
        with tf.io.TFRecordWriter(str(folder / "cola.tfrecord")) as writer:
            writer.write(raw)
        if folder == sides[1]:
            assert len(compare(sides)) == (label != 1)
