"""Workers that read parts of the records: none is lost, none is read twice."""

import itertools
from collections.abc import Iterable

import numpy as np
import pytest

from electra_tf.config.distribution import BY_FILE
from electra_tf.training.distribution.shards import DataShard
from electra_tf.util.errors import UserError
from tests.pretrain_data.records.shards import SHARDS, SHUFFLED, TOTAL, read, write_shard

WORKERS = 3
BATCH = 6


@pytest.fixture
def records(tmp_path) -> str:
    """Five shards, one of them empty; example k has the id 10 + k. Gives their wildcard."""
    ids = iter(range(10, 10 + TOTAL))
    for shard, count in enumerate(SHARDS):
        write_shard(tmp_path / f"data-{shard}", itertools.islice(ids, count))
    return f"{tmp_path}/data-*"


def read_all(records, num_batches, *, by="record", replicas=1, **settings) -> list[list[list]]:
    """Ids of each worker's batches."""
    return [
        read(
            records,
            num_batches * replicas,
            batch_size=BATCH,
            shard=DataShard(worker, WORKERS, replicas, by),
            **settings,
        )
        for worker in range(WORKERS)
    ]


def joined(lists: Iterable[list]) -> list:
    """Returns the elements of all lists."""
    return list(itertools.chain.from_iterable(lists))


def test_global_batches_are_split_by_worker_and_replica():
    rows = np.arange(24).reshape(2, 12)
    np.testing.assert_array_equal(DataShard().split(rows), rows)
    second = DataShard(worker=1, num_workers=3, replicas=2)
    assert second.rows(12) == (4, 4)
    np.testing.assert_array_equal(second.split(rows), [[4, 5], [6, 7], [16, 17], [18, 19]])


@pytest.mark.parametrize("settings", [{}, SHUFFLED, {**SHUFFLED, "start_example": 5 * BATCH}])
def test_by_record_the_workers_together_have_the_batches_of_one(records, settings):
    whole = read(records, 15, batch_size=BATCH, **settings)
    parts = read_all(records, 15, **settings)
    together = [joined(batches) for batches in zip(*parts, strict=True)]
    assert together == whole


def test_replicas_take_the_batches_in_turn(records):
    whole = read(records, 8, batch_size=BATCH, **SHUFFLED)
    parts = read_all(records, 8, replicas=2, **SHUFFLED)
    for worker, batches in enumerate(parts):
        rows = [batch[2 * worker : 2 * worker + 2] for batch in whole]
        assert batches == [[row] for pair in rows for row in pair]


def test_the_last_batch_is_filled_for_every_worker(records):
    """Thirty-five records: the sixth batch has five, so one row of zeros."""
    parts = read_all(records, 100, repeat=False)
    assert [len(batches) for batches in parts] == [6, 6, 6]
    assert [batches[-1] for batches in parts] == [[40, 41], [42, 43], [44, 0]]


@pytest.mark.parametrize("settings", [{}, SHUFFLED])
def test_by_file_every_record_is_read_once_an_epoch(records, settings):
    ranges = [DataShard(w, WORKERS, by=BY_FILE).range(TOTAL) for w in range(WORKERS)]
    sizes = [until - first for first, until in ranges]
    assert sorted(sizes) == [11, 12, 12]
    flat = [joined(part) for part in read_all(records, 12, by=BY_FILE, **settings)]
    epochs = [
        [
            part[epoch * size : (epoch + 1) * size]
            for part, size in zip(flat, sizes, strict=True)
        ]
        for epoch in range(2)
    ]
    for epoch in epochs:
        assert sorted(joined(epoch)) == list(range(10, 10 + TOTAL))
    assert (epochs[0] != epochs[1]) == bool(settings)


def test_by_file_reading_is_taken_up_exactly(records):
    whole = read_all(records, 16, by=BY_FILE, **SHUFFLED)
    rest = read_all(records, 9, by=BY_FILE, start_example=7 * BATCH, **SHUFFLED)
    assert rest == [part[7:] for part in whole]


def test_by_file_a_worker_opens_only_files_with_records_of_its(tmp_path):
    for i in range(3):
        write_shard(tmp_path / f"data-{i}", range(10 * i, 10 * i + 6))
    parts = read_all(f"{tmp_path}/data-*", 3, by=BY_FILE)
    assert [joined(part) for part in parts] == [
        list(range(10 * i, 10 * i + 6)) for i in range(3)
    ]


def test_fewer_records_than_workers_are_refused(tmp_path):
    write_shard(tmp_path / "data-0", range(2))
    with pytest.raises(UserError, match="has 2 records, too few for 3 workers"):
        read_all(f"{tmp_path}/data-*", 1, by=BY_FILE)
