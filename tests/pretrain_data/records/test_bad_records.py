"""Damaged records: found with file, offset and cause, or skipped."""

import struct

import pytest
import tensorflow as tf

from electra_tf.util.errors import UserError
from pretrain_data.records.bad_records import (
    BAD_RECORD_ERRORS,
    _masked_crc32c,
    diagnose_bad_record,
)
from pretrain_data.records.files import (
    count_records_by_file,
    find_record_files,
    locate_bad_records,
)
from pretrain_data.records.source import RecordFiles
from tests.pretrain_data.records.shards import (
    LENGTH,
    RECORD_BYTES,
    SHARDS,
    SHUFFLED,
    TOTAL,
    make_record,
    read,
    truncate,
    write_shard,
)


def flip(path, offset) -> None:
    content = bytearray(path.read_bytes())
    content[offset] ^= 0xFF
    path.write_bytes(content)


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
    flat = [i for batch in read(records, repeat=False, **settings) for i in batch if i]
    expected = sorted(set(range(10, 10 + TOTAL)) - lost)
    assert sorted(flat) == expected
    assert str(bad_record) in messages[0]
    assert ("the rest of the file is skipped" in messages[0]) == (len(lost) > 1)
    num_good = TOTAL - len(lost)
    assert messages[1] == f"Skipping 1 bad records, reading {num_good} good ones."
    whole = read(records, 20, **settings)
    assert read(records, 7, start_example=4 * 13, **settings) == whole[13:]


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
        (make_record(4096), "its input_ids has 4,096 at position 0; ids of the vocabulary"),
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


@pytest.mark.parametrize("seed", range(3))
def test_a_resumed_run_without_a_bad_record_reads_on_where_it_was(tmp_path, seed):
    for shard in range(4):
        write_shard(tmp_path / f"data-{shard}", range(100 * shard + 10, 100 * shard + 110))
    pattern = f"{tmp_path}/data-*"
    settings = {"seed": seed, "shuffle_buffer_size": 8, "batch_size": 4}
    first = {i for batch in read(pattern, 50, **settings) for i in batch}
    flip(tmp_path / "data-2", 60 * RECORD_BYTES + 20)
    settings |= {"skip_bad_records": True, "print_fn": lambda message: None}
    rest = {i for batch in read(pattern, 49, start_example=200, **settings) for i in batch}
    assert len(first & rest) <= 4


def test_an_error_of_records_that_are_whole_is_left_as_it_is(records):
    error = tf.errors.DataLossError(None, None, "of something else")
    with (
        pytest.raises(tf.errors.DataLossError, match="of something else"),
        locate_bad_records(records, "--pretrain_tfrecords", LENGTH),
    ):
        raise error
