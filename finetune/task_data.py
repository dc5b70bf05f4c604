"""The data of the tasks of a run: splits are loaded once, and features are cached."""

import dataclasses
import hashlib
import json
import os
import pathlib
from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf

from electra_tf.util.errors import UserError
from electra_tf.util.files import write_atomically
from finetune.config.finetuning import FinetuningConfig
from finetune.data.features import SHARED_SPECS, TASK_ID, DataReport, FeatureSpec, Row
from finetune.tasks.base import SplitData, Task

TRAIN = "train"
_EXAMPLES_LOGGED = 2
# Increment it when the features of the same input change.
FEATURES_VERSION = 1
# Hyperparameters that features depend on.
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


class TaskData:
    """Loads, reports on and keeps the splits of tasks.

    Args:
        config: hyperparameters.
        print_fn: prints a message.
        writes: whether to cache features and write data reports.
    """

    def __init__(
        self,
        config: FinetuningConfig,
        print_fn: Callable[[str], None] = print,
        writes: bool = True,
    ) -> None:
        self._writes = writes
        self._config = config
        self._print = print_fn
        self._cache = FeatureCache(config.preprocessed_data_dir)
        self._splits: dict[tuple[str, str, bool], SplitData] = {}
        self.fingerprints: dict[str, str] = {}

    def get(
        self, task: Task, split: str, *, is_training: bool = False, labeled: bool = True
    ) -> SplitData:
        """Returns a split's examples and features.

        Args:
            task: the task.
            split: "train", or one of the task's dev and test splits.
            is_training: featurize for training (questions whose answer is outside a window,
                pairs in both orders).
            labeled: whether the labels are real.

        Raises:
            UserError: the data is malformed; the message names file and line.
        """
        key = (task.name, split, is_training)
        if key not in self._splits:
            self._splits[key] = self._load(task, split, is_training, labeled)
        return self._splits[key]

    def _load(self, task: Task, split: str, is_training: bool, labeled: bool) -> SplitData:
        report = DataReport(task.name, split)
        examples = task.load(split, report)
        if not examples:
            raise UserError(
                f"{task.name}: the split {split!r} has no usable example "
                f"({', '.join(task.split_files(split))})"
            )
        if self._config.debug:
            examples = examples[: self._config.train_batch_size]
        wanted = fingerprint(task, split, is_training=is_training)
        self.fingerprints[f"{task.name}/{split}"] = wanted
        name = split if is_training or split != TRAIN else f"{split}_eval"
        rows = self._cached(task, name, wanted)
        if rows is None:
            rows = task.featurize(examples, is_training=is_training, report=report)
            if self._writes and not self._config.debug:
                self._cache.save(task, name, rows, report, wanted)
            self._tell(report)
        if self._config.log_examples:
            for row in rows[:_EXAMPLES_LOGGED]:
                self._print(f"{task.name} {split}: {row}")
        return SplitData(split, examples, rows, labeled)

    def _cached(self, task: Task, name: str, wanted: str) -> list[Row] | None:
        if not self._config.use_tfrecords_if_existing:
            return None
        cached = self._cache.load(task, name, wanted)
        if cached is None:
            return None
        rows, report = cached
        self._print(f"{task.name} {name}: {len(rows):,} cached features")
        self._tell(report)
        return rows

    def _tell(self, report: DataReport) -> None:
        if not report.problems or not self._writes:
            return
        path = os.path.join(
            self._config.results_dir, f"{report.task_name}_{report.split}_data_report.json"
        )
        report.write(path)
        for line in report.lines():
            self._print(line)
        self._print(f"  each case: {path}")


def fingerprint(task: Task, split: str, *, is_training: bool) -> str:
    """Returns a digest of everything that the features of a split depend on."""
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
        """Returns cached features and the data report, or None."""
        try:
            manifest = json.loads(pathlib.Path(self._path(task, split, ".json")).read_text())
            if manifest["fingerprint"] != wanted_fingerprint:
                return None
            report = DataReport(task.name, split)
            report.problems.update(manifest["problems"])
            path = self._path(task, split, ".tfrecord")
            rows = _read(path, (*SHARED_SPECS, *task.feature_specs))
        except (FileNotFoundError, ValueError, KeyError, tf.errors.OpError):
            return None  # no cache, or a truncated one
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
        # Two runs may be preparing the same features.
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
