"""The trials and folds of a run."""

import dataclasses
import itertools
import json
import os
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from electra_tf.training.monitoring.run_info import LOG_FILE, read_log
from electra_tf.util.files import write_atomically
from finetune.config.finetuning import FinetuningConfig
from finetune.data.features import DataReport
from finetune.data.folds import Fold, example_groups, make_folds, stratification_labels
from finetune.results.result_files import file_label
from finetune.task_data import TaskData
from finetune.tasks.base import TRAIN, SplitData, Task

# Splits of a fold: SELECTION chooses the weights, and HELD_OUT is scored.
HELD_OUT, SELECTION = "held_out", "selection"
SELECTION_FRACTION = 0.1


@dataclasses.dataclass(frozen=True)
class TrialRun:
    """One training run: a trial, or a fold of one.

    Attributes:
        number: index of the trial, from 1.
        fold: index of the fold, from 1; None without cross-validation.
        seed: random seed of the trial.
        model_dir: folder of its checkpoints and log.
        examples: the examples of a fold.
        train_data: training data of a fold, by task.
        selection, held_out: data of a fold that chooses the weights (None if the last ones
            are used) and whose scores are reported.
        num_examples: number of rows that determines the number of steps, for a fold.
    """

    number: int
    seed: int
    model_dir: str
    fold: int | None = None
    examples: Fold | None = None
    train_data: Mapping[str, SplitData] | None = None
    selection: SplitData | None = None
    held_out: SplitData | None = None
    num_examples: int | None = None

    @property
    def title(self) -> str:
        """The name of the run, such as "Trial 1, fold 2"."""
        return f"Trial {self.number}" + (f", fold {self.fold}" if self.fold else "")

    @property
    def file_label(self) -> str:
        """The name of the run in file names, such as "1_fold2"."""
        return file_label(self.number, self.fold)

    def counts(self) -> dict[str, int]:
        """Returns the number of examples of each part of a fold."""
        if self.examples is None:
            return {}
        parts = {TRAIN: self.examples.train, SELECTION: self.examples.selection}
        return {name: len(part) for name, part in parts.items()} | {
            HELD_OUT: len(self.examples.held_out)
        }

    def log_records(self) -> list[dict[str, Any]]:
        """Returns the records of the training log, each with its trial and fold.

        Raises:
            UserError: see `read_log`.
        """
        path = pathlib.Path(self.model_dir, LOG_FILE)
        if not path.exists():
            return []
        where = {"trial": self.number} | ({"fold": self.fold} if self.fold else {})
        return [{**record, **where} for record in read_log(path)]


def trial_runs(config: FinetuningConfig) -> Iterator[TrialRun]:
    """Yields one run per trial, with consecutive seeds from `config.seed`.

    As in the authors' code, a negative `num_trials` never ends.
    """
    endless = config.num_trials < 0
    for number in itertools.count(1) if endless else range(1, config.num_trials + 1):
        yield TrialRun(number, config.seed + number - 1, f"{config.model_dir}_{number}")


def fold_runs(
    config: FinetuningConfig, tasks: Sequence[Task], data: TaskData
) -> list[TrialRun]:
    """Returns one run per fold, whose held-out examples are only used for scoring.

    Every example is held out in one fold, including those that `Task.is_trainable` excludes
    from training. With `keep_best`, some of the training examples choose the weights instead.
    Groups of examples, such as the questions about a paragraph, are never split.
    """
    (task,) = tasks
    examples = data.get(task, TRAIN).examples
    groups = example_groups(examples)
    fraction = config.selection_fraction or SELECTION_FRACTION
    report = DataReport(task.name, TRAIN)

    def part(split: str, indices: Sequence[int]) -> SplitData:
        chosen = [examples[i] for i in indices]
        rows = task.featurize(chosen, is_training=split == TRAIN, report=report)
        return SplitData(split, chosen, rows)

    runs = []
    for trial in trial_runs(config):
        folds = make_folds(
            stratification_labels(examples),
            groups,
            num_folds=config.num_folds,
            seed=trial.seed,
            selection_fraction=fraction if config.keep_best else 0.0,
        )
        folds = [
            dataclasses.replace(
                fold, train=tuple(i for i in fold.train if task.is_trainable(examples[i]))
            )
            for fold in folds
        ]
        train_parts = [part(TRAIN, fold.train) for fold in folds]
        # All folds train the same number of steps, to share the graph. Without groups, their
        # sizes differ by at most one example.
        sizes = [len(train.rows) for train in train_parts]
        num_examples = min(sizes) if groups is None else round(sum(sizes) / len(sizes))
        for number, (fold, train) in enumerate(zip(folds, train_parts, strict=True), start=1):
            runs.append(
                dataclasses.replace(
                    trial,
                    fold=number,
                    examples=fold,
                    model_dir=f"{trial.model_dir}_fold{number}",
                    train_data={task.name: train},
                    selection=part(SELECTION, fold.selection) if fold.selection else None,
                    held_out=part(HELD_OUT, fold.held_out),
                    num_examples=num_examples,
                )
            )
    return runs


def folds_file(config: FinetuningConfig) -> str:
    """Returns the path of the file that `write_folds` writes."""
    return os.path.join(config.results_dir, f"{config.tasks_label}_folds.json")


def write_folds(config: FinetuningConfig, runs: Sequence[TrialRun]) -> str:
    """Writes which examples trained, chose and scored the model of each fold, as JSON.

    Examples are indices in the train split, as read; "ids" has their ids in the data.

    Returns:
        The path.
    """
    ids: dict[int, str] = {}
    folds = []
    for run in runs:
        parts = {TRAIN: run.examples.train, SELECTION: run.examples.selection}
        parts[HELD_OUT] = run.examples.held_out
        names = {"trial": run.number, "fold": run.fold, "seed": run.seed}
        folds.append({**names, "by_group": run.examples.by_group, **parts})
        for index, example in zip(run.examples.held_out, run.held_out.examples, strict=True):
            name = getattr(example, "guid", getattr(example, "qas_id", None))
            if name is not None:
                ids[index] = name
    content = {"folds": folds, "ids": {index: ids[index] for index in sorted(ids)}}
    path = folds_file(config)
    write_atomically(path, json.dumps(content, ensure_ascii=False) + "\n")
    return path
