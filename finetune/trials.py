"""The trials and folds of a run, and the folders of their models.

The `config.json` of a folder records the settings and data that its weights depend on. A
model of the same settings and data is resumed; a different one is not overwritten.
"""

import dataclasses
import json
import os
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from electra_tf.config.distribution import DistributionConfig
from electra_tf.config.saved_config import load_saved_config
from electra_tf.interop.model_checkpoint import LABELS, TASKS
from electra_tf.training.log import LOG_FILE
from electra_tf.util.errors import UserError
from electra_tf.util.files import write_atomically
from finetune.config.finetuning import FinetuningConfig
from finetune.data.features import DataReport
from finetune.data.folds import Fold, example_groups, make_folds, stratification_labels
from finetune.task_data import TRAIN, TaskData
from finetune.tasks.base import SplitData, Task

# Splits of a fold: its score is that of HELD_OUT, its weights are chosen on SELECTION.
HELD_OUT, SELECTION = "held_out", "selection"
SELECTION_FRACTION = 0.1
# Key of `config.json`: digest of the examples of a fold.
FOLD_EXAMPLES = "fold_examples"
# Hyperparameters that do not affect the weights.
_NOT_OF_THE_WEIGHTS = frozenset(
    (
        "debug",
        "log_examples",
        "num_trials",
        "do_train",
        "do_eval",
        "do_predict",
        "keep_all_models",
        "save_checkpoints_steps",
        "iterations_per_loop",
        "log_steps",
        "use_tfrecords_if_existing",
        "write_test_outputs",
        "n_writes_test",
        "predict_file",
        "predict_output",
        "eval_batch_size",
        "predict_batch_size",
        "raw_data_dir",
        "vocab_file",
        "model_dir",
        "results_dir",
        "results_txt",
        "results_pkl",
        "preprocessed_data_dir",
        "overwrite",
        "rematerialize",
        "data_dir",
        "n_best_size",
        "max_answer_length",
        "beam_size",
        "qa_na_threshold",
        TASKS,
        *(field.name for field in dataclasses.fields(DistributionConfig)),
    )
)


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
        """Such as "Trial 1, fold 2"."""
        return f"Trial {self.number}" + (f", fold {self.fold}" if self.fold else "")

    @property
    def file_label(self) -> str:
        """Such as "1_fold2", for file names."""
        return f"{self.number}" + (f"_fold{self.fold}" if self.fold else "")

    def counts(self) -> dict[str, int]:
        """Returns the number of examples of each part of a fold."""
        if self.examples is None:
            return {}
        parts = {TRAIN: self.examples.train, SELECTION: self.examples.selection}
        return {name: len(part) for name, part in parts.items()} | {
            HELD_OUT: len(self.examples.held_out)
        }

    def log_records(self) -> list[dict[str, Any]]:
        """Returns the records of the training log, each with its trial and fold."""
        path = pathlib.Path(self.model_dir, LOG_FILE)
        if not path.exists():
            return []
        where = {"trial": self.number} | ({"fold": self.fold} if self.fold else {})
        return [{**json.loads(line), **where} for line in path.read_text().splitlines()]


def trial_runs(config: FinetuningConfig) -> list[TrialRun]:
    """Returns one run per trial, with consecutive seeds from `config.seed`."""
    return [
        TrialRun(number, config.seed + number - 1, f"{config.model_dir}_{number}")
        for number in range(1, config.num_trials + 1)
    ]


def fold_runs(
    config: FinetuningConfig, tasks: Sequence[Task], data: TaskData
) -> list[TrialRun]:
    """Returns one run per fold; its held-out examples are only reported.

    With `keep_best`, a part of the training examples chooses the weights. Groups, such as the
    questions about a paragraph, are in one part.
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
        train_parts = [part(TRAIN, fold.train) for fold in folds]
        # A common number of steps shares the graph. Only groups differ by more than an example.
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


def write_folds(config: FinetuningConfig, runs: Sequence[TrialRun]) -> str:
    """Writes which examples trained, chose and scored the model of each fold, as JSON.

    Examples are indices in the train split, as read; "ids" has their ids in the data.

    Returns:
        The path, RESULTS/<task>_folds.json.
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
    path = os.path.join(config.results_dir, f"{config.tasks_label}_folds.json")
    write_atomically(path, json.dumps(content, ensure_ascii=False) + "\n")
    return path


