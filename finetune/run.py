"""A fine-tuning run: data, trials or folds, results and predictions."""

import contextlib
import dataclasses
import math
import os
import shutil
from collections.abc import Callable, Mapping, Sequence

from electra_tf.flops.counting import finetuning_flops_per_step
from electra_tf.text.cached_tokenizer import CachedTokenizer
from electra_tf.text.vocabulary import load_vocabulary
from electra_tf.training.authors_files import has_only_authors_checkpoint
from electra_tf.training.checkpoints import lock_model_dir
from electra_tf.training.distribution.context import (
    TRAIN_BATCH_SIZE,
    DistributionContext,
    describe_devices,
    open_context,
)
from electra_tf.util.console import discard
from electra_tf.util.errors import UserError
from finetune.config.finetuning import FinetuningConfig
from finetune.predictions import predict_file, write_test_outputs
from finetune.results.confusion import plot_confusion
from finetune.results.result_files import format_summary
from finetune.results.run_files import write_run_files
from finetune.results.summary import DEGENERATE, DIVERGED, OK, TrialResult
from finetune.task_data import TRAIN, TaskData
from finetune.tasks.base import PREDICT, Scores, SplitData, Task
from finetune.tasks.registry import build_tasks
from finetune.trainer import DivergedError, Trainer, find_checkpoint
from finetune.trials import (
    TrialRun,
    check_fold,
    check_labels,
    check_model_dir,
    fold_runs,
    run_hyperparameters,
    saved_labels,
    trial_runs,
    write_folds,
)

PrintFn = Callable[[str], None]


def run(config: FinetuningConfig, print_fn: PrintFn = print) -> list[TrialResult]:
    """Fine-tunes, evaluates and predicts, as configured.

    Returns:
        The result of each trial, or of each fold of each trial.

    Raises:
        UserError: the input is invalid, or another program trains into the folder; nothing
            has been trained or overwritten.
        PreemptedError: the run was preempted, and can be resumed.
        WorkerLostError: another worker has failed.
    """
    divided = [TRAIN_BATCH_SIZE] if config.do_train else []
    with open_context(config, divided) as context:
        return _run(config, context, print_fn if context.workers.is_chief else discard)


def _run(
    config: FinetuningConfig, context: DistributionContext, print_fn: PrintFn
) -> list[TrialResult]:
    vocabulary = load_vocabulary(config.vocab_file, "--vocab_file")
    if vocabulary.size != config.vocab_size:
        raise UserError(
            f"--vocab_size is {config.vocab_size}, but {config.vocab_file} has "
            f"{vocabulary.size} entries"
        )
    tokenizer = CachedTokenizer(vocabulary, config.do_lower_case, config.strip_accents)
    tasks = build_tasks(config, tokenizer)
    if config.do_train:
        find_checkpoint(config)
    data = TaskData(config, print_fn, writes=context.workers.is_chief)
    runs = fold_runs(config, tasks, data) if config.num_folds else trial_runs(config)
    train_data: dict[str, SplitData] = {}
    if config.do_train and not config.num_folds:
        train_data = {task.name: data.get(task, TRAIN, is_training=True) for task in tasks}
    if not config.num_folds and (config.do_eval or config.keep_best):
        for task in tasks:
            for split in task.dev_splits:
                data.get(task, split)
    _check_predictable(config, tasks, data)
    if config.do_train:
        for trial in runs:
            check_model_dir(trial, run_hyperparameters(config, trial, tasks, data), config)
    trainer = Trainer(config, tasks, context, print_fn)
    describe_run(config, trainer, tasks, context, print_fn)
    results: list[TrialResult] = []
    with contextlib.ExitStack() as stack:
        if config.do_train:
            stack.enter_context(
                lock_model_dir(config.model_dir, "--model_dir", context.workers)
            )
        for trial in runs:
            print_fn(f"\n{trial.title}, seed {trial.seed}")
            session = TrialSession(config, trainer, tasks, data, trial, print_fn)
            results.append(session.run(trial.train_data or train_data))
            if not trainer.is_chief:
                continue
            is_last = trial is runs[-1]
            print_last = print_fn if is_last else discard
            _write_results(config, runs[: len(results)], results, print_last)
            if not config.keep_all_models and not is_last:
                shutil.rmtree(trial.model_dir, ignore_errors=True)
    if config.do_predict:
        if not config.evaluated_checkpoint:  # it is still loaded
            _restore_best(trainer, runs, results)
        print_fn(f"Predictions: {predict_file(config, trainer, tasks[0], data)}")
    return results


