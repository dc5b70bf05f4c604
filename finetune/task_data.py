"""The data of the tasks of a run: splits are loaded once, and features are cached."""

import dataclasses
import hashlib
import json
import os
from collections.abc import Callable, Sequence
from typing import Any

from electra_tf.config.recorded_settings import settings_digest
from electra_tf.util.errors import UserError
from electra_tf.util.files import remove_files
from finetune.config.custom_task_fields import is_location
from finetune.config.finetuning import FinetuningConfig
from finetune.config.task_kinds import QA, TAGGING
from finetune.data.feature_cache import CacheEntry, FeatureCache
from finetune.data.features import SHARED_SPECS, DataReport, Row
from finetune.tasks.base import TRAIN, SplitData, Task

_EXAMPLES_LOGGED = 2
# Increment it when the features of the same input change.
FEATURES_VERSION = 2
# The same, for tagging and for question answering only.
_CONLL_VERSION = 2
_ANSWERS_VERSION = 4
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
# Hyperparameters that were added later. They are left out of the digest where they have their
# defaults, so that older cached features remain valid.
_NEWER_SETTINGS = ("class_weights", "long_text", "window_stride")
# Hyperparameters that change the report of the data, but not its features.
_REPORT_SETTINGS = ("max_answer_length",)


class TaskData:
    """Loads, reports on and keeps the splits of tasks.

    Args:
        config: hyperparameters.
        print_fn: prints a message.
        writes: whether to cache features and write data reports.

    Attributes:
        fingerprints: digests of the loaded data, by "task/split": see `fingerprint`.
        content_fingerprints: the same, but independent of the paths of files.
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
        self._cache = FeatureCache(config.preprocessed_data_dir, print_fn)
        self._splits: dict[tuple[str, str, bool], SplitData] = {}
        self.fingerprints: dict[str, str] = {}
        self.content_fingerprints: dict[str, str] = {}

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
        wanted = fingerprint(task, split, is_training=is_training)
        if split == TRAIN and not is_training:
            examples = task.load_train_to_evaluate(report)
        else:
            examples = task.load(split, report)
        if not examples:
            reasons = f": {', '.join(report.counts())}" if report.problems else ""
            raise UserError(
                f"{task.name}: the split {split!r} has no usable example "
                f"({', '.join(task.split_files(split))}){reasons}"
            )
        if self._config.debug:
            examples = examples[: self._config.train_batch_size]
        # The cache entry is named by the content of the files, which must be what was read.
        if fingerprint(task, split, is_training=is_training) != wanted:
            raise UserError(
                f"{task.name}: the files of the split {split!r} changed while they were read "
                f"({', '.join(task.split_files(split))}); start again"
            )
        self.fingerprints[f"{task.name}/{split}"] = wanted
        self.content_fingerprints[f"{task.name}/{split}"] = fingerprint(
            task, split, is_training=is_training, ignores_paths=True
        )
        name = split if is_training or split != TRAIN else f"{split}_eval"
        name = f"{task.name}_{name}"
        entry = _entry_fingerprint(self._config, wanted)
        if self._writes and not self._config.debug:
            with self._cache.lock(name):
                rows = self._rows(task, name, entry, examples, is_training, report)
        else:
            rows = self._rows(task, name, entry, examples, is_training, report)
        self._print_report(report)
        if self._config.log_examples:
            for row in rows[:_EXAMPLES_LOGGED]:
                self._print(f"{task.name} {split}: {row}")
        return SplitData(split, examples, rows, labeled)

    def _rows(
        self,
        task: Task,
        name: str,
        wanted: str,
        examples: Sequence[Any],
        is_training: bool,
        report: DataReport,
    ) -> list[Row]:
        """Returns the features, cached or new, and completes the report."""
        specs = (*SHARED_SPECS, *task.feature_specs)
        # A debug run has fewer examples, so it neither reads nor writes the cache.
        if self._config.use_tfrecords_if_existing and not self._config.debug:
            entry = self._cache.load(name, wanted, specs)
            if entry is not None:
                self._print(f"{name}: {len(entry.rows):,} cached features")
                report.problems.clear()
                report.problems.update(entry.problems)
                return entry.rows
        rows = task.featurize(examples, is_training=is_training, report=report)
        if self._writes and not self._config.debug:
            self._cache.save(name, wanted, specs, CacheEntry(rows, report.problems))
        return rows

    def _print_report(self, report: DataReport) -> None:
        if not self._writes:
            return
        path = os.path.join(
            self._config.results_dir, f"{report.task_name}_{report.split}_data_report.json"
        )
        if not report.problems:
            remove_files(path)
            return
        report.write(path)
        for line in report.lines():
            self._print(line)
        self._print(f"  each case: {path}")


def fingerprint(
    task: Task, split: str, *, is_training: bool, ignores_paths: bool = False
) -> str:
    """Returns a digest of everything that the features of a split depend on.

    Args:
        task: the task.
        split: one of its splits.
        is_training: whether the features are for training.
        ignores_paths: leave out the paths of files, so that moved files have the same digest.
    """
    digest = hashlib.sha256()
    config = dataclasses.asdict(task.config)
    settings = {
        name: value
        for name, value in config.items()
        if name in _SETTINGS or name.startswith(("authors_", "own_task"))
    }
    settings |= _changed(task.config, _NEWER_SETTINGS)
    if ignores_paths:
        settings = {name: v for name, v in settings.items() if not is_location(name, v)}
    settings |= {
        "version": FEATURES_VERSION,
        "task": task.name,
        "split": split,
        "is_training": is_training,
        "vocabulary": task.tokenizer.vocabulary.sha256,
        "labels": getattr(task, "labels", None),
    }
    if task.config.debug:  # loads only some of the examples
        settings["debug"] = True
    if task.kind is TAGGING:
        settings["conll_version"] = _CONLL_VERSION
    if task.kind is QA:
        settings["answers_version"] = _ANSWERS_VERSION
    digest.update(json.dumps(settings, sort_keys=True, default=str).encode())
    for path in task.split_files(split):
        digest.update((os.path.basename(path) if ignores_paths else path).encode())
        if os.path.exists(path):
            with open(path, "rb") as file:
                digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()


def _entry_fingerprint(config: FinetuningConfig, features: str) -> str:
    """Returns the digest of a cache entry, for its features and the problems of its data."""
    settings = _changed(config, _REPORT_SETTINGS)
    return settings_digest({"features": features, **settings}) if settings else features


def _changed(config: FinetuningConfig, names: Sequence[str]) -> dict[str, Any]:
    """Returns those of the named hyperparameters that do not have their defaults."""
    defaults = {field.name: field.default for field in dataclasses.fields(config)}
    values = {name: getattr(config, name) for name in names}
    return {name: value for name, value in values.items() if value != defaults[name]}
