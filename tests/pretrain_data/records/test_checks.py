"""Records that do not fit a run, and shards that differ from what was built."""

import re
import struct
import types

import pytest
import tensorflow as tf

from electra_tf.text.framing import ENCODER_INPUTS
from electra_tf.util.console import warn_once
from electra_tf.util.errors import UserError
from pretrain_data.records import manifest as records_manifest
from pretrain_data.records.checks import check_vocabulary
from pretrain_data.records.manifest import load_manifest, mark_unfinished
from tests.pretrain_data.records.shards import LENGTH, make_record, read, truncate


def test_another_length_is_refused(records, tmp_path, build):
    message = r"--max_seq_length is 32, but the records have 16 tokens .*data-0"
    with pytest.raises(UserError, match=message):
        read(records, max_seq_length=32)
    build()
    message = r"--max_seq_length is 16, but the records have 32 .*pretrain_data\.json"
    with pytest.raises(UserError, match=message):
        read(f"{tmp_path}/records/pretrain_data.tfrecord*")


def test_a_folder_of_another_length_among_several_is_refused(tmp_path, build):
    build()
    build(output_dir=tmp_path / "short", max_seq_length=16)
    patterns = [
        f"{tmp_path}/{folder}/pretrain_data.tfrecord*" for folder in ("records", "short")
    ]
    message = (
        r"different lengths: those of .*/short/pretrain_data\.json have 16 tokens, others 32"
    )
    for given in (patterns, patterns[::-1]):
        with pytest.raises(UserError, match=message):
            read(given, max_seq_length=32)


def test_skipping_bad_records_still_compares_the_manifest(build, tmp_path):
    build()
    settings = {"skip_bad_records": True, "print_fn": lambda message: None}
    message = r"--max_seq_length is 16, but the records have 32 .*pretrain_data\.json"
    with pytest.raises(UserError, match=message):
        read(f"{tmp_path}/records/pretrain_data.tfrecord*", **settings)


def test_records_of_another_vocabulary_are_refused(tmp_path, monkeypatch):
    manifest = types.SimpleNamespace(vocab_sha256="of the records")
    monkeypatch.setattr(records_manifest, "load_manifest", lambda folder: manifest)
    vocabulary = types.SimpleNamespace(sha256="ours", path="words.txt")
    with pytest.raises(UserError, match=r"--pretrain_tfrecords in a .*--vocab_file=words\.txt"):
        check_vocabulary(["a/data-0"], vocabulary, "--pretrain_tfrecords")
    check_vocabulary(["a/data-0"], types.SimpleNamespace(sha256="of the records"))


def test_records_that_begin_with_another_token_than_cls_are_warned_of(
    records, tmp_path, capsys
):
    """Without a manifest, nothing else tells those of another vocabulary."""
    warn_once.cache_clear()
    no_text = make_record(0).replace(b"\1" * LENGTH, b"\0" * LENGTH)
    with tf.io.TFRecordWriter(str(tmp_path / "data-0")) as writer:
        for record in (no_text, make_record(10), make_record(11)):
            writer.write(record)
    files = sorted(map(str, tmp_path.glob("data-*")))
    check_vocabulary(files, types.SimpleNamespace(cls_id=10, path="words.txt"))
    assert capsys.readouterr().err == ""
    check_vocabulary(files, types.SimpleNamespace(cls_id=11, path="words.txt"))
    assert re.search(
        r"record of .*data-0 .* begins with the id 10, but \[CLS\] of words\.txt is 11",
        capsys.readouterr().err,
    )


def test_the_reason_why_no_record_is_readable_is_told(tmp_path):
    with tf.io.TFRecordWriter(str(tmp_path / "zipped"), "GZIP") as writer:
        writer.write(make_record(10))
    with pytest.raises(UserError, match=r"1 files\)\. The first: .* is not a TFRecord file"):
        read(f"{tmp_path}/zipped")
    floats = tf.train.FloatList(value=[1.0] * LENGTH)
    example = tf.train.Example()
    for name in ENCODER_INPUTS:
        example.features.feature[name].float_list.CopyFrom(floats)
    with tf.io.TFRecordWriter(str(tmp_path / "floats")) as writer:
        writer.write(example.SerializeToString())
    with pytest.raises(
        UserError, match=r"No readable record .*: its input_ids has no integers"
    ):
        read(f"{tmp_path}/floats")


