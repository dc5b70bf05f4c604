"""The cache of features: which entries are read, and what a full disk does."""

import os
import pathlib
import threading
import time

import filelock
import numpy as np
import pytest

from finetune.data import feature_cache
from finetune.data.feature_cache import ENTRIES_KEPT, CacheEntry, FeatureCache
from finetune.data.features import FeatureSpec

SPECS = (FeatureSpec("input_ids", per_token=True),)
ENTRY = CacheEntry([{"input_ids": np.array([1, 2, 3])}], {"too long": [{"text": "w1"}]})


def digest(number: int) -> str:
    return f"{number:064x}"[::-1]


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def cache(tmp_path, said) -> FeatureCache:
    return FeatureCache(str(tmp_path / "features"), said.append)


def files(cache: FeatureCache) -> set[str]:
    return {path.suffix for path in pathlib.Path(cache.directory).iterdir()}


def test_an_entry_is_that_of_its_data_alone(cache):
    assert cache.load("cola-train", digest(1), SPECS) is None
    cache.save("cola-train", digest(1), SPECS, ENTRY)
    found = cache.load("cola-train", digest(1), SPECS)
    np.testing.assert_array_equal(found.rows[0]["input_ids"], [1, 2, 3])
    assert found.problems == ENTRY.problems
    assert cache.load("cola-train", digest(2), SPECS) is None
    # The name has only a part of the digest.
    other = digest(1)[:-1] + "f"
    assert cache.load("cola-train", other, SPECS) is None


def test_damaged_records_are_made_again(cache):
    cache.save("cola-train", digest(1), SPECS, ENTRY)
    (records,) = pathlib.Path(cache.directory).glob("*.tfrecord")
    records.write_bytes(records.read_bytes()[:-1])
    assert cache.load("cola-train", digest(1), SPECS) is None


def test_the_oldest_entries_are_removed(cache):
    for number in range(ENTRIES_KEPT + 2):
        cache.save("cola-train", digest(number), SPECS, ENTRY)
        for path in pathlib.Path(cache.directory).glob(f"*-{digest(number)[:16]}.*"):
            os.utime(path, (number, number))
    kept = [
        number
        for number in range(ENTRIES_KEPT + 2)
        if cache.load("cola-train", digest(number), SPECS)
    ]
    assert kept == [2, 3, 4, 5]
    assert len([*pathlib.Path(cache.directory).iterdir()]) == 2 * ENTRIES_KEPT


def test_what_was_just_written_stays_where_clocks_differ(cache):
    tomorrow = time.time() + 86400
    for number in range(ENTRIES_KEPT + 1):
        cache.save("cola-train", digest(number), SPECS, ENTRY)
        assert cache.load("cola-train", digest(number), SPECS)
        for path in pathlib.Path(cache.directory).iterdir():
            os.utime(path, (tomorrow, tomorrow))
    assert len([*pathlib.Path(cache.directory).iterdir()]) == 2 * ENTRIES_KEPT


def test_a_full_disk_is_told_and_leaves_nothing(cache, said, monkeypatch):
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(feature_cache.os, "replace", full)
    cache.save("cola-train", digest(1), SPECS, ENTRY)
    (line,) = said
    assert line.startswith("cola-train: the features are not cached: ")
    assert "No space left on device" in line
    assert files(cache) == set()
    assert cache.load("cola-train", digest(1), SPECS) is None


def test_another_program_is_waited_for(cache, said):
    entered = threading.Event()
    os.makedirs(cache.directory)
    other = filelock.FileLock(os.path.join(cache.directory, "cola-train.lock"))
    other.acquire()

    def wait() -> None:
        with cache.lock("cola-train"):
            entered.set()

    thread = threading.Thread(target=wait)
    thread.start()
    assert not entered.wait(0.2)
    other.release()
    thread.join(10)
    assert entered.is_set()
    assert said == ["cola-train: waiting for another program that is preparing these features"]


def test_where_files_cannot_be_locked_the_work_is_done_all_the_same(cache, said, monkeypatch):
    class NoLocks(filelock.FileLock):
        def acquire(self, *_: object, **__: object) -> None:
            raise NotImplementedError("no locks here")

    monkeypatch.setattr(feature_cache.filelock, "FileLock", NoLocks)
    with cache.lock("cola-train"):
        pass
    assert said == ["cola-train: the cache is not locked: no locks here"]
