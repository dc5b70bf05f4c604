"""Folders of fine-tuned models, and the settings and data that their `config.json` records.

A model with the same settings, data and pre-trained checkpoint is resumed; a different one is
set aside, and training starts from scratch.
"""

import dataclasses
import json
import os
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from electra_tf.config.hyperparameters import EVALUATION, TRAINING
from electra_tf.config.recorded_settings import Change, changed_settings, settings_digest
from electra_tf.config.saved_config import CONFIG_FILE, DATA, load_saved_config
from electra_tf.interop.model_checkpoint import LABELS, TASKS
from electra_tf.training.checkpoints.authors_files import (
    has_only_authors_checkpoint,
    has_own_checkpoint,
)
from electra_tf.training.checkpoints.best_checkpoint import BEST_FOLDER
from electra_tf.training.distribution.workers import Workers
from electra_tf.util.errors import UserError
from electra_tf.util.temporaries import remove_folder
from finetune.config.custom_task_fields import OWN_TASK_FILES, is_location, names_dev
from finetune.config.finetuning import FinetuningConfig
from finetune.results.provenance import PRETRAINED, files_digest
from finetune.task_data import TaskData
from finetune.tasks.base import TRAIN, Task
from finetune.trials.trial_runs import TrialRun

# Key of `config.json`: digest of the examples of a fold.
FOLD_EXAMPLES = "fold_examples"
# Key of `config.json`: by task, digest of the train file and of how it is split into train and
# dev, independent of its path.
TRAIN_FILES = "train_files"
# Suffix of the folder that a replaced model is moved to.
REPLACED = ".replaced"


def run_hyperparameters(
    config: FinetuningConfig,
    trial: TrialRun,
    tasks: Sequence[Task],
    data: TaskData,
    pretrained: str | None = None,
) -> dict[str, Any]:
    """Returns the settings that the weights of a run depend on, with data fingerprints.

    The data are the train split and, with `keep_best`, the split that selects the weights.

    Args:
        config: hyperparameters.
        trial: the trial or fold.
        tasks: tasks of the run.
        data: data of the tasks.
        pretrained: digest of the encoder that training starts from; None if unknown.
    """
    splits = {f"{task.name}/{TRAIN}" for task in tasks}
    if config.keep_best and not config.num_folds:
        splits |= {f"{task.name}/{split}" for task in tasks for split in task.dev_splits[:1]}
    fingerprints = {k: v for k, v in data.content_fingerprints.items() if k in splits}
    loaded = [task for task in tasks if f"{task.name}/{TRAIN}" in fingerprints]
    return {
        **json.loads(json.dumps(dataclasses.asdict(config))),
        "trial_seed": trial.seed,
        "fold": trial.fold,
        FOLD_EXAMPLES: trial.examples and trial.examples.digest,
        LABELS: task_labels(tasks),
        TASKS: {task.name: task.description for task in tasks},
        DATA: fingerprints,
        TRAIN_FILES: {task.name: train_digest(task) for task in loaded},
        **({PRETRAINED: pretrained} if pretrained else {}),
    }


def train_digest(task: Task) -> str:
    """Returns a digest of a task's train file, and of how it is split into train and dev."""
    config = task.config
    is_file = is_location("task_spec", config.task_spec)
    return settings_digest(
        {
            "files": files_digest(task.split_files(TRAIN)),  # includes the file of --task_spec
            "task_spec": None if is_file else config.task_spec,
            "dev_fraction": config.own_task_dev_fraction,
            "group_column": config.own_task_group_column,
        }
    )


def task_labels(tasks: Sequence[Task]) -> dict[str, list[str]]:
    """Returns the labels of tasks that have them, in the order of their ids."""
    return {
        task.name: list(labels)
        for task in tasks
        if (labels := getattr(task, "labels", None)) is not None
    }


def saved_labels(model_dir: str) -> Mapping[str, Sequence[str]]:
    """Returns the labels of a trained model, by task; empty if unknown."""
    description = load_saved_config(model_dir)
    return description.hyperparameters.get(LABELS, {}) if description else {}


def fold_follows_from_seed(trial: TrialRun) -> bool:
    """Whether the seed alone determines the examples of a fold: no selection, no groups.

    If so, a record of an older version, which lacks `FOLD_EXAMPLES`, is compared by its seed.
    """
    return trial.examples is None or not (trial.examples.by_group or trial.examples.selection)


def changes_of_model(
    trial: TrialRun,
    hyperparameters: Mapping[str, Any],
    older_fingerprints: Mapping[str, str] = types.MappingProxyType({}),
) -> list[Change]:
    """Returns the settings and data that differ from those of the model in a trial's folder.

    They include only changes that influence the weights; empty if there is no model.

    Args:
        trial: the trial or fold.
        hyperparameters: result of `run_hyperparameters`.
        older_fingerprints: fingerprints of the data as older versions recorded them; these
            also depend on the paths of files.
    """
    description = load_saved_config(trial.model_dir)
    if description is None:
        return []
    saved = dict(description.hyperparameters)
    follows = fold_follows_from_seed(trial)
    saved.setdefault(FOLD_EXAMPLES, hyperparameters[FOLD_EXAMPLES] if follows else None)
    saved[DATA] = _upgraded_data(saved.get(DATA), hyperparameters[DATA], older_fingerprints)
    changes = changed_settings(FinetuningConfig, saved, hyperparameters)
    if PRETRAINED not in saved:  # older versions recorded only the path
        path = hyperparameters["init_checkpoint"]
        recorded = saved.get("init_checkpoint", path)
        if recorded != path:
            changes.append(Change("init_checkpoint", recorded, path, TRAINING))
    # With `keep_best`, scores select the weights.
    influences = (TRAINING, EVALUATION) if hyperparameters["keep_best"] else (TRAINING,)
    return [
        change
        for change in changes
        # DATA also covers TRAIN_FILES, and the contents of files that settings name. Older
        # versions recorded `shard_by`, which has no effect in fine-tuning.
        if change.influence in influences
        and change.name not in (TASKS, TRAIN_FILES, "shard_by")
        and not _only_moves_files(change, hyperparameters)
    ]


