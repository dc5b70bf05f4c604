"""The trials and folds of a run, and the folders of their models.

The `config.json` of a folder records the settings and data that its weights depend on. A
model of the same settings and data is resumed; a different one is not overwritten.
"""

import dataclasses
import json
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from electra_tf.config.distribution import DistributionConfig
from electra_tf.config.saved_config import load_saved_config
from electra_tf.interop.model_checkpoint import LABELS, TASKS
from electra_tf.training.log import LOG_FILE
from electra_tf.util.errors import UserError
from finetune.config.finetuning import FinetuningConfig
from finetune.data.features import DataReport
from finetune.data.folds import fold_indices, stratification_labels
from finetune.task_data import TRAIN, TaskData
from finetune.tasks.base import SplitData, Task

HELD_OUT = "held_out"
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
        train_data, held_out: data of a fold, by task.
        num_examples: number of examples that determines the number of steps, for a fold.
    """

    number: int
    seed: int
    model_dir: str
    fold: int | None = None
    train_data: Mapping[str, SplitData] | None = None
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
    """Returns one run per fold, with the held-out examples as dev set."""
    (task,) = tasks
    examples = data.get(task, TRAIN).examples
    report = DataReport(task.name, TRAIN)
    runs = []
    for trial in trial_runs(config):
        folds = fold_indices(stratification_labels(examples), config.num_folds, trial.seed)
        # Folds may differ by an example; a common number of steps shares the graph.
        num_examples = min(len(train) for train, _ in folds)
        for fold, (train, held_out) in enumerate(folds, start=1):
            parts = []
            for indices, is_training in ((train, True), (held_out, False)):
                part = [examples[i] for i in indices]
                rows = task.featurize(part, is_training=is_training, report=report)
                parts.append(SplitData(TRAIN if is_training else HELD_OUT, part, rows))
            runs.append(
                dataclasses.replace(
                    trial,
                    fold=fold,
                    model_dir=f"{trial.model_dir}_fold{fold}",
                    train_data={task.name: parts[0]},
                    held_out=parts[1],
                    num_examples=num_examples,
                )
            )
    return runs


def run_hyperparameters(
    config: FinetuningConfig, trial: TrialRun, tasks: Sequence[Task], data: TaskData
) -> dict[str, Any]:
    """Returns the settings that the weights of a run depend on, with data fingerprints."""
    fingerprints = {k: v for k, v in data.fingerprints.items() if k.endswith(f"/{TRAIN}")}
    return {
        **json.loads(json.dumps(dataclasses.asdict(config))),
        "trial_seed": trial.seed,
        "fold": trial.fold,
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


def check_labels(model_dir: str, tasks: Sequence[Task]) -> None:
    """Raises UserError unless the labels of the data are those of the trained model."""
    description = load_saved_config(model_dir)
    saved = description.hyperparameters.get(LABELS, {}) if description else {}
    for name, labels in _labels(tasks).items():
        if name in saved and saved[name] != labels:
            raise UserError(
                f"The model in {model_dir} was trained on the labels {', '.join(saved[name])} "
                f"of task {name}, but the data now has {', '.join(labels)}. Restore the train "
                "file, or list the labels in the task's description"
            )


def _changed_settings(model_dir: str, hyperparameters: Mapping[str, Any]) -> list[str]:
    description = load_saved_config(model_dir)
    if description is None:
        return []
    saved = description.hyperparameters
    return [
        f"{name}: {saved.get(name)!r} there, {value!r} now"
        for name, value in hyperparameters.items()
        if name not in _NOT_OF_THE_WEIGHTS and saved.get(name) != value
    ]


def check_model_dir(
    model_dir: str, hyperparameters: Mapping[str, Any], config: FinetuningConfig
) -> None:
    """Raises UserError for a folder with a model of different settings or data."""
    changed = _changed_settings(model_dir, hyperparameters)
    if changed and not config.overwrite:
        raise UserError(
            f"{model_dir} has a model of different settings or data. Pass --overwrite to "
            "replace it, or another --model_dir. Changed:\n  " + "\n  ".join(changed)
        )