def run_hyperparameters(
    config: FinetuningConfig, trial: TrialRun, tasks: Sequence[Task], data: TaskData
) -> dict[str, Any]:
    """Returns the settings that the weights of a run depend on, with data fingerprints."""
    fingerprints = {k: v for k, v in data.fingerprints.items() if k.endswith(f"/{TRAIN}")}
    return {
        **json.loads(json.dumps(dataclasses.asdict(config))),
        "trial_seed": trial.seed,
        "fold": trial.fold,
        FOLD_EXAMPLES: trial.examples and trial.examples.digest,
        LABELS: _labels(tasks),
        TASKS: {task.name: task.description for task in tasks},
        "data": fingerprints,
    }


def _labels(tasks: Sequence[Task]) -> dict[str, list[str]]:
    """Returns the labels of tasks that have them, in the order of their ids."""
    return {
        task.name: list(labels)
        for task in tasks
        if (labels := getattr(task, "labels", None)) is not None
    }


def saved_labels(model_dir: str) -> Mapping[str, Sequence[str]]:
    """Returns the labels of a trained model by task; empty where unknown."""
    description = load_saved_config(model_dir)
    return description.hyperparameters.get(LABELS, {}) if description else {}


def check_labels(model: str, saved: Mapping[str, Sequence[str]], tasks: Sequence[Task]) -> None:
    """Raises UserError unless the labels of the data are those of the trained model."""
    for name, labels in _labels(tasks).items():
        if saved.get(name) and list(saved[name]) != labels:
            raise UserError(
                f"The model in {model} was trained on the labels {', '.join(saved[name])} "
                f"of task {name}, but the data now has {', '.join(labels)}. Restore the train "
                "file, or list the labels in the task's description"
            )


def check_fold(trial: TrialRun) -> None:
    """Raises UserError unless the model of a fold was trained without its held-out examples."""
    description = load_saved_config(trial.model_dir)
    if trial.examples is None or description is None:
        return
    saved = description.hyperparameters
    if FOLD_EXAMPLES in saved:
        is_same = saved[FOLD_EXAMPLES] == trial.examples.digest
    else:
        is_same = _has_older_folds(trial) and saved.get("trial_seed") == trial.seed
    if not is_same:
        raise UserError(
            f"The model in {trial.model_dir} was trained or chosen on other examples than "
            f"those of fold {trial.fold}, so its score would not be of held-out examples: "
            "train it again with --overwrite, or restore --seed, --num_folds, --keep_best and "
            "the data"
        )


def _has_older_folds(trial: TrialRun) -> bool:
    """Whether a fold without `FOLD_EXAMPLES` follows from its seed: no selection, no groups."""
    return trial.examples is None or not (trial.examples.by_group or trial.examples.selection)


def _changed_settings(trial: TrialRun, hyperparameters: Mapping[str, Any]) -> list[str]:
    description = load_saved_config(trial.model_dir)
    if description is None:
        return []
    saved = dict(description.hyperparameters)
    if FOLD_EXAMPLES not in saved and _has_older_folds(trial):
        saved[FOLD_EXAMPLES] = hyperparameters[FOLD_EXAMPLES]
    return [
        f"{name}: {saved.get(name)!r} there, {value!r} now"
        for name, value in hyperparameters.items()
        if name not in _NOT_OF_THE_WEIGHTS and saved.get(name) != value
    ]


def check_model_dir(
    trial: TrialRun, hyperparameters: Mapping[str, Any], config: FinetuningConfig
) -> None:
    """Raises UserError for a folder with a model of different settings or data."""
    changed = _changed_settings(trial, hyperparameters)
    if changed and not config.overwrite:
        raise UserError(
            f"{trial.model_dir} has a model of different settings or data. Pass --overwrite to "
            "replace it, or another --model_dir. Changed:\n  " + "\n  ".join(changed)
        )
