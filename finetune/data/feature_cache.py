"""A cache of features in TFRecord files.

An entry is named by a digest of the data and settings that its features depend on, and has a
manifest with a checksum of its records. Neither a killed program nor two concurrent ones can
leave an entry that is mistaken for another.
"""

import contextlib
import hashlib
import json
import os
import pathlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import filelock
import numpy as np
import tensorflow as tf

from electra_tf.util.files import write_atomically
from electra_tf.util.seals import sealed, without_seal
from electra_tf.util.temporaries import temporary_path
from electra_tf.util.untuned_datasets import untuned
from finetune.data.features import TASK_ID, FeatureSpec, Row

# Number of entries kept per task and split, for runs with other settings or data.
ENTRIES_KEPT = 4
_DIGEST_LENGTH = 16
# After waiting this long, a program prepares the features without the lock.
_LOCK_SECONDS = 600


class CacheEntry(NamedTuple):
    """Features, and the problems of their data; see `DataReport.problems`."""

    rows: list[Row]
    problems: Mapping[str, list[dict]]


class FeatureCache:
    """The features of the tasks and splits of a run, in one folder.

    Args:
        directory: the folder.
        print_fn: prints a message.
    """

    def __init__(self, directory: str, print_fn: Callable[[str], None] = print) -> None:
        self.directory = directory
        self._print = print_fn

    @contextlib.contextmanager
    def lock(self, name: str) -> Iterator[None]:
        """Lets one program at a time prepare the features of a task and split.

        The others wait, and then find them in the cache. Where files cannot be locked,
        programs may do the work twice.
        """
        lock = filelock.FileLock(os.path.join(self.directory, f"{name}.lock"))
        try:
            os.makedirs(self.directory, exist_ok=True)
            try:
                lock.acquire(timeout=0)
            except filelock.Timeout:
                self._print(
                    f"{name}: waiting for another program that is preparing these features"
                )
                lock.acquire(timeout=_LOCK_SECONDS)
        except (filelock.Timeout, OSError, NotImplementedError) as error:
            self._print(f"{name}: the cache is not locked: {error}")
        try:
            yield
        finally:
            lock.release()

    def load(
        self, name: str, fingerprint: str, specs: Sequence[FeatureSpec]
    ) -> CacheEntry | None:
        """Returns the features of an entry; None if it is missing, damaged or for other data.

        Args:
            name: task and split.
            fingerprint: digest of everything that the features depend on.
            specs: all features of a row.
        """
        records, manifest = self._paths(name, fingerprint)
        try:
            found = without_seal(json.loads(manifest.read_text(encoding="utf-8")), manifest)
            if found["fingerprint"] != fingerprint or found["sha256"] != _sha256(records):
                return None
            rows = _read(records, specs)
            return CacheEntry(rows, found["problems"]) if len(rows) == found["rows"] else None
        except (OSError, ValueError, KeyError, TypeError, AttributeError, tf.errors.OpError):
            return None

    def save(
        self, name: str, fingerprint: str, specs: Sequence[FeatureSpec], entry: CacheEntry
    ) -> None:
        """Writes an entry, its manifest last, and removes the oldest ones.

        A full or read-only disk is reported; the run continues without the cache.
        """
        records, manifest = self._paths(name, fingerprint)
        temporary = temporary_path(records)
        try:
            os.makedirs(self.directory, exist_ok=True)
            with tf.io.TFRecordWriter(temporary) as writer:
                for row in entry.rows:
                    writer.write(_serialize(row, specs))
            checksum = _sha256(temporary)
            os.replace(temporary, records)
            content = {
                "fingerprint": fingerprint,
                "rows": len(entry.rows),
                "sha256": checksum,
                "problems": entry.problems,
            }
            write_atomically(manifest, json.dumps(sealed(content), ensure_ascii=False) + "\n")
            self._remove_oldest(name, manifest)
        except (OSError, tf.errors.OpError) as error:
            self._print(f"{name}: the features are not cached: {error}")
            with contextlib.suppress(OSError):
                os.remove(temporary)

    def _paths(self, name: str, fingerprint: str) -> tuple[pathlib.Path, pathlib.Path]:
        stem = os.path.join(self.directory, f"{name}-{fingerprint[:_DIGEST_LENGTH]}")
        return pathlib.Path(f"{stem}.tfrecord"), pathlib.Path(f"{stem}.json")

    def _remove_oldest(self, name: str, newest: pathlib.Path) -> None:
        entry = re.compile(rf"{re.escape(name)}-[0-9a-f]{{{_DIGEST_LENGTH}}}\.json")
        folder = pathlib.Path(self.directory)
        manifests = [path for path in folder.iterdir() if entry.fullmatch(path.name)]
        # Another machine may have a clock that is ahead.
        manifests.sort(key=lambda path: (path == newest, path.stat().st_mtime), reverse=True)
        for path in manifests[ENTRIES_KEPT:]:
            path.unlink(missing_ok=True)
            path.with_suffix(".tfrecord").unlink(missing_ok=True)


def _sha256(path: str | os.PathLike) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _serialize(row: Row, specs: Sequence[FeatureSpec]) -> bytes:
    example = tf.train.Example()
    for spec in specs:
        if spec.name == TASK_ID:
            continue
        values = np.atleast_1d(row[spec.name])
        feature = example.features.feature[spec.name]
        if spec.dtype == "float32":
            feature.float_list.value.extend(values.tolist())
        else:
            feature.int64_list.value.extend(values.tolist())
    # The features are a map, whose order differs from process to process.
    return example.SerializeToString(deterministic=True)


def _read(path: pathlib.Path, specs: Sequence[FeatureSpec]) -> list[Row]:
    rows = []
    for record in untuned(tf.data.TFRecordDataset(str(path))).as_numpy_iterator():
        features = tf.train.Example.FromString(record).features.feature
        row: Row = {}
        for spec in specs:
            if spec.name == TASK_ID:
                continue
            feature = features[spec.name]
            is_float = spec.dtype == "float32"
            values = (feature.float_list if is_float else feature.int64_list).value
            values = np.asarray(values, np.float32 if is_float else np.int32)
            row[spec.name] = values if spec.per_token or spec.size else values[0]
        rows.append(row)
    return rows
