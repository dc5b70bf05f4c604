"""Checks that an existing fine-tuned model fits the data and settings of an evaluation.

Its labels, label ranges and pre-trained weights must agree with the current data and settings,
and it must not have been trained on held-out examples.
"""

import dataclasses
import json
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from electra_tf.config.hyperparameters import TRAINING
from electra_tf.config.recorded_settings import Change, changed_settings, influences
from electra_tf.config.saved_config import CONFIG_FILE, load_saved_config
from electra_tf.interop.formats import INIT_FLAG, saved_hyperparameters
from electra_tf.interop.model_checkpoint import LABELS, TASKS
from electra_tf.text.vocabulary import plain_vocabulary
from electra_tf.training.checkpoints.authors_files import has_only_authors_checkpoint
from electra_tf.training.checkpoints.checkpoint_files import newest_whole
from electra_tf.util.console import warn_once
from electra_tf.util.errors import UserError
from finetune.config.custom_task_fields import (
    OWN_TASK_COLUMNS,
    OWN_TASK_FILES,
    names_dev,
    without_ids,
)
from finetune.config.defaults import RANDOM_INIT
from finetune.config.finetuning import FinetuningConfig
from finetune.config.task_kinds import MULTIPLE_CHOICE
from finetune.results.provenance import (
    PRETRAINED,
    TRAINING_AND_EVALUATION,
    scored_settings_digest,
    tokenization,
)
from finetune.tasks.base import TRAIN, Task
from finetune.trials.model_folders import (
    FOLD_EXAMPLES,
    TRAIN_FILES,
    fold_follows_from_seed,
    is_undescribed,
    saved_labels,
    saved_pretrained,
    task_labels,
    train_digest,
)
from finetune.trials.trial_runs import TrialRun

# Hyperparameter that converted models lack.
_MODEL_NAME = "model_name"
# Keys of the description of a regression.
_RANGE = ("min_label", "max_label")
# Range of converted models that do not record one.
_ASSUMED_RANGE = [0.0, 1.0]


def check_models(
    trials: Sequence[TrialRun], tasks: Sequence[Task], initial_digest: str | None
) -> None:
    """Raises UserError unless the models of all trials exist and can be evaluated.

    All trials are checked before the first results replace earlier ones. Labels of the authors'
    checkpoints are checked when they are loaded.

    Args:
        trials: trials or folds of an evaluation without training.
        tasks: tasks of the evaluation.
        initial_digest: digest of the encoder of `init_checkpoint`; None if there is none.
    """
    for trial in trials:
        model_dir = trial.model_dir
        if has_only_authors_checkpoint(model_dir):
            continue
        check_described(model_dir)
        if newest_whole(model_dir) is None:
            raise UserError(
                f"There is no fine-tuned model in {model_dir}, of {trial.title.lower()}: train "
                "first, or change --num_trials, --model_dir, --model_name or --task_names"
            )
        check_pretrained(model_dir, initial_digest)
        check_labels(model_dir, saved_labels(model_dir), tasks)
        recorded = load_saved_config(model_dir).hyperparameters
        check_descriptions(model_dir, recorded, tasks)
        check_ranges(model_dir, recorded, tasks)
        check_fold(trial)


def check_alike(config: FinetuningConfig, models: Mapping[str, str]) -> None:
    """Raises UserError if models of trials differ in more than their seeds.

    Their results are aggregated, and the first results replace those of earlier runs.

    Args:
        config: hyperparameters of the evaluation.
        models: paths of the models, of any format, by the title of their trial.
    """
    given = dataclasses.asdict(config)
    first: tuple[str, Mapping[str, Any]] | None = None
    for title, model in models.items():
        recorded = saved_hyperparameters(model, needs_vocabulary=False)
        title_before, before = first = first or (title, recorded)
        digests = [scored_settings_digest(given, each) for each in (before, recorded)]
        pretrained = {each.get(PRETRAINED) for each in (before, recorded)} - {None}
        if digests[0] == digests[1] and len(pretrained) < 2:
            continue
        known = influences(FinetuningConfig)
        changes = [
            change.describe()
            # A setting that one of them does not record is assumed to be as given now.
            for change in changed_settings(
                FinetuningConfig, {**given, **before}, {**given, **recorded}
            )
            if known.get(change.name) == TRAINING
        ]
        if len(pretrained) > 1:
            changes.append("the pre-trained checkpoint")
        raise UserError(
            f"The models of {title_before.lower()} (before) and {title.lower()} (now) were "
            f"trained differently, so their results cannot be aggregated: {'; '.join(changes)}"
            ". Fine-tune again, or reduce --num_trials"
        )


def with_trained_seed(trial: TrialRun, model: str) -> TrialRun:
    """Returns a trial with the seed that its model was trained with, if that is recorded.

    Args:
        trial: the trial or fold, with the seed that it would be trained with now.
        model: path of the model, of any format.
    """
    recorded = saved_hyperparameters(model, needs_vocabulary=False)
    return dataclasses.replace(trial, seed=recorded.get("trial_seed", trial.seed))


def warn_of_trained_examples(
    model: str, recorded: Mapping[str, Any], tasks: Sequence[Task], num_folds: int | None
) -> None:
    """Warns if held-out examples of a train file may be ones that a model was trained on.

    Args:
        model: path of the model.
        recorded: hyperparameters of its run; older versions do not record the files.
        tasks: tasks of the evaluation.
        num_folds: number of folds; None without cross-validation.
    """
    for task in tasks:
        files = task.split_files(TRAIN)
        is_held_out = any(task.split_files(split) == files for split in task.dev_splits)
        saved = recorded.get(TRAIN_FILES, {}).get(task.name)
        is_other = saved not in (None, train_digest(task))
        # With a dev file, the model was trained on all of train.
        is_other |= is_held_out and names_dev(recorded.get(OWN_TASK_FILES))
        if (num_folds or is_held_out) and is_other:
            warn_once(
                f"{model} was trained on other files or settings of task {task.name} "
                f"({', '.join(files)}), so it may have seen examples that are held out now, "
                "and its scores may be too high: restore them, or train again"
            )


