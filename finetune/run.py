"""A fine-tuning run: data, trials or folds, results and predictions."""

import contextlib
import dataclasses
import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from electra_tf.config.recorded_settings import settings_digest
from electra_tf.flops.counting import finetuning_flops_per_step
from electra_tf.text.cached_tokenizer import CachedTokenizer
from electra_tf.text.vocabulary import load_model_vocabulary
from electra_tf.training.checkpoints.authors_files import has_own_checkpoint
from electra_tf.training.checkpoints.folder_lock import lock_model_dir
from electra_tf.training.distribution.context import (
    TRAIN_BATCH_SIZE,
    DistributionContext,
    describe_devices,
    open_context,
)
from electra_tf.training.distribution.cores import limit_operation_threads
from electra_tf.training.monitoring.trackers import check_trackers
from electra_tf.training.starts import limited_starts
from electra_tf.util.console import discard, warn_once
from electra_tf.util.errors import UserError
from electra_tf.util.files import remove_files
from electra_tf.util.temporaries import remove_folder
from finetune.config.custom_task_fields import reading_settings
from finetune.config.defaults import RANDOM_INIT
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
from finetune.ensemble import (
    Ensemble,
    ScoredTrial,
    check_averages,
    make_ensemble,
    rank_trials,
)
from finetune.initialization import (
    check_not_own_model,
    find_checkpoint,
    pretrained_positions,
)
from finetune.prediction_files import (
    ENSEMBLE,
    check_not_task_files,
    check_outputs,
    predict_file,
    warn_of_older_predictions,
    write_test_outputs,
)
from finetune.results.ensemble_scores import ensemble_file
from finetune.results.provenance import (
    Provenance,
    common_provenance,
    files_digest,
    scored_settings_digest,
)
from finetune.results.result_files import finished_trials, json_path, read_results
from finetune.results.result_text import format_summary
from finetune.results.run_files import write_run_files
from finetune.results.summary import TrialResult
from finetune.task_data import TaskData
from finetune.tasks.base import PREDICT, TRAIN, SplitData, Task
from finetune.tasks.registry import build_tasks
from finetune.trainer import Trainer
from finetune.trials.evaluation_checks import check_models, with_trained_seed
from finetune.trials.trial_runs import TrialRun, fold_runs, folds_file, trial_runs, write_folds
from finetune.trials.trial_session import TrialSession

PrintFn = Callable[[str], None]
_LABELS_SHOWN = 10


def run(config: FinetuningConfig, print_fn: PrintFn = print) -> list[TrialResult]:
    """Fine-tunes, evaluates and predicts, as configured.

    The seeds of the trials become those of Python, NumPy and TensorFlow.

    Returns:
        The result of each trial, or of each fold of each trial.

    Raises:
        UserError: the input is invalid, or another program trains into the folder; nothing
            has been trained or overwritten.
        PreemptedError: the run was preempted, and can be resumed.
        WorkerLostError: another worker has failed.
    """
    check_trackers(config.wandb, config.mlflow)
    divided, hidden_size, start = [], None, contextlib.nullcontext()
    if config.do_train:
        divided, hidden_size = [TRAIN_BATCH_SIZE], config.encoder.hidden_size
        start = limited_starts(config)
    elif config.limits_operation_threads:
        limit_operation_threads()
    with start, open_context(config, divided, hidden_size) as context:
        return _run(config, context, print_fn if context.workers.is_chief else discard)


def require_finished(results: Sequence[TrialResult]) -> None:
    """Raises UserError if there are trials, but none has finished."""
    if results and not any(result.finished for result in results):
        reasons = "; ".join(dict.fromkeys(result.reason or "diverged" for result in results))
        raise UserError(
            f"No trial has finished: {reasons}. Reduce --learning_rate, increase "
            "--warmup_proportion, or pass --on_nonfinite=skip, which omits such updates"
        )


def _run(
    config: FinetuningConfig, context: DistributionContext, print_fn: PrintFn
) -> list[TrialResult]:
    tasks, data, runs, train_data = _load_checked(config, context, print_fn)
    task_files = _files_digest(config, tasks)
    trainer = Trainer(config, tasks, context, print_fn)
    describe_run(config, trainer, tasks, context, print_fn)
    if not config.do_train:
        runs = _runs_of_models(config, runs, tasks, trainer)
    lock = contextlib.nullcontext()
    if config.do_train:
        lock = lock_model_dir(config.model_dir, "--model_dir", context.workers)
    with lock:
        done, results = _run_trials(
            config, trainer, tasks, data, runs, train_data, task_files, print_fn
        )
    _predict(config, trainer, tasks, data, done, results, print_fn)
    return results


