"""Features kept as TFRecords, valid as long as vocabulary, settings and data stay.

Beside `<task>_<split>.tfrecord` lies a manifest with a fingerprint of everything that the
features follow from. Records of another fingerprint are made anew, never reused.
"""

import dataclasses
import hashlib
import json
import os
import pathlib
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from electra_tf.util.files import write_atomically
from finetune.data_report import DataReport
from finetune.features import SHARED_SPECS, TASK_ID, FeatureSpec, Row
from finetune.task import Task

# Raise it when the same input gives other features.
FEATURES_VERSION = 1
# Hyperparameters that features follow from.
_SETTINGS = (
    "max_seq_length",
    "double_unordered",
    "do_lower_case",
    "strip_accents",
    "max_query_length",
    "doc_stride",
    "task_spec",
    "num_folds",
)


def fingerprint(task: Task, split: str, *, is_training: bool) -> str:
    """Returns a digest of all that the features of a split follow from."""
    digest = hashlib.sha256()
    config = dataclasses.asdict(task.config)
    settings = {
        name: value
        for name, value in config.items()
        if name in _SETTINGS or name.startswith(("authors_", "own_task"))
    }
    settings |= {
        "version": FEATURES_VERSION,
        "task": task.name,
        "split": split,
        "is_training": is_training,
        "vocabulary": task.tokenizer.vocabulary.sha256,
        "labels": getattr(task, "labels", None),
    }
    digest.update(json.dumps(settings, sort_keys=True, default=str).encode())
    for path in task.split_files(split):
        digest.update(path.encode())
        if os.path.exists(path):
            with open(path, "rb") as file:
                digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()


class FeatureCache:
    """TFRecords of features in one folder."""

    def __init__(self, directory: str) -> None:
        self.directory = directory

    def load(
        self, task: Task, split: str, wanted_fingerprint: str
    ) -> tuple[list[Row], DataReport] | None:
        """Returns features and what was reported of the data, or None if there are none."""
        try:
            manifest = json.loads(pathlib.Path(self._path(task, split, ".json")).read_text())
            if manifest["fingerprint"] != wanted_fingerprint:
                return None
            report = DataReport(task.name, split)
            report.problems.update(manifest["problems"])
            path = self._path(task, split, ".tfrecord")
            rows = _read(path, (*SHARED_SPECS, *task.feature_specs))
        except (FileNotFoundError, ValueError, KeyError, tf.errors.OpError):
            return None  # no cache, or one that was cut off: features are made anew
        return (rows, report) if len(rows) == manifest["num_rows"] else None

    def save(
        self,
        task: Task,
        split: str,
        rows: Sequence[Row],
        report: DataReport,
        features_fingerprint: str,
    ) -> None:
        """Writes features, and their manifest last."""
        os.makedirs(self.directory, exist_ok=True)
        path = self._path(task, split, ".tfrecord")
        specs = [s for s in (*SHARED_SPECS, *task.feature_specs) if s.name != TASK_ID]
        # Two runs may prepare the same features at the same time.
        temporary = f"{path}.{os.getpid()}.tmp"
        with tf.io.TFRecordWriter(temporary) as writer:
            for row in rows:
                writer.write(_serialize(row, specs))
        os.replace(temporary, path)
        manifest = {
            "fingerprint": features_fingerprint,
            "num_rows": len(rows),
            "problems": report.problems,
        }
        write_atomically(
            self._path(task, split, ".json"), json.dumps(manifest, ensure_ascii=False) + "\n"
        )

    def _path(self, task: Task, split: str, suffix: str) -> str:
        return os.path.join(self.directory, f"{task.name}_{split}{suffix}")


def _serialize(row: Row, specs: Sequence[FeatureSpec]) -> bytes:
    example = tf.train.Example()
    for spec in specs:
        values = np.atleast_1d(row[spec.name])
        feature = example.features.feature[spec.name]
        if spec.dtype == "float32":
            feature.float_list.value.extend(values.tolist())
        else:
            feature.int64_list.value.extend(values.tolist())
    return example.SerializeToString()


def _read(path: str, specs: Sequence[FeatureSpec]) -> list[Row]:
    rows = []
    for record in tf.data.TFRecordDataset(path).as_numpy_iterator():
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