def _restore_best(
    trainer: Trainer, runs: Sequence[TrialRun], results: Sequence[TrialResult]
) -> None:
    """Loads the model of the trial with the best dev score, of the saved ones."""

    def value(pair: tuple[TrialRun, TrialResult]) -> float:
        key = next(iter(pair[1].metrics), None)
        main = pair[1].metrics[key][pair[1].main[key]] if key else 0.0
        return main if math.isfinite(main) else -math.inf

    there = [
        (trial, result)
        for trial, result in zip(runs, results, strict=True)
        if result.finished and os.path.isdir(trial.model_dir)
    ]
    if not there:
        raise UserError("--do_predict: no trial finished, so there is no model to predict with")
    trainer.restore(max(there, key=value)[0].model_dir)


def _check_predictable(config: FinetuningConfig, tasks: Sequence[Task], data: TaskData) -> None:
    """Loads the data to predict, so a missing file is reported before training."""
    if config.write_test_outputs:
        for task in tasks:
            for split in task.test_splits:
                data.get(task, split, labeled=False)
    if config.do_predict:
        data.get(tasks[0], PREDICT, labeled=False)


class TrialSession:
    """One trial, from initialization to its scores."""

    def __init__(
        self,
        config: FinetuningConfig,
        trainer: Trainer,
        tasks: Sequence[Task],
        data: TaskData,
        trial: TrialRun,
        print_fn: PrintFn,
    ) -> None:
        self._config = config
        self._trainer = trainer
        self._tasks = tasks
        self._data = data
        self._trial = trial
        self._print = print_fn

    def run(self, train_data: Mapping[str, SplitData]) -> TrialResult:
        config, trial = self._config, self._trial
        result = TrialResult(
            trial=trial.number, seed=trial.seed, fold=trial.fold, examples=trial.counts()
        )
        if config.do_train:
            try:
                result = self._train(train_data, result)
            except DivergedError as error:
                self._print(f"{trial.title} diverged: {error}")
                return dataclasses.replace(result, status=DIVERGED, reason=str(error))
        elif path := self._finetuned_elsewhere():
            check_labels(path, self._trainer.load_finetuned(path), self._tasks)
        else:
            check_labels(trial.model_dir, saved_labels(trial.model_dir), self._tasks)
            check_fold(trial)
            self._trainer.restore(trial.model_dir)
        if config.do_eval:
            result = self._evaluate(result)
        if config.write_test_outputs and trial.number <= config.n_writes_test:
            for path in write_test_outputs(
                config, self._trainer, self._tasks, self._data, trial.number
            ):
                self._print(f"Test outputs: {path}")
        return result

    def _finetuned_elsewhere(self) -> str | None:
        """Returns the model to evaluate that is not this project's own model of the trial."""
        own = self._trial.model_dir
        authors = own if has_only_authors_checkpoint(own) else None
        return self._config.evaluated_checkpoint or authors

    def _train(self, train_data: Mapping[str, SplitData], result: TrialResult) -> TrialResult:
        config, trial = self._config, self._trial
        hyperparameters = run_hyperparameters(config, trial, self._tasks, self._data)
        if config.overwrite and self._trainer.is_chief:
            shutil.rmtree(trial.model_dir, ignore_errors=True)
        self._trainer.start(trial.seed)
        num_rows = sum(len(part.rows) for part in train_data.values())
        num_examples = trial.num_examples or num_rows
        steps_per_epoch = num_examples / config.train_batch_size
        evaluates = config.do_eval or config.keep_best
        trained = self._trainer.train(
            train_data,
            num_train_steps=max(1, int(steps_per_epoch * config.num_train_epochs)),
            seed=trial.seed,
            model_dir=trial.model_dir,
            evaluate=self._selecting_value if evaluates else None,
            eval_steps=config.eval_steps or max(1, round(steps_per_epoch)),
            hyperparameters=hyperparameters,
        )
        return dataclasses.replace(
            result,
            steps=trained.steps,
            best_step=trained.best_step,
            chosen_on=self._chosen_on() if config.keep_best else [],
            seconds=trained.seconds,
        )

    def _splits(self, task: Task) -> list[SplitData]:
        if self._trial.held_out is not None:
            return [self._trial.held_out]
        return [self._data.get(task, split) for split in task.dev_splits]

    def _selecting_split(self, task: Task) -> SplitData:
        """Returns the data that chooses the weights; without `keep_best`, it is only logged."""
        return self._trial.selection or self._splits(task)[0]

    def _chosen_on(self) -> list[str]:
        return [f"{task.name}/{self._selecting_split(task).split}" for task in self._tasks]

    def _selecting_value(self) -> tuple[float, dict[str, float]]:
        """Returns the mean of the main metrics of all tasks, and all metrics."""
        values: dict[str, float] = {}
        mains = []
        for task in self._tasks:
            scores = self._trainer.evaluate(task, self._selecting_split(task))
            mains.append(scores.main_value if math.isfinite(scores.main_value) else -math.inf)
            values |= {f"{task.name}_{name}": v for name, v in scores.metrics.items()}
        return sum(mains) / len(mains), values

    def _evaluate(self, result: TrialResult) -> TrialResult:
        metrics, main, problems = {}, {}, []
        for task in self._tasks:
            for i, split in enumerate(self._splits(task)):
                outputs = self._trainer.predict(task, split)
                scores = task.score(split, outputs)
                key = f"{task.name}/{split.split}"
                metrics[key], main[key] = dict(scores.metrics), scores.main
                self._print(f"{key}: {_format_scores(scores)}")
                problem = task.degenerate(split, outputs) if i == 0 else None
                if problem:
                    problems.append(f"{task.name}: {problem}")
                if not self._trainer.is_chief:
                    continue
                self._plot_confusion(task, split, scores)
                task.write_dev_answers(
                    self._config.results_dir, split, outputs, self._trial.file_label
                )
        return dataclasses.replace(
            result,
            status=DEGENERATE if problems else OK,
            reason="; ".join(problems) or None,
            metrics=metrics,
            main=main,
        )

    def _plot_confusion(self, task: Task, split: SplitData, scores: Scores) -> None:
        if scores.confusion is None:
            return
        name = f"{task.name}_{split.split}_{self._trial.file_label}_confusion.png"
        plot_confusion(
            os.path.join(self._config.results_dir, name),
            scores.confusion,
            scores.labels,
            f"{task.name} {split.split}, {self._trial.title.lower()}",
        )


