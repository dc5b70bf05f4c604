"""Tests of the order of examples, of taking it up again and of damaged records."""

import dataclasses
import itertools
import json
import re
import struct
import types

import numpy as np
import pytest
import tensorflow as tf

from electra_tf.config.distribution import BY_FILE
from electra_tf.training.distribution.shards import DataShard
from electra_tf.util.errors import UserError
from electra_tf.util.seals import without_seal
from pretrain_data.records import manifest as records_manifest
from pretrain_data.records.bad_records import (
    BAD_RECORD_ERRORS,
    _masked_crc32c,
    diagnose_bad_record,
)
from pretrain_data.records.checks import check_vocabulary
from pretrain_data.records.files import (
    count_records_by_file,
    find_record_files,
    locate_bad_records,
)
from pretrain_data.records.manifest import load_manifest, mark_unfinished
from pretrain_data.records.reader import read_pretraining_records
from pretrain_data.records.source import RecordFiles

LENGTH = 16
SHARDS = (11, 1, 0, 14, 9)
TOTAL = sum(SHARDS)


@pytest.fixture
def records(tmp_path):
    """Five shards; example k has the id 10 + k everywhere. Gives their wildcard."""
    first = 10
    for shard, count in enumerate(SHARDS):
        write_shard(tmp_path / f"data-{shard}", range(first, first + count))
        first += count
    return f"{tmp_path}/data-*"


def write_shard(path, ids) -> None:
    with tf.io.TFRecordWriter(str(path)) as writer:
        for i in ids:
            writer.write(make_record(i))


def make_record(i: int, length: int = LENGTH, names=("ids", "mask", "segments")) -> bytes:
    values = {
        "ids": ("input_ids", i),
        "mask": ("input_mask", 1),
        "segments": ("segment_ids", 0),
    }
    example = tf.train.Example()
    for name in names:
        feature, value = values[name]
        example.features.feature[feature].int64_list.value.extend([value] * length)
    return example.SerializeToString()


def read(patterns, num_batches=None, **settings) -> list[list[int]]:
    """Ids of the examples, batch by batch."""
    settings = {"max_seq_length": LENGTH, "batch_size": 4} | settings
    dataset = read_pretraining_records(patterns, **settings)
    batches = itertools.islice(dataset.as_numpy_iterator(), num_batches)
    return [batch["input_ids"][:, 0].tolist() for batch in batches]


SHUFFLED = {"seed": 7, "shuffle_buffer_size": 8}


def test_batches_have_the_shapes_the_model_takes(records):
    dataset = read_pretraining_records(records, max_seq_length=LENGTH, batch_size=4)
    assert dataset.element_spec == {
        name: tf.TensorSpec([4, LENGTH], tf.int32)
        for name in ("input_ids", "input_mask", "segment_ids")
    }
    batch = next(dataset.as_numpy_iterator())
    np.testing.assert_array_equal(batch["input_ids"], np.tile([[10], [11], [12], [13]], LENGTH))
    np.testing.assert_array_equal(batch["input_mask"], np.ones([4, LENGTH]))
    np.testing.assert_array_equal(batch["segment_ids"], np.zeros([4, LENGTH]))


def test_without_shuffling_files_are_read_one_after_the_other(records):
    flat = [i for batch in read(records, 20) for i in batch]
    assert flat == [10 + k % TOTAL for k in range(80)]


def test_each_epoch_is_another_permutation(records):
    flat = [i for batch in read(records, 35, **SHUFFLED) for i in batch]
    epochs = [flat[k : k + TOTAL] for k in range(0, 4 * TOTAL, TOTAL)]
    for epoch in epochs:
        assert sorted(epoch) == list(range(10, 10 + TOTAL))
    assert len({tuple(epoch) for epoch in epochs}) == 4
    # A buffer of 8 alone could not bring the last file to the front.
    assert any(max(epoch[:8]) > 30 and min(epoch[:8]) < 20 for epoch in epochs)