def _upgraded_data(
    recorded: Mapping[str, str] | None,
    now: Mapping[str, str],
    older_fingerprints: Mapping[str, str],
) -> dict[str, str]:
    """Returns recorded fingerprints of data as this version would have recorded them.

    Data that older versions did not record are assumed to be unchanged: the split that
    selected the weights, or all data (None).
    """
    if recorded is None:
        return dict(now)
    dev = {name: digest for name, digest in now.items() if not name.endswith(f"/{TRAIN}")}
    unchanged = {
        name: now[name]
        for name, digest in recorded.items()
        if name in now and digest == older_fingerprints.get(name)
    }
    return {**dev, **recorded, **unchanged}


def _only_moves_files(change: Change, hyperparameters: Mapping[str, Any]) -> bool:
    """Whether only the paths of files have changed; their contents are compared elsewhere."""
    values = (change.recorded, change.given)
    if change.name == OWN_TASK_FILES and not hyperparameters["num_folds"]:
        # Without a dev file, part of train is held out.
        return names_dev(change.recorded) == names_dev(change.given)
    return all(is_location(change.name, value) for value in values)


def selection_splits(hyperparameters: Mapping[str, Any]) -> list[str]:
    """Returns the splits ("task/split") that selected the weights of a recorded run, if any.

    A fold records the digest of its examples instead.
    """
    if not hyperparameters.get("keep_best"):
        return []
    return [name for name in hyperparameters.get(DATA, {}) if not name.endswith(f"/{TRAIN}")]


def set_aside(model_dir: str) -> str:
    """Renames the folder of a model, replacing any set aside before; returns the new path.

    If the folder is a link, only the link is renamed, not its target.
    """
    folder = model_dir.rstrip("/")
    replaced = folder + REPLACED
    if os.path.islink(replaced):
        os.remove(replaced)
    remove_folder(replaced)
    os.replace(folder, replaced)
    return replaced


def saved_pretrained(model_dir: str) -> str | None:
    """Returns the digest of the encoder that a model was fine-tuned from, if recorded."""
    description = load_saved_config(model_dir)
    return description.hyperparameters.get(PRETRAINED) if description else None


def is_undescribed(model_dir: str) -> bool:
    """Returns whether there is a model, but no record of its settings and labels."""
    folders = (model_dir, os.path.join(model_dir, BEST_FOLDER))
    return load_saved_config(model_dir) is None and any(map(has_own_checkpoint, folders))


def is_of_debug_run(model_dir: str) -> bool:
    """Whether a model was trained with `--debug`."""
    description = load_saved_config(model_dir)
    return bool(description and description.hyperparameters.get("debug"))


def prepare_folder(
    trial: TrialRun,
    hyperparameters: Mapping[str, Any],
    *,
    older_fingerprints: Mapping[str, str],
    overwrite: bool,
    workers: Workers,
    print_fn: Callable[[str], None],
) -> Mapping[str, Any]:
    """Clears the folder of a trial, unless the model in it can be resumed.

    With `overwrite`, any model is removed; otherwise, a model with other settings, data or
    pre-trained weights is set aside. `--debug` replaces only models trained with `--debug`.

    Args:
        trial: the trial that is about to be trained.
        hyperparameters: result of `run_hyperparameters`.
        older_fingerprints: see `changes_of_model`.
        overwrite: whether to train from scratch in any case.
        workers: workers of the run; the chief changes the folder.
        print_fn: prints a message.

    Returns:
        The hyperparameters to record.

    Raises:
        UserError: a run with `--debug` would replace a model of another run.
    """
    folder = trial.model_dir
    if hyperparameters["debug"] and has_own_checkpoint(folder) and not is_of_debug_run(folder):
        raise UserError(
            f"--debug would replace the model in {folder}, which was trained without it: pass "
            "another --model_dir and --results_dir, or omit both to use the folders of debug "
            "mode"
        )
    changes = changes_of_model(trial, hyperparameters, older_fingerprints)
    reasons = [change.describe() for change in changes]
    if is_undescribed(folder):
        reasons.append(f"it has no {CONFIG_FILE}, which records its settings")
    if has_only_authors_checkpoint(folder):
        reasons.append("it is a checkpoint of the authors' code")
    is_unrecorded = has_own_checkpoint(folder) and saved_pretrained(folder) is None
    workers.barrier()  # until all have compared
    if workers.is_chief and overwrite:
        remove_folder(folder)
    elif workers.is_chief and reasons:
        print_fn(f"{folder} had a different model, moved to {set_aside(folder)}:")
        for reason in reasons:
            print_fn(f"  {reason}")
    workers.barrier()
    if overwrite or reasons or not is_unrecorded:
        return hyperparameters
    print_fn(
        f"{folder} does not record the weights that it was fine-tuned from (older version): "
        "assumed to be the current ones. To train it again, pass --overwrite."
    )
    return {name: value for name, value in hyperparameters.items() if name != PRETRAINED}