def test_no_record_at_all_is_refused(tmp_path):
    (tmp_path / "empty").write_bytes(b"")
    for skip_bad_records in (False, True):
        with pytest.raises(UserError, match=r"record .*can be read|No readable record"):
            read(f"{tmp_path}/empty", skip_bad_records=skip_bad_records)


def test_shards_that_were_built_empty_are_refused(build, tmp_path):
    shards = build(num_out_files=1000).shards
    empty = next(name for name, count in shards.items() if not count)
    with pytest.raises(UserError, match=r"No record in --pretrain_tfrecords \(1 files, .*"):
        read(f"{tmp_path}/records/{empty}", max_seq_length=32)


@pytest.mark.parametrize("num_bytes_more", [0, 5, 50])
def test_a_shard_of_another_size_than_built_is_refused(build, tmp_path, num_bytes_more):
    build(num_out_files=2)
    path = tmp_path / "records/pretrain_data.tfrecord-1-of-2"
    size = path.stat().st_size
    (first_length,) = struct.unpack("<Q", path.read_bytes()[:8])
    truncate(path, first_length + 16 + num_bytes_more)
    settings = {"max_seq_length": 32, "repeat": False}
    with pytest.raises(
        UserError, match=rf"tfrecord-1-of-2 has .* built with {size:,}"
    ) as error:
        read(f"{tmp_path}/records/pretrain_data.tfrecord*", **settings)
    at_byte = f"bad record at byte {first_length + 16}" in str(error.value)
    assert at_byte == (num_bytes_more > 0)
    messages = []
    settings |= {"skip_bad_records": True, "print_fn": messages.append}
    assert read(str(path), **settings) == [[2, 0, 0, 0]]
    # Between two records, nothing else tells.
    assert re.search(r"tfrecord-1-of-2: 1 of the \d+ records built are good", messages[-1])


def test_a_missing_shard_is_refused_or_warned_of(build, tmp_path, capsys):
    build(num_out_files=3)
    folder = tmp_path / "records"
    (folder / "pretrain_data.tfrecord-1-of-3").unlink()
    pattern = f"{folder}/pretrain_data.tfrecord*"
    settings = {"max_seq_length": 32, "repeat": False}
    with pytest.raises(UserError, match=r"tfrecord-1-of-3 is missing; pretrain_data\.json"):
        read(pattern, **settings)
    rest = read(pattern, skip_bad_records=True, **settings)
    (warning,) = capsys.readouterr().err.splitlines()
    assert warning.startswith("warning: 1 of 3 shards are missing in ")
    assert warning.endswith("pretrain_data.tfrecord-1-of-3: reading the others")
    (folder / "pretrain_data.json").unlink()
    for skip in (False, True):
        warn_once.cache_clear()
        assert read(pattern, skip_bad_records=skip, **settings) == rest
        assert capsys.readouterr().err == f"{warning}\n"


@pytest.mark.parametrize("skip", [False, True])
def test_files_that_the_manifest_does_not_list_are_warned_of(build, tmp_path, capsys, skip):
    build(num_out_files=2)
    folder = tmp_path / "records"
    stray = folder / "pretrain_data.tfrecord-2-of-5"
    stray.write_bytes((folder / "pretrain_data.tfrecord-0-of-2").read_bytes())
    pattern = f"{folder}/pretrain_data.tfrecord*"
    settings = {"max_seq_length": 32, "repeat": False, "skip_bad_records": skip}
    listed = read(f"{folder}/*-of-2", **settings)
    assert not capsys.readouterr().err
    assert len(read(pattern, **settings)) > len(listed)
    (warning,) = capsys.readouterr().err.splitlines()
    assert warning.startswith("warning: 1 of 3 files is not listed in the pretrain_data.json ")
    assert str(stray) in warning


def test_records_whose_builder_was_interrupted_are_refused(tmp_path):
    mark_unfinished(tmp_path)
    with pytest.raises(UserError, match=rf"beside {tmp_path}/.* not complete.*--overwrite"):
        load_manifest(tmp_path)