def _format_scores(scores: Scores) -> str:
    return "  ".join(f"{name} {value:.4g}" for name, value in scores.metrics.items())


def _write_results(
    config: FinetuningConfig,
    trials: Sequence[TrialRun],
    results: Sequence[TrialResult],
    print_fn: PrintFn,
) -> None:
    """Writes the results and learning curves of the trials so far."""
    if not config.do_eval:
        return
    records = [record for trial in trials for record in trial.log_records()]
    paths = write_run_files(config, results, records)
    if config.num_folds:
        paths.append(write_folds(config, trials))
    print_fn("")
    for line in format_summary(results):
        print_fn(line)
    for path in paths:
        print_fn(f"Results: {path}")


def describe_run(
    config: FinetuningConfig,
    trainer: Trainer,
    tasks: Sequence[Task],
    context: DistributionContext,
    print_fn: PrintFn,
) -> None:
    encoder = trainer.model.encoder_config
    print_fn(
        f"Model:   {encoder.num_hidden_layers} layers, {encoder.hidden_size} hidden, "
        f"{trainer.model.electra.count_params():,} parameters in the encoder, "
        f"{trainer.model.count_params():,} trained, {config.precision}"
    )
    for line in describe_devices(
        config,
        context.strategy,
        context.workers,
        config.train_batch_size,
        config.precision,
        finetuning_flops_per_step(
            config.encoder, batch_size=config.train_batch_size, seq_length=trainer.buckets[-1]
        ),
    ):
        print_fn(line)
    print_fn(f"Tasks:   {', '.join(task.name for task in tasks)}")
    lengths = ", ".join(map(str, trainer.buckets))
    print_fn(f"Batches: padded to {lengths} tokens")