def _load_checked(
    config: FinetuningConfig, context: DistributionContext, print_fn: PrintFn
) -> tuple[list[Task], TaskData, Iterable[TrialRun], dict[str, SplitData]]:
    """Loads all that a run reads, which may fail, before a model is built.

    Returns:
        The tasks, their data, and what `load_data` returns.

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
            "vocabulary": _vocabulary_digest(tasks),
        }
    )
    return tasks, data, runs, train_data


def _runs_of_models(
    config: FinetuningConfig, runs: Iterable[TrialRun], tasks: Sequence[Task], trainer: Trainer
) -> list[TrialRun]:
    """Returns the trials to evaluate, with the seeds that their models were trained with."""
    runs, given = [*runs], config.evaluated_checkpoint
    if given is None:
        check_models(runs, tasks, trainer.initial_digest)
    return [with_trained_seed(run, given or run.model_dir) for run in runs]


def _run_trials(
    config: FinetuningConfig,
    trainer: Trainer,
    tasks: Sequence[Task],
    data: TaskData,
    runs: Iterable[TrialRun],
    train_data: Mapping[str, SplitData],
    task_files: str,
    print_fn: PrintFn,
) -> tuple[list[TrialRun], list[TrialResult]]:
    """Runs the trials or folds, and writes the results of those so far after each.

    Trials that an earlier start has finished are not trained again.

    Returns:
        The trials, and their results.
    """
    count = config.num_trials * (config.num_folds or 1)
    done: list[TrialRun] = []
    results: list[TrialResult] = []
    logged: list[Mapping[str, Any]] = []
    provenance: Provenance | None = None
    finished = _finished_trials(config, trainer, task_files, _vocabulary_digest(tasks))
    if trainer.is_chief:
        _warn_of_dropped_trials(config)
    needs_models = config.keep_all_models or config.write_test_outputs
    for trial in runs:
        print_fn(f"\n{trial.title}, seed {trial.seed}")
        is_last = len(done) + 1 == count
        earlier = finished.pop((trial.number, trial.fold), None)
        is_gone = not (needs_models or is_last or has_own_checkpoint(trial.model_dir))
        if earlier and is_gone:
            print_fn("Reusing its results: --keep_all_models=false removed its model.")
            results.append(earlier)
            done.append(trial)
            continue
        session = TrialSession(config, trainer, tasks, data, trial, task_files, print_fn)
        results.append(session.run(trial.train_data or train_data))
        done.append(trial)
        provenance = common_provenance(provenance, session.provenance())
        if not trainer.is_chief:
            continue
        print_last = print_fn if is_last or count < 0 else discard
        if config.do_eval:
            warn_of_older_predictions(config, tasks, provenance)
        logged += trial.log_records()
        # Those of an earlier start are not lost if this one ends before it comes to them.
        written = [*results, *finished.values()]
        _write_results(config, runs, written, logged, provenance, print_last)
        if config.do_train and not config.keep_all_models and not is_last:
            with contextlib.suppress(OSError):
                remove_folder(trial.model_dir)
    return done, results


def _predict(
    config: FinetuningConfig,
    trainer: Trainer,
    tasks: Sequence[Task],
    data: TaskData,
    done: Sequence[TrialRun],
    results: Sequence[TrialResult],
    print_fn: PrintFn,
) -> None:
    """Makes the ensemble, if any, and predicts with it, else with the best trial."""
    predictor: Trainer | Ensemble = trainer
    if config.ensemble_size > 1:
        trials = rank_trials(done, results)
        predictor = make_ensemble(config, trainer, tasks, data, trials, print_fn)
        if config.write_test_outputs:
            for path in write_test_outputs(config, predictor, tasks, data, ENSEMBLE):
                print_fn(f"Predictions: {path}")
    elif config.do_predict and not config.evaluated_checkpoint:  # it is still loaded
        _restore_best(trainer, rank_trials(done, results))
    if config.do_predict:
        print_fn(f"Predictions: {predict_file(config, predictor, tasks[0], data)}")


def _vocabulary_digest(tasks: Sequence[Task]) -> str:
    return tasks[0].tokenizer.vocabulary.sha256


def _finished_trials(
    config: FinetuningConfig, trainer: Trainer, task_files: str, vocabulary: str
) -> dict[tuple[int, int | None], TrialResult]:
    """Returns the results of the trials of a run that an earlier start has finished.

    By trial and fold, in their order; empty if on any worker there are none.
    """
    if config.overwrite or not (config.do_train and config.do_eval):
        return {}
    path = json_path(config.results_dir, config.tasks_label)
    if trainer.workers.any_worker(not os.path.exists(path)):
        return {}
    provenance = Provenance(
        trainer.initial_digest or RANDOM_INIT,
        task_files,
        scored_settings_digest(dataclasses.asdict(config), None),
        vocabulary,
    )
    found = {
        (number, fold): trial
        for (number, fold), trial in finished_trials(path, provenance).items()
        if not 0 < config.num_trials < number and (fold is None) == (config.num_folds is None)
    }
    return {} if trainer.workers.any_worker(not found) else found


def _warn_of_dropped_trials(config: FinetuningConfig) -> None:
    """Warns of results that this run replaces by those of fewer trials."""
    path = json_path(config.results_dir, config.tasks_label)
    if not config.do_eval or not os.path.exists(path):
        return
    try:
        recorded = {trial.trial for trial in read_results(path).trials}
    except UserError:
        return  # a damaged file is reported where its results would be reused
    if 0 < config.num_trials < max(recorded, default=0):
        warn_once(
            f"{path} had the results of {max(recorded)} trials; with --num_trials="
            f"{config.num_trials}, those of the others are dropped, and their models do not "
            "predict"
        )


def find_tasks(config: FinetuningConfig) -> list[Task]:
    """Returns the tasks of a run, whose data and checkpoint are there.

    Raises:
        UserError: the vocabulary, a task, a label or the checkpoint is wrong.
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
    """Loads what a run trains and evaluates on.

    Returns:
        The trials or folds, and the training data by task, which folds have themselves.

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


def _warn_of_suspicious_data(
    config: FinetuningConfig,
    tasks: Sequence[Task],
    data: TaskData,
    train_data: Mapping[str, SplitData],
    runs: Iterable[TrialRun],
    print_fn: PrintFn,
) -> None:
    """Warns of rows and labels that mislead: see `finetune.data.suspicious`."""
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


def _with_labels(task: Task) -> str:
    """Returns the name of a task and its first labels."""
    labels = getattr(task, "labels", ())
    if not labels:
        return task.name
    more = ", …" if len(labels) > _LABELS_SHOWN else ""
    return f"{task.name} ({len(labels)} labels: {', '.join(labels[:_LABELS_SHOWN])}{more})"


def _files_digest(config: FinetuningConfig, tasks: Sequence[Task]) -> str:
    """Returns the digest of the files that train and score a run, and of how they are read."""
    files = files_digest(
        path
        for task in tasks
        for split in (TRAIN, *(() if config.num_folds else task.dev_splits))
        for path in task.split_files(split)
    )
    reading = reading_settings(dataclasses.asdict(config))
    return settings_digest({"files": files, **reading}) if reading else files


def _restore_best(trainer: Trainer, trials: Sequence[ScoredTrial]) -> None:
    """Loads the model of the best trial, of the saved ones; `trials` has the best first."""
    there = [trial for trial in trials if os.path.isdir(trial.run.model_dir)]
    if not there:
        raise UserError(
            "--do_predict: there is no model to predict with, since those of all trials that "
            "finished are gone"
        )
    chosen, best = there[0], trials[0]
    if len(there) > 1 and not any(trial.result.metrics for trial in there):
        warn_once(
            f"--do_eval=false scores none of the {len(there)} trials, so {chosen.run.title} "
            "predicts; with --do_eval, the best one would"
        )
    if chosen.value < best.value:
        warn_once(
            f"{chosen.run.title} predicts: the model of {best.run.title}, whose dev score is "
            "better, is gone (--keep_all_models=false keeps the last one)"
        )
    trainer.restore(chosen.run.model_dir)


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


def _write_results(
    config: FinetuningConfig,
    runs: Iterable[TrialRun],
    results: Sequence[TrialResult],
    logged: Sequence[Mapping[str, Any]],
    provenance: Provenance,
    print_fn: PrintFn,
) -> None:
    """Writes the results and learning curves of the trials so far."""
    if not config.do_eval:
        return
    paths = write_run_files(config, results, logged, provenance)
    if config.num_folds:
        shown = {(each.trial, each.fold) for each in results}
        folds = [each for each in runs if (each.number, each.fold) in shown]
        paths.append(write_folds(config, folds))
    else:
        remove_files(folds_file(config))  # of scores that these replace
    remove_files(ensemble_file(config.results_dir, config.tasks_label))
    print_fn("")
    for line in format_summary(results):
        print_fn(line)
    print_fn(provenance.describe())
    for path in paths:
        print_fn(f"Results: {path}")


def describe_run(
    config: FinetuningConfig,
    trainer: Trainer,
    tasks: Sequence[Task],
    context: DistributionContext,
    print_fn: PrintFn,
) -> None:
    """Prints the model, the devices, the tasks and the lengths of batches of a run."""
    encoder = trainer.model.encoder_config
    trained = sum(math.prod(v.shape) for v in trainer.model.trainable_variables)
    print_fn(
        f"Model:   {encoder.num_hidden_layers} layers, {encoder.hidden_size} hidden, "
        f"{trainer.model.electra.count_params():,} parameters in the encoder, "
        f"{trained:,} trained, {config.precision}"
    )
    for line in describe_devices(
        config,
        context,
        config.train_batch_size,
        config.precision,
        finetuning_flops_per_step(
            config.encoder,
            batch_size=config.train_batch_size * trainer.model.num_sequences,
            seq_length=trainer.buckets[-1],
            num_frozen_layers=config.num_frozen_layers,
        ),
    ):
        print_fn(line)
    print_fn(f"Tasks:   {'; '.join(_with_labels(task) for task in tasks)}")
    lengths = ", ".join(map(str, trainer.buckets))
    print_fn(f"Batches: padded to {lengths} tokens")