def check_labels(model: str, saved: Mapping[str, Sequence[str]], tasks: Sequence[Task]) -> None:
    """Raises UserError unless the data has the labels of the trained model.

    Multiple choice is not checked: labels name the choices, which do not shape the model.
    """
    with_outputs = [task for task in tasks if task.kind is not MULTIPLE_CHOICE]
    for name, labels in task_labels(with_outputs).items():
        if saved.get(name) and list(saved[name]) != labels:
            raise UserError(
                f"The model in {model} was trained on the labels {', '.join(saved[name])} "
                f"of task {name}, but the data now has {', '.join(labels)}. Restore the train "
                "file, or list the labels in the task's description"
            )


def check_descriptions(model: str, recorded: Mapping[str, Any], tasks: Sequence[Task]) -> None:
    """Raises UserError unless tasks have the kinds and inputs that a model was trained with.

    For example, a task may have changed from single texts to pairs. Labels and ranges have
    their own checks.

    Args:
        model: path of the model.
        recorded: hyperparameters of its run; those of converted models are only assumed.
        tasks: tasks of the evaluation.
    """
    if _MODEL_NAME not in recorded:
        return
    for task in tasks:
        saved, now = recorded.get(TASKS, {}).get(task.name, {}), task.description
        for key in now.keys() & saved.keys() - {LABELS, *_RANGE}:
            if saved[key] != now[key]:
                raise UserError(
                    f"The model in {model} was trained on task {task.name} with {key} "
                    f"{json.dumps(saved[key])}, but its description now has {key} "
                    f"{json.dumps(now[key])}: pass the description, or the flags, of the "
                    "training"
                )


def check_ranges(model: str, recorded: Mapping[str, Any], tasks: Sequence[Task]) -> None:
    """Raises UserError unless the labels of a regression have the same range as in training.

    The head predicts fractions of that range.

    Args:
        model: path of the model.
        recorded: hyperparameters of its run; of converted models, the range may be assumed.
        tasks: tasks of the evaluation.
    """
    for task in tasks:
        saved, now = recorded.get(TASKS, {}).get(task.name, {}), task.description
        before, after = ([each.get(name) for name in _RANGE] for each in (saved, now))
        is_assumed = _MODEL_NAME not in recorded and before == _ASSUMED_RANGE
        if before != after and None not in before and not is_assumed:
            raise UserError(
                f"The model in {model} was trained on labels of task {task.name} from "
                f"{before[0]} to {before[1]}, but the data now has labels from {after[0]} to "
                f"{after[1]}. Restore the train file, or give the range as min_label and "
                "max_label in the task's description"
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
        is_same = fold_follows_from_seed(trial) and saved.get("trial_seed") == trial.seed
    if not is_same:
        raise UserError(
            f"The model in {trial.model_dir} was trained or selected on different examples "
            f"than those of fold {trial.fold}, so its score would not be on held-out examples: "
            "train it again with --overwrite, or restore --seed, --num_folds, --keep_best and "
            "the data"
        )


def check_described(model_dir: str) -> None:
    """Raises UserError if there is a model, but no record of its settings and labels."""
    if is_undescribed(model_dir):
        raise UserError(
            f"{model_dir} has checkpoints but no {CONFIG_FILE}, which records their settings "
            "and labels: restore it from a copy, or train again"
        )


def check_pretrained(model_dir: str, initial_digest: str | None) -> None:
    """Raises UserError if a model was not fine-tuned from the current `init_checkpoint`.

    Otherwise its scores would be attributed to that checkpoint.

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
    """Warns if a model is evaluated on inputs prepared differently than in training.

    Args:
        model: path of the model.
        recorded: hyperparameters of its run; those of converted models are only assumed.
        config: hyperparameters of the evaluation.
    """
    if _MODEL_NAME not in recorded:
        return
    given = dataclasses.asdict(config)
    counts = {*TRAINING_AND_EVALUATION, *tokenization(given)} - {"precision"}
    changes = [
        change.describe()
        for change in changed_settings(FinetuningConfig, recorded, given)
        if change.name in counts
    ]
    vocabularies = [_tokens(each.get("vocab_file", "")) for each in (recorded, given)]
    if None not in vocabularies and vocabularies[0] != vocabularies[1]:
        changes.append(f"vocab_file: {config.vocab_file} has other tokens")
    columns = [values.get(OWN_TASK_COLUMNS) for values in (recorded, given)]
    is_same_file = recorded.get(OWN_TASK_FILES) == config.own_task_files
    if is_same_file and all(columns) and without_ids(columns[0]) != without_ids(columns[1]):
        changes.append(Change(OWN_TASK_COLUMNS, *columns, TRAINING).describe())
    if changes:
        warn_once(
            f"{model} was fine-tuned on inputs that were prepared differently, so its scores "
            f"and predictions are not those of its training: {'; '.join(changes)}. Pass the "
            "flags of the training"
        )


def _tokens(vocab_file: str) -> bytes | None:
    """Returns the tokens of a vocabulary, one per line; None if it cannot be read."""
    try:
        return plain_vocabulary(pathlib.Path(vocab_file).read_bytes())
    except (OSError, UnicodeDecodeError):
        return None