def test_order_is_a_function_of_the_seed_alone(records):
    tf.random.set_seed(1)
    first = read(records, 20, **SHUFFLED)
    tf.random.set_seed(2)
    assert read(records, 20, **SHUFFLED) == first
    assert read(records, 20, **SHUFFLED | {"seed": 8}) != first


@pytest.mark.parametrize("settings", [SHUFFLED, {}, SHUFFLED | {"skip_bad_records": True}])
def test_reading_can_be_taken_up_at_any_batch(records, settings):
    whole = read(records, 30, **settings)
    for start in range(0, 30, 3 if settings is SHUFFLED else 7):
        assert read(records, 30 - start, start_example=4 * start, **settings) == whole[start:]


def test_taking_up_uses_the_manifest(records, tmp_path, build):
    manifest = build()
    pattern = f"{tmp_path}/records/pretrain_data.tfrecord*"
    files = find_record_files(pattern)
    assert sum(count_records_by_file(files)) == manifest.num_examples
    assert count_records_by_file(files[:2]) == list(manifest.shards.values())[:2]
    path = tmp_path / "records/pretrain_data.json"
    content = without_seal(json.loads(path.read_text()), path)
    content["shards"] = dict.fromkeys(content["shards"], 1000)
    content["num_examples"] = 4000
    path.write_text(json.dumps(content))
    assert sum(count_records_by_file([*files, *find_record_files(records)])) == 4000 + TOTAL


def test_evaluation_reads_everything_once(records):
    padded = read(records, repeat=False)
    assert [len(batch) for batch in padded] == [4] * 9
    flat = [i for batch in padded for i in batch]
    assert flat == [*range(10, 10 + TOTAL), 0]
    dataset = read_pretraining_records(
        records, max_seq_length=LENGTH, batch_size=4, repeat=False
    )
    last = list(dataset.as_numpy_iterator())[-1]
    assert last["input_mask"].sum(axis=1).tolist() == [LENGTH] * 3 + [0]
    left_partial = read(records, repeat=False, pad_last_batch=False)
    assert [len(batch) for batch in left_partial] == [4] * 8 + [3]


def test_any_order_reads_the_same_examples(records):
    flat = [i for b in read(records, repeat=False, deterministic=False, **SHUFFLED) for i in b]
    assert sorted(flat) == [0, *range(10, 10 + TOTAL)]


def test_several_patterns(records, tmp_path):
    names = [f"{tmp_path}/data-3", f"{tmp_path}/data-[01]"]
    expected = [f"{tmp_path}/data-3", f"{tmp_path}/data-0", f"{tmp_path}/data-1"]
    assert find_record_files(",".join(names)) == expected
    assert find_record_files([*names, f"{tmp_path}/data-0"]) == expected
    with pytest.raises(UserError, match=r"No file matches '.*none\*' \(--eval_tfrecords\)"):
        find_record_files(f"{tmp_path}/data-0, {tmp_path}/none*", "--eval_tfrecords")
    with pytest.raises(UserError, match="--pretrain_tfrecords is empty"):
        find_record_files(" , ")


def test_a_file_of_several_patterns_is_read_once(records, tmp_path, monkeypatch):
    once = read(f"{tmp_path}/data-0", 2)
    monkeypatch.chdir(tmp_path)
    spellings = ("data-0", "./data-[0]", f"{tmp_path}/./data-0", f"{tmp_path}//data-0")
    assert find_record_files(",".join(spellings)) == ["data-0"]
    assert read(",".join(spellings), 2) == once


def test_a_folder_is_refused(records, tmp_path):
    (tmp_path / "held_out").mkdir()
    message = rf"--eval_tfrecords: {tmp_path}/held_out is a folder: pass files"
    for pattern in (f"{tmp_path}/*", f"{tmp_path}/held_out"):
        with pytest.raises(UserError, match=message):
            find_record_files(pattern, "--eval_tfrecords")


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


RECORD_BYTES = len(make_record(10)) + 16


def flip(path, offset) -> None:
    content = bytearray(path.read_bytes())
    content[offset] ^= 0xFF
    path.write_bytes(content)


