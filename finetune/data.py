"""The data of a run's tasks: splits loaded once, featurized or taken from the cache."""

import os
from collections.abc import Callable

from electra_tf.util.errors import UserError
from finetune.config import FinetuningConfig
from finetune.data_report import DataReport
from finetune.feature_cache import FeatureCache, fingerprint
from finetune.features import Row
from finetune.task import SplitData, Task

TRAIN = "train"
_EXAMPLES_LOGGED = 2


class TaskData:
    """Loads the splits of tasks, says what was wrong with them, and keeps them.

    Args:
        config: hyperparameters.
        say: takes messages.
        writes: whether to cache features and write reports on the data.
    """

    def __init__(
        self,
        config: FinetuningConfig,
        say: Callable[[str], None] = print,
        writes: bool = True,
    ) -> None:
        self._writes = writes
        self._config = config
        self._say = say
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
            is_training: featurize for training (questions whose answer is outside of a
                window, pairs in both orders).
            labeled: whether the labels are real.

        Raises:
            UserError: for bad data, naming file and line.
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
                self._say(f"{task.name} {split}: {row}")
        return SplitData(split, examples, rows, labeled)

    def _cached(self, task: Task, name: str, wanted: str) -> list[Row] | None:
        if not self._config.use_tfrecords_if_existing:
            return None
        cached = self._cache.load(task, name, wanted)
        if cached is None:
            return None
        rows, report = cached
        self._say(f"{task.name} {name}: {len(rows):,} cached features")
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
            self._say(line)
        self._say(f"  each case: {path}")
