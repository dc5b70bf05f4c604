"""The folders of fine-tuned models, and what their `config.json` records.

It records the settings and data that the weights depend on. A model of the same settings, data
and pre-trained checkpoint is resumed; a different one is set aside and trained anew.
"""

import dataclasses
import json
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from electra_tf.config.hyperparameters import TRAINING
from electra_tf.config.recorded_settings import Change, changed_settings
from electra_tf.config.saved_config import load_saved_config
from electra_tf.interop.formats import INIT_FLAG
from electra_tf.interop.model_checkpoint import LABELS, TASKS
from electra_tf.training.checkpoints.authors_files import (
    has_only_authors_checkpoint,
    has_own_checkpoint,
)
from electra_tf.training.distribution.workers import Workers
from electra_tf.util.console import warn_once
from electra_tf.util.errors import UserError
from finetune.config.defaults import RANDOM_INIT
from finetune.config.finetuning import FinetuningConfig
from finetune.results.provenance import OF_BOTH, PRETRAINED
from finetune.task_data import TRAIN, TaskData
from finetune.tasks.base import Task
from finetune.trials.trial_runs import TrialRun

# Key of `config.json`: digest of the examples of a fold.
FOLD_EXAMPLES = "fold_examples"
# Key of `config.json`: fingerprints of the data that the weights depend on.
DATA = "data"
# Suffix of the folder of a model that another one replaces.
REPLACED = ".replaced"


def run_hyperparameters(
    config: FinetuningConfig,
    trial: TrialRun,
    tasks: Sequence[Task],
    data: TaskData,
    pretrained: str | None = None,
) -> dict[str, Any]:
    """Returns the settings that the weights of a run depend on, with data fingerprints.

    The data are those of train and, with `keep_best`, of the split that chooses the weights.

    Args:
        config: hyperparameters.
        trial: the trial or fold.
        tasks: tasks of the run.
        data: their data.
        pretrained: digest of the encoder that the training starts from; None if unknown.
    """
    splits = {f"{task.name}/{TRAIN}" for task in tasks}
    if config.keep_best and not config.num_folds:
        splits |= {f"{task.name}/{split}" for task in tasks for split in task.dev_splits[:1]}
    fingerprints = {k: v for k, v in data.fingerprints.items() if k in splits}
    return {
        **json.loads(json.dumps(dataclasses.asdict(config))),
        "trial_seed": trial.seed,
        "fold": trial.fold,
        FOLD_EXAMPLES: trial.examples and trial.examples.digest,
        LABELS: _labels(tasks),
        TASKS: {task.name: task.description for task in tasks},
        DATA: fingerprints,
        **({PRETRAINED: pretrained} if pretrained else {}),
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
            f"The model in {trial.model_dir} was trained or selected on different examples "
            f"than those of fold {trial.fold}, so its score would not be on held-out examples: "
            "train it again with --overwrite, or restore --seed, --num_folds, --keep_best and "
            "the data"
        )


def _has_older_folds(trial: TrialRun) -> bool:
    """Whether a fold without `FOLD_EXAMPLES` follows from its seed: no selection, no groups."""
    return trial.examples is None or not (trial.examples.by_group or trial.examples.selection)


def changes_of_model(trial: TrialRun, hyperparameters: Mapping[str, Any]) -> list[Change]:
    """Returns the settings and data that differ from those of the model in a trial's folder.

    Only those that influence the weights; empty if there is no model.
    """
    description = load_saved_config(trial.model_dir)
    if description is None:
        return []
    saved = dict(description.hyperparameters)
    folds = hyperparameters[FOLD_EXAMPLES]
    saved.setdefault(FOLD_EXAMPLES, folds if _has_older_folds(trial) else None)
    # An older version did not record the split that chose the weights.
    now = hyperparameters[DATA]
    dev = {name: now[name] for name in now if not name.endswith(f"/{TRAIN}")}
    saved[DATA] = {**dev, **saved.get(DATA, now)}
    changes = changed_settings(FinetuningConfig, saved, hyperparameters)
    if PRETRAINED not in saved:  # an older version recorded the path alone
        path = hyperparameters["init_checkpoint"]
        recorded = saved.get("init_checkpoint", path)
        if recorded != path:
            changes.append(Change("init_checkpoint", recorded, path, TRAINING))
    return [
        change for change in changes if change.influence == TRAINING and change.name != TASKS
    ]