def truncate(path, size) -> None:
    path.write_bytes(path.read_bytes()[:size])


def replace_record(path, index, record) -> None:
    with tf.io.TFRecordWriter(str(path)) as writer:
        for i in range(SHARDS[0]):
            writer.write(record if i == index else make_record(10 + i))


DAMAGES = {
    "data": (lambda p: flip(p, 3 * RECORD_BYTES + 20), 3, "checksum of its data", {13}),
    "length": (
        lambda p: flip(p, 3 * RECORD_BYTES),
        3,
        "checksum of its length does not match",
        set(range(13, 21)),
    ),
    "truncated data": (
        lambda p: truncate(p, 4 * RECORD_BYTES - 1),
        3,
        "it is truncated",
        set(range(13, 21)),
    ),
    "truncated header": (
        lambda p: truncate(p, 4 * RECORD_BYTES + 5),
        4,
        "the file ends 5 bytes into the record's length",
        set(range(14, 21)),
    ),
    "garbage": (
        lambda p: p.write_bytes(b"This is a text and not a file of records.\n" * 9),
        0,
        "this is not a TFRecord file",
        set(range(10, 21)),
    ),
    "first record": (lambda p: flip(p, 20), 0, "checksum of its data", {10}),
    "last record": (lambda p: flip(p, 11 * RECORD_BYTES - 20), 10, "checksum of", {20}),
    "no message": (
        lambda p: replace_record(p, 5, b"\xff\xff\xff"),
        5,
        "not a tf.train.Example",
        {15},
    ),
    "feature missing": (
        lambda p: replace_record(p, 5, make_record(15, names=("ids", "segments"))),
        5,
        "lacks the feature 'input_mask'",
        {15},
    ),
    "other length": (
        lambda p: replace_record(p, 5, make_record(15, length=LENGTH + 1)),
        5,
        "its input_ids has 17 integers instead of 16",
        {15},
    ),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_damaged_records_are_found_and_can_be_skipped(records, tmp_path, name):
    damage, index, reason, lost = DAMAGES[name]
    path = tmp_path / "data-0"
    damage(path)
    files = find_record_files(records)
    bad_record = diagnose_bad_record(files, LENGTH)
    assert (bad_record.path, bad_record.offset) == (str(path), index * RECORD_BYTES)
    assert reason in bad_record.reason
    assert f"data-0: bad record at byte {index * RECORD_BYTES}: " in str(bad_record)

    if name == "truncated header":
        # Nothing in the file tells TensorFlow; a manifest would.
        assert len(read(records, repeat=False)) == 7
    else:
        with pytest.raises((*BAD_RECORD_ERRORS, UserError)):
            read(records, repeat=False)

    messages = []
    settings = SHUFFLED | {"skip_bad_records": True, "print_fn": messages.append}
    flat = [i for b in read(records, repeat=False, pad_last_batch=False, **settings) for i in b]
    expected = sorted(set(range(10, 10 + TOTAL)) - lost)
    assert sorted(flat) == expected
    assert str(bad_record) in messages[0]
    assert ("the rest of the file is skipped" in messages[0]) == (len(lost) > 1)
    num_good = TOTAL - len(lost)
    assert messages[1] == f"Skipping 1 bad records, reading {num_good} good ones."
    whole = read(records, 20, **settings)
    assert read(records, 7, start_example=4 * 13, **settings) == whole[13:]


@pytest.mark.parametrize("num_bytes_more", [0, 5, 50])
def test_a_shard_of_another_size_than_built_is_refused(build, tmp_path, num_bytes_more):
    build(num_out_files=2)
    path = tmp_path / "records/pretrain_data.tfrecord-1-of-2"
    size = path.stat().st_size
    (first_length,) = struct.unpack("<Q", path.read_bytes()[:8])
    truncate(path, first_length + 16 + num_bytes_more)
    settings = {"max_seq_length": 32, "repeat": False, "pad_last_batch": False}
    with pytest.raises(
        UserError, match=rf"tfrecord-1-of-2 has .* built with {size:,}"
    ) as error:
        read(f"{tmp_path}/records/pretrain_data.tfrecord*", **settings)
    at_byte = f"bad record at byte {first_length + 16}" in str(error.value)
    assert at_byte == (num_bytes_more > 0)
    messages = []
    settings |= {"skip_bad_records": True, "print_fn": messages.append}
    assert read(str(path), **settings) == [[2]]
    # Between two records, nothing else tells.
    assert re.search(r"tfrecord-1-of-2: 1 of the \d+ records built are good", messages[-1])


def test_a_missing_shard_is_refused_or_warned_of(build, tmp_path, capsys):
    build(num_out_files=3)
    folder = tmp_path / "records"
    (folder / "pretrain_data.tfrecord-1-of-3").unlink()
    pattern = f"{folder}/pretrain_data.tfrecord*"
    settings = {"max_seq_length": 32, "repeat": False, "pad_last_batch": False}
    with pytest.raises(UserError, match=r"tfrecord-1-of-3 is missing; pretrain_data\.json"):
        read(pattern, **settings)
    rest = read(pattern, skip_bad_records=True, **settings)
    (folder / "pretrain_data.json").unlink()
    assert read(pattern, **settings) == rest
    (warning,) = capsys.readouterr().err.splitlines()
    assert warning.startswith("warning: 1 of 3 shards are missing in ")
    assert "pretrain_data.tfrecord-1-of-3" in warning


@pytest.mark.parametrize("skip", [False, True])
def test_files_that_the_manifest_does_not_list_are_warned_of(build, tmp_path, capsys, skip):
    build(num_out_files=2)
    folder = tmp_path / "records"
    stray = folder / "pretrain_data.tfrecord-2-of-5"
    stray.write_bytes((folder / "pretrain_data.tfrecord-0-of-2").read_bytes())
    pattern = f"{folder}/pretrain_data.tfrecord*"
    settings = {"max_seq_length": 32, "repeat": False, "skip_bad_records": skip}
    settings["pad_last_batch"] = False
    listed = read(f"{folder}/*-of-2", **settings)
    assert not capsys.readouterr().err
    assert len(read(pattern, **settings)) > len(listed)
    (warning,) = capsys.readouterr().err.splitlines()
    assert warning.startswith("warning: 1 of 3 files is not listed in the pretrain_data.json ")
    assert str(stray) in warning


def absurd_header(length: int) -> bytes:
    header = struct.pack("<Q", length)
    return header + struct.pack("<I", _masked_crc32c(header))


@pytest.mark.parametrize("length", [2**62, 2**40, RECORD_BYTES])
@pytest.mark.parametrize("skip", [False, True])
def test_lengths_beyond_the_file_are_refused_before_tensorflow_allocates_them(
    records, tmp_path, length, skip
):
    """TensorFlow ends the process at the first of them."""
    path = tmp_path / "data-0"
    truncate(path, 4 * RECORD_BYTES)
    with open(path, "ab") as f:
        f.write(absurd_header(length) + bytes(100))
    bad_record = diagnose_bad_record(find_record_files(records), LENGTH)
    assert bad_record.offset == 4 * RECORD_BYTES
    assert "but the file at byte" in bad_record.reason
    settings = {"repeat": False, "skip_bad_records": skip, "print_fn": lambda message: None}
    with pytest.raises(UserError, match="data-0: bad record at byte"):
        count_records_by_file(find_record_files(records))
    if skip:
        good = set(range(10, 10 + TOTAL)) - set(range(14, 21))
        assert {i for batch in read(records, **settings) for i in batch if i} == good
    else:
        with (
            pytest.raises(UserError, match=r"data-0: bad record at .*--skip_bad_records"),
            locate_bad_records(records, "--pretrain_tfrecords", LENGTH),
        ):
            read(records, **settings)


def test_ids_beyond_the_vocabulary_name_file_and_record(records, tmp_path):
    path = tmp_path / "data-0"
    for record, reason in [
        (make_record(4096), "its input_ids has 4,096 at position 0; those of the vocabulary"),
        (make_record(-1), "its input_ids has -1 at position 0"),
        (make_record(15).replace(b"\0" * LENGTH, b"\2" * LENGTH), "its segment_ids has 2"),
    ]:
        replace_record(path, 5, record)
        offset = sum(16 + len(make_record(10 + i)) for i in range(5))
        settings = {"repeat": False, "vocab_size": 4096}
        message = rf"data-0: bad record at byte {offset}: {reason}"
        with (
            pytest.raises(UserError, match=message),
            locate_bad_records(records, "--pretrain_tfrecords", LENGTH, 4096),
        ):
            read(records, **settings)
        with pytest.raises(UserError, match=message):
            RecordFiles(patterns={LENGTH: records}, vocab_size=4096).token_counts(4096)
        settings |= {"skip_bad_records": True, "print_fn": lambda message: None}
        flat = [i for batch in read(records, **settings) for i in batch]
        assert 15 not in flat
        assert len(set(flat)) == TOTAL  # with padding


def test_skipping_bad_records_still_compares_the_manifest(build, tmp_path):
    build()
    settings = {"skip_bad_records": True, "print_fn": lambda message: None}
    message = r"--max_seq_length is 16, but the records have 32 .*pretrain_data\.json"
    with pytest.raises(UserError, match=message):
        read(f"{tmp_path}/records/pretrain_data.tfrecord*", **settings)


def test_several_bad_records_in_several_files(records, tmp_path):
    for offset in (1, 2, 9):
        flip(tmp_path / "data-0", offset * RECORD_BYTES + 20)
    truncate(tmp_path / "data-3", 2 * RECORD_BYTES + 3)
    messages = []
    flat = read(records, repeat=False, skip_bad_records=True, print_fn=messages.append)
    lost = {11, 12, 19, *range(24, 36)}
    good = sorted(set(range(10, 10 + TOTAL)) - lost)
    assert [i for batch in flat for i in batch if i] == good
    assert messages[-1] == f"Skipping 4 bad records, reading {len(good)} good ones."


def test_shards_read_once_are_padded_and_divided_by_record(records):
    given = {"patterns": records, "max_seq_length": LENGTH, "batch_size": 4, "repeat": False}
    shard = DataShard(worker=0, num_workers=2)
    with pytest.raises(ValueError, match="The last batch of a shard has to be filled"):
        read_pretraining_records(**given, shard=shard, pad_last_batch=False)
    by_file = dataclasses.replace(shard, by=BY_FILE)
    with pytest.raises(ValueError, match="Reading once is sharded by record"):
        read_pretraining_records(**given, shard=by_file, pad_last_batch=True)


def test_an_error_of_records_that_are_whole_is_left_as_it_is(records):
    error = tf.errors.DataLossError(None, None, "of something else")
    with (
        pytest.raises(tf.errors.DataLossError, match="of something else"),
        locate_bad_records(records, "--pretrain_tfrecords", LENGTH),
    ):
        raise error


def test_records_whose_builder_was_interrupted_are_refused(tmp_path):
    mark_unfinished(tmp_path)
    with pytest.raises(UserError, match=rf"beside {tmp_path}/.* not complete.*--overwrite"):
        load_manifest(tmp_path)


def test_records_of_another_vocabulary_are_refused(tmp_path, monkeypatch):
    manifest = types.SimpleNamespace(vocab_sha256="of the records")
    monkeypatch.setattr(records_manifest, "load_manifest", lambda folder: manifest)
    vocabulary = types.SimpleNamespace(sha256="ours", path="words.txt")
    with pytest.raises(UserError, match=r"--pretrain_tfrecords in a .*--vocab_file=words\.txt"):
        check_vocabulary(["a/data-0"], vocabulary, "--pretrain_tfrecords")
    check_vocabulary(["a/data-0"], types.SimpleNamespace(sha256="of the records"))
