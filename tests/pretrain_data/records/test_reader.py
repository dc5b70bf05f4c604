"""The order of examples, and reading taken up again."""

import dataclasses
import itertools
import json

import numpy as np
import pytest
import tensorflow as tf

from electra_tf.config.distribution import BY_FILE
from electra_tf.training.distribution.shards import DataShard
from electra_tf.util.errors import UserError
from electra_tf.util.seals import without_seal
from pretrain_data.records.files import (
    changes_of,
    count_records_by_file,
    find_record_files,
    locate_bad_records,
)
from pretrain_data.records.format import read_span
from pretrain_data.records.reader import read_pretraining_records
from tests.pretrain_data.records.shards import (
    LENGTH,
    RECORD_BYTES,
    SHARDS,
    SHUFFLED,
    TOTAL,
    read,
    truncate,
    write_shard,
)


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


def test_a_buffer_of_more_than_all_records_takes_no_more_memory(records):
    """TensorFlow would make room for as many as it is told, here 96 GB."""
    largest = {"seed": 7, "shuffle_buffer_size": 4_000_000_000}
    expected = read(records, 20, seed=7, shuffle_buffer_size=TOTAL)
    assert read(records, 20, **largest) == expected


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
    (tmp_path / "link").symlink_to(tmp_path)
    assert find_record_files("data-0,link/data-[0]") == ["data-0"]
    assert read(",".join(spellings), 2) == once


def test_a_folder_is_refused(records, tmp_path):
    (tmp_path / "held_out").mkdir()
    message = rf"--eval_tfrecords: {tmp_path}/held_out is a folder: pass files"
    for pattern in (f"{tmp_path}/*", f"{tmp_path}/held_out"):
        with pytest.raises(UserError, match=message):
            find_record_files(pattern, "--eval_tfrecords")


def test_shards_read_once_are_divided_by_record(records):
    given = {"patterns": records, "max_seq_length": LENGTH, "batch_size": 4, "repeat": False}
    shard = DataShard(worker=0, num_workers=2)
    by_file = dataclasses.replace(shard, by=BY_FILE)
    with pytest.raises(ValueError, match="by file needs `repeat`"):
        read_pretraining_records(**given, shard=by_file)
    with pytest.raises(ValueError, match="needs `deterministic`"):
        read_pretraining_records(**given, shard=shard, deterministic=False)


@pytest.mark.parametrize("settings", [SHUFFLED, {}, SHUFFLED | {"skip_bad_records": True}])
@pytest.mark.parametrize("is_replaced", [False, True])
def test_files_that_change_between_epochs_are_refused(records, tmp_path, settings, is_replaced):
    """A run would go on with other data, or end with a traceback."""
    settings = {"max_seq_length": LENGTH, "batch_size": 4} | settings
    batches = iter(read_pretraining_records(records, **settings))
    for _ in range(2):
        next(batches)
    changed = tmp_path / "data-3"
    if is_replaced:  # by as many records, of the same size
        write_shard(tmp_path / "new", range(200, 200 + SHARDS[3]))
        (tmp_path / "new").replace(changed)
    else:
        changed.unlink()

    def read_on() -> None:
        with locate_bad_records(records, "--pretrain_tfrecords", LENGTH):
            for _ in range(3 * TOTAL):
                next(batches)

    message = rf"^--pretrain_tfrecords: {changed} was removed or replaced while it was"
    with pytest.raises(UserError, match=message):
        read_on()


def test_a_file_that_is_being_written_when_its_lengths_are_checked_is_named(records, tmp_path):
    """The writer is slower than a reader that has just found the file unchanged."""
    changed = tmp_path / "data-3"
    check = changes_of([str(changed)])

    def check_and_truncate(path: str) -> None:
        check(path)
        truncate(changed, 2 * RECORD_BYTES + 20)

    # As in the reader, the path is a tensor.
    records = tf.data.Dataset.from_tensors(str(changed)).flat_map(
        lambda path: read_span(path, 0, SHARDS[3], check_and_truncate)
    )
    with (
        pytest.raises(UserError, match=rf"^--flag: {changed} was removed or replaced"),
        locate_bad_records(str(changed), "--flag", LENGTH),
    ):
        list(records)


@pytest.mark.parametrize("error", [tf.errors.DataLossError, tf.errors.InvalidArgumentError])
def test_a_record_that_was_broken_and_is_whole_again(records, tmp_path, error):
    path = tmp_path / "data-3"
    whole = path.read_bytes()

    def read_while_it_is_written() -> None:
        truncate(path, 2 * RECORD_BYTES + 20)
        try:
            if error is tf.errors.DataLossError:
                list(tf.data.TFRecordDataset(str(path)))
            else:
                paths = tf.data.Dataset.from_tensors(str(path))
                list(paths.flat_map(lambda path: read_span(path, 0, SHARDS[3])))
        except error:
            path.write_bytes(whole)
            raise

    with (
        pytest.raises(UserError, match=r"^--flag: a record was damaged when it was read"),
        locate_bad_records(records, "--flag", LENGTH),
    ):
        read_while_it_is_written()


def test_a_file_that_is_removed_just_before_it_is_opened_is_named(records, tmp_path):
    gone = str(tmp_path / "data 9")
    with (
        pytest.raises(UserError, match=rf"^--flag: {gone} was removed or replaced"),
        locate_bad_records(records, "--flag", LENGTH),
    ):
        next(iter(tf.data.TFRecordDataset(gone)))


def test_a_file_may_be_moved_or_written_again_with_the_same_records(records, tmp_path):
    dataset = read_pretraining_records(records, max_seq_length=LENGTH, batch_size=4)
    batches = dataset.as_numpy_iterator()
    next(batches)
    (tmp_path / "copy").write_bytes((tmp_path / "data-0").read_bytes())
    (tmp_path / "copy").replace(tmp_path / "data-0")
    ids = [i for batch in itertools.islice(batches, 30) for i in batch["input_ids"][:, 0]]
    assert ids == [10 + (4 + k) % TOTAL for k in range(120)]


def test_remote_files_are_not_compared():
    """Each comparison would be requests over the network, and one that fails end the run."""
    check = changes_of(["gs://bucket/a"])
    assert check("gs://bucket/a") is None  # and raises nothing, though there is no such file