def set_aside(model_dir: str) -> str:
    """Renames the folder of a model, replacing the one set aside before; returns its path."""
    replaced = model_dir.rstrip("/") + REPLACED
    shutil.rmtree(replaced, ignore_errors=True)
    os.replace(model_dir, replaced)
    return replaced


def saved_pretrained(model_dir: str) -> str | None:
    """Returns the digest of the encoder that a model was fine-tuned from, if recorded."""
    description = load_saved_config(model_dir)
    return description.hyperparameters.get(PRETRAINED) if description else None


def check_pretrained(model_dir: str, initial_digest: str | None) -> None:
    """Raises UserError if a model was fine-tuned from another checkpoint than there is now.

    Its scores would be taken for those of the new one.

    Args:
        model_dir: folder of the model.
        initial_digest: digest of the encoder of `init_checkpoint`; None if there is none.
    """
    recorded = saved_pretrained(model_dir)
    if recorded in (None, RANDOM_INIT) or initial_digest in (None, recorded):
        return
    raise UserError(
        f"The model in {model_dir} was fine-tuned from weights other than the current ones of "
        f"{INIT_FLAG} (by default DATA_DIR/models/NAME). Fine-tune again without "
        f"--do_train=false, or evaluate this model by its name, {INIT_FLAG}={model_dir}"
    )


def warn_of_other_inputs(
    model: str, recorded: Mapping[str, Any], config: FinetuningConfig
) -> None:
    """Warns if a model is evaluated on inputs that are made otherwise than in its training.

    Args:
        model: path of the model.
        recorded: hyperparameters of its run; those of converted models are only assumed.
        config: hyperparameters of the evaluation.
    """
    if "model_name" not in recorded:
        return
    given = dataclasses.asdict(config)
    changes = [
        change.describe()
        for change in changed_settings(FinetuningConfig, recorded, given)
        if change.name in OF_BOTH and change.name != "precision"
    ]
    if changes:
        warn_once(
            f"{model} was fine-tuned on inputs that were made otherwise, so its scores and "
            f"predictions are not those of its training: {'; '.join(changes)}. Pass the flags "
            "of the training"
        )


def clear_folder(
    trial: TrialRun,
    hyperparameters: Mapping[str, Any],
    *,
    overwrite: bool,
    workers: Workers,
    print_fn: Callable[[str], None],
) -> Mapping[str, Any]:
    """Removes a model that `overwrite` replaces, and sets one of other settings aside.

    Args:
        trial: the trial that is about to be trained.
        hyperparameters: of `run_hyperparameters`.
        overwrite: whether to train from scratch in any case.
        workers: workers of the run; the chief changes the folder.
        print_fn: prints a message.

    Returns:
        The hyperparameters to record.
    """
    folder = trial.model_dir
    reasons = [change.describe() for change in changes_of_model(trial, hyperparameters)]
    if has_only_authors_checkpoint(folder):
        reasons.append("it is a checkpoint of the authors' code")
    is_unrecorded = has_own_checkpoint(folder) and saved_pretrained(folder) is None
    workers.barrier()  # all have compared
    if workers.is_chief and overwrite:
        shutil.rmtree(folder, ignore_errors=True)
    elif workers.is_chief and reasons:
        print_fn(f"{folder} had a different model, moved to {set_aside(folder)}:")
        for reason in reasons:
            print_fn(f"  {reason}")
    workers.barrier()
    if overwrite or reasons or not is_unrecorded:
        return hyperparameters
    print_fn(
        f"{folder} does not record the weights that it was fine-tuned from (older version): "
        "the current ones are assumed. --overwrite trains it again."
    )
    return {name: value for name, value in hyperparameters.items() if name != PRETRAINED}
