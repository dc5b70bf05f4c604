"""Loads and checks the inputs of a fine-tuning run, before a model is built."""

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from electra_tf.config.recorded_settings import settings_digest
from electra_tf.text.cached_tokenizer import CachedTokenizer
from electra_tf.text.vocabulary import load_model_vocabulary
from electra_tf.training.distribution.context import DistributionContext
from electra_tf.util.errors import UserError
from finetune.config.custom_task_fields import reading_settings
from finetune.config.finetuning import FinetuningConfig
from finetune.data.suspicious import (
    describe_contradictions,
    describe_repeated,
    join_windows,
    warn_of_long_rows,
    warn_of_lost_segments,
    warn_of_single_label,
    warn_of_unknown_rows,
)
from finetune.ensemble import check_averages
from finetune.initialization import (
    check_not_own_model,
    find_checkpoint,
    pretrained_positions,
)
from finetune.prediction_files import (
    check_not_task_files,
    check_outputs,
)
from finetune.results.provenance import files_digest
from finetune.task_data import TaskData
from finetune.tasks.base import PREDICT, TRAIN, SplitData, Task
from finetune.tasks.registry import build_tasks
from finetune.trials.trial_runs import TrialRun, fold_runs, trial_runs


class RunInputs(NamedTuple):
    """The inputs of a run.

    Attributes:
        tasks: tasks of the run.
        data: data of the tasks.
        runs: trials or folds.
        train_data: the train split of each task, by name; empty for folds, each of
            which has its own.
        task_files: result of `task_files_digest`.
    """

    tasks: list[Task]
    data: TaskData
    runs: Iterable[TrialRun]
    train_data: Mapping[str, SplitData]
    task_files: str


def load_inputs(
    config: FinetuningConfig, context: DistributionContext, print_fn: Callable[[str], None]
) -> RunInputs:
    """Loads and checks all inputs of a run, without building a model.

    Raises:
        UserError: an input is invalid, or an output cannot be written.
    """
    if context.workers.is_chief:
        check_outputs(config)
    tasks = find_tasks(config)
    if context.workers.is_chief:
        check_not_task_files(config, tasks)
    data = TaskData(config, print_fn, writes=context.workers.is_chief)
    runs, train_data = load_data(config, tasks, data)
    _check_predictable(config, tasks, data)
    check_averages(config, tasks)
    if context.workers.is_chief:
        _warn_of_suspicious_data(config, tasks, data, train_data, runs, print_fn)
    context.workers.require_equal(
        {
            "data": dict(sorted(data.fingerprints.items())),
            "vocabulary": vocabulary_digest(tasks),
        }
    )
    return RunInputs(tasks, data, runs, train_data, task_files_digest(config, tasks))


def find_tasks(config: FinetuningConfig) -> list[Task]:
    """Returns the tasks of a run, and checks its vocabulary and checkpoint.

    Raises:
        UserError: the vocabulary, a task, a label or the checkpoint is missing or invalid.
    """
    vocabulary = load_model_vocabulary(config.vocab_file, config.vocab_size, "--vocab_file")
    tokenizer = CachedTokenizer(vocabulary, config.do_lower_case, config.strip_accents)
    tasks = build_tasks(config, tokenizer)
    if config.do_train:
        find_checkpoint(config)
        check_not_own_model(config)
    return tasks


def load_data(
    config: FinetuningConfig, tasks: Sequence[Task], data: TaskData
) -> tuple[Iterable[TrialRun], dict[str, SplitData]]:
    """Loads the training and dev data of a run.

    Returns:
        The trials or folds, and the training data by task (none for folds).

    Raises:
        UserError: the data are malformed, or too few for the folds.
    """
    if config.num_folds:
        return fold_runs(config, tasks, data), {}
    train_data: dict[str, SplitData] = {}
    if config.do_train:
        train_data = {task.name: data.get(task, TRAIN, is_training=True) for task in tasks}
    if config.do_eval or config.keep_best:
        for task in tasks:
            for split in task.dev_splits:
                data.get(task, split)
    return trial_runs(config), train_data


def _check_predictable(config: FinetuningConfig, tasks: Sequence[Task], data: TaskData) -> None:
    """Loads the data to predict, so a missing file is reported before training."""
    if config.write_test_outputs:
        if not any(task.test_splits for task in tasks):
            raise UserError(
                f"--write_test_outputs: {', '.join(task.name for task in tasks)} has no test "
                "split; add one to the files of the task, or omit the flag"
            )
        for task in tasks:
            for split in task.test_splits:
                try:
                    data.get(task, split, labeled=False)
                except UserError as error:
                    raise UserError(f"--write_test_outputs: {error}") from error
    if config.do_predict:
        data.get(tasks[0], PREDICT, labeled=False)


def _warn_of_suspicious_data(
    config: FinetuningConfig,
    tasks: Sequence[Task],
    data: TaskData,
    train_data: Mapping[str, SplitData],
    runs: Iterable[TrialRun],
    print_fn: Callable[[str], None],
) -> None:
    """Warns of rows and labels that make scores misleading: see `finetune.data.suspicious`."""
    pretrained = pretrained_positions(config) if config.do_train else None
    for task in tasks:
        trained = train_data.get(task.name)
        parts = {TRAIN: trained} if trained else {}
        if config.num_folds:
            parts[TRAIN] = data.get(task, TRAIN)
        elif config.do_eval:
            parts |= {split: data.get(task, split) for split in task.dev_splits}
        for split, part in parts.items():
            name = f"{task.name} {split}"
            warn_of_unknown_rows(name, part.rows, task.tokenizer.vocabulary)
            warn_of_lost_segments(name, part.rows, config.encoder.type_vocab_size)
            if pretrained is not None and split == TRAIN:
                checkpoint = config.init_checkpoint
                warn_of_long_rows(name, part.rows, pretrained, checkpoint)
            texts = join_windows(part.rows, f"{task.name}_eid")
            describe_contradictions(name, texts, f"{task.name}_label_ids", print_fn)
            if split != TRAIN:
                warn_of_single_label(name, task.single_label(part), len(part.examples))
            if trained and split != TRAIN:
                seen = join_windows(trained.rows, f"{task.name}_eid")
                describe_repeated(name, texts, seen, print_fn)
    if config.num_folds:
        for run in runs:
            if run.number == 1:
                (train,) = run.train_data.values()
                name = f"{tasks[0].name} fold {run.fold}"
                index = f"{tasks[0].name}_eid"
                held_out, seen = (join_windows(x.rows, index) for x in (run.held_out, train))
                describe_repeated(name, held_out, seen, print_fn)
                for part in filter(None, (run.selection, run.held_out)):
                    label = tasks[0].single_label(part)
                    warn_of_single_label(f"{name} {part.split}", label, len(part.examples))


def task_files_digest(config: FinetuningConfig, tasks: Sequence[Task]) -> str:
    """Returns a digest of a run's train and dev files, and of the settings for reading them."""
    files = files_digest(
        path
        for task in tasks
        for split in (TRAIN, *(() if config.num_folds else task.dev_splits))
        for path in task.split_files(split)
    )
    reading = reading_settings(dataclasses.asdict(config))
    return settings_digest({"files": files, **reading}) if reading else files


def vocabulary_digest(tasks: Sequence[Task]) -> str:
    """Returns the SHA-256 of the vocabulary, which all tasks of a run share."""
    return tasks[0].tokenizer.vocabulary.sha256
