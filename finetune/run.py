"""Runs fine-tuning: trains trials or folds, writes results and predictions."""

import contextlib
import dataclasses
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from electra_tf.training.checkpoints.authors_files import has_own_checkpoint
from electra_tf.training.checkpoints.folder_lock import lock_model_dir
from electra_tf.training.distribution.context import (
    TRAIN_BATCH_SIZE,
    DistributionContext,
    open_context,
)
from electra_tf.training.distribution.cores import limit_operation_threads
from electra_tf.training.monitoring.trackers import check_trackers
from electra_tf.training.restart_limit import limited_starts
from electra_tf.util.console import discard, warn_once
from electra_tf.util.errors import UserError
from electra_tf.util.files import remove_files
from electra_tf.util.temporaries import remove_folder
from finetune.config.defaults import RANDOM_INIT
from finetune.config.finetuning import FinetuningConfig
from finetune.ensemble import (
    Ensemble,
    ScoredTrial,
    make_ensemble,
    rank_trials,
)
from finetune.prediction_files import (
    ENSEMBLE,
    predict_file,
    warn_of_older_predictions,
    write_test_outputs,
)
from finetune.results.ensemble_scores import ensemble_file
from finetune.results.provenance import (
    Provenance,
    common_provenance,
    scored_settings_digest,
)
from finetune.results.result_files import finished_trials, json_path, read_results
from finetune.results.result_text import format_summary
from finetune.results.run_files import write_run_files
from finetune.results.summary import TrialResult
from finetune.run_description import describe_run
from finetune.run_inputs import RunInputs, load_inputs, vocabulary_digest
from finetune.trainer import Trainer
from finetune.trials.evaluation_checks import (
    check_alike,
    check_models,
    with_trained_seed,
)
from finetune.trials.trial_runs import TrialRun, folds_file, write_folds
from finetune.trials.trial_session import TrialSession

PrintFn = Callable[[str], None]


def run(config: FinetuningConfig, print_fn: PrintFn = print) -> list[TrialResult]:
    """Fine-tunes, evaluates and predicts, as configured.

    Seeds Python, NumPy and TensorFlow with the seed of each trial.

    Returns:
        The result of each trial, or of each fold of each trial.

    Raises:
        UserError: the input is invalid, or another program is training in the folder;
            nothing has been trained or overwritten.
        PreemptedError: the run was preempted, and can be resumed.
        WorkerLostError: another worker has failed.
    """
    check_trackers(config.trackers)
    if not config.do_train:
        if config.limits_operation_threads:
            limit_operation_threads()
        with open_context(config) as context:
            return _run(config, context, print_fn)
    batch_sizes, hidden_size = [TRAIN_BATCH_SIZE], config.encoder.hidden_size
    trial_dir = f"{config.model_dir}_N, where N is the number of the trial"
    with (
        limited_starts(config),
        open_context(config, batch_sizes, hidden_size, trial_dir) as context,
    ):
        return _run(config, context, print_fn)


def require_finished(results: Sequence[TrialResult]) -> None:
    """Raises UserError if there are trials, but none has finished."""
    if results and not any(result.finished for result in results):
        reasons = "; ".join(dict.fromkeys(result.reason or "diverged" for result in results))
        raise UserError(
            f"No trial has finished: {reasons}. Reduce --learning_rate, increase "
            "--warmup_proportion, or pass --on_nonfinite=skip to skip such updates"
        )


def _run(
    config: FinetuningConfig, context: DistributionContext, print_fn: PrintFn
) -> list[TrialResult]:
    print_fn = print_fn if context.workers.is_chief else discard
    inputs = load_inputs(config, context, print_fn)
    trainer = Trainer(config, inputs.tasks, context, print_fn)
    describe_run(config, trainer, inputs.tasks, context, print_fn)
    if not config.do_train:
        inputs = inputs._replace(runs=_evaluated_runs(config, inputs, trainer))
    lock = contextlib.nullcontext()
    if config.do_train:
        lock = lock_model_dir(config.model_dir, "--model_dir", context.workers)
    with lock:
        done, results = _run_trials(config, trainer, inputs, print_fn)
    _predict(config, trainer, inputs, done, results, print_fn)
    return results


def _evaluated_runs(
    config: FinetuningConfig, inputs: RunInputs, trainer: Trainer
) -> list[TrialRun]:
    """Returns the trials to evaluate, with the seeds that their models were trained with."""
    runs, given = [*inputs.runs], config.evaluated_checkpoint
    if given is None:
        check_models(runs, inputs.tasks, trainer.initial_digest)
        check_alike(config, {run.title: run.model_dir for run in runs})
    return [with_trained_seed(run, given or run.model_dir) for run in runs]


def _run_trials(
    config: FinetuningConfig, trainer: Trainer, inputs: RunInputs, print_fn: PrintFn
) -> tuple[list[TrialRun], list[TrialResult]]:
    """Runs the trials or folds, and writes the results so far after each one.

    Trials that an earlier start of the run finished are not trained again.

    Returns:
        The trials, and their results.
    """
    tasks, data, runs, train_data, task_files = inputs
    count = config.num_trials * (config.num_folds or 1)
    done: list[TrialRun] = []
    results: list[TrialResult] = []
    logged: list[Mapping[str, Any]] = []
    provenance: Provenance | None = None
    finished = _finished_trials(config, trainer, task_files, vocabulary_digest(tasks))
    if trainer.is_chief:
        _warn_of_replaced_results(config)
    needs_models = config.keep_all_models or config.write_test_outputs
    for trial in runs:
        print_fn(f"\n{trial.title}, seed {trial.seed}")
        is_last = len(done) + 1 == count
        earlier = finished.pop((trial.number, trial.fold), None)
        needs_model = needs_models or is_last
        if earlier and not (needs_model or has_own_checkpoint(trial.model_dir)):
            print_fn(
                "Reusing its results: --keep_all_models=false removed its model and log, "
                "so the trial is missing from the learning curves."
            )
            results.append(earlier)
            done.append(trial)
            continue
        session = TrialSession(config, trainer, tasks, data, trial, task_files, print_fn)
        results.append(session.run(trial.train_data or train_data))
        done.append(trial)
        provenance = common_provenance(provenance, session.provenance())
        if not trainer.is_chief:
            continue
        _warn_of_replaced_results(config)  # those that another program wrote meanwhile
        print_summary = print_fn if is_last or count < 0 else discard
        if config.do_eval:
            warn_of_older_predictions(config, tasks, provenance)
        logged += trial.log_records()
        # Keeps the results of later trials, in case this start ends before reusing them.
        written = [*results, *finished.values()]
        _write_results(config, runs, written, logged, provenance, print_summary)
        if config.do_train and not config.keep_all_models and not is_last:
            with contextlib.suppress(OSError):
                remove_folder(trial.model_dir)
    return done, results


def _predict(
    config: FinetuningConfig,
    trainer: Trainer,
    inputs: RunInputs,
    done: Sequence[TrialRun],
    results: Sequence[TrialResult],
    print_fn: PrintFn,
) -> None:
    """Builds the ensemble, if requested, and predicts with it or with the best trial."""
    tasks, data = inputs.tasks, inputs.data
    predictor: Trainer | Ensemble = trainer
    if config.ensemble_size > 1 or config.do_predict:
        require_finished(results)
    if config.ensemble_size > 1:
        trials = rank_trials(done, results)
        predictor = make_ensemble(config, trainer, tasks, data, trials, print_fn)
        if config.write_test_outputs:
            for path in write_test_outputs(config, predictor, tasks, data, ENSEMBLE):
                print_fn(f"Predictions: {path}")
    elif config.do_predict and not config.evaluated_checkpoint:  # which is still loaded
        _restore_best(trainer, rank_trials(done, results))
    if config.do_predict:
        print_fn(f"Predictions: {predict_file(config, predictor, tasks[0], data)}")


def _finished_trials(
    config: FinetuningConfig, trainer: Trainer, task_files: str, vocabulary: str
) -> dict[tuple[int, int | None], TrialResult]:
    """Returns the results of the trials that an earlier start of the run finished.

    They are keyed by (trial, fold), in order; empty if any worker finds none.
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


def _warn_of_replaced_results(config: FinetuningConfig) -> None:
    """Warns if this run replaces the results of other models, or of more trials."""
    path = json_path(config.results_dir, config.tasks_label)
    if not config.do_eval or not os.path.exists(path):
        return
    try:
        earlier = read_results(path)
    except UserError:
        return  # a damaged file is reported where its results would be reused
    recorded = {trial.trial for trial in earlier.trials}
    was_trained = any(trial.steps for trial in earlier.trials)
    # The recorded path is relative to the results, without resolving links.
    earlier_dir = os.path.abspath(os.path.join(config.results_dir, earlier.model_dir or ""))
    flag, given = "model_dir", config.model_dir
    if config.evaluated_checkpoint:
        flag, given = "init_checkpoint", config.evaluated_checkpoint
    pairs = [(to(given), to(earlier_dir)) for to in (os.path.abspath, os.path.realpath)]
    is_same = any(
        now.startswith(f"{before}_") if config.evaluated_checkpoint else now == before
        for now, before in pairs
    )
    if earlier.model_dir and was_trained and not is_same:
        warn_once(
            f"{path} had the results of training {earlier_dir}_…; those of --{flag}={given} "
            "replace them: pass another --results_dir to keep both"
        )
    elif 0 < config.num_trials < max(recorded, default=0):
        warn_once(
            f"{path} had the results of {max(recorded)} trials; with --num_trials="
            f"{config.num_trials}, those of the others are dropped, and their models are not "
            "used for predictions"
        )


def _restore_best(trainer: Trainer, trials: Sequence[ScoredTrial]) -> None:
    """Loads the best trial whose model is saved; `trials` has the best first."""
    saved = [trial for trial in trials if os.path.isdir(trial.run.model_dir)]
    if not saved:
        raise UserError(
            "--do_predict: there is no model to predict with, because the models of all "
            "finished trials have been removed"
        )
    chosen, best = saved[0], trials[0]
    if len(saved) > 1 and not any(trial.result.metrics for trial in saved):
        warn_once(
            f"--do_eval=false scores none of the {len(saved)} trials, so {chosen.run.title} "
            "predicts; pass --do_eval to predict with the best one"
        )
    if chosen.value < best.value:
        warn_once(
            f"{chosen.run.title} predicts: the model of {best.run.title}, which has a better "
            "dev score, was removed (--keep_all_models=false keeps only the last one)"
        )
    trainer.restore(chosen.run.model_dir)


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
        remove_files(folds_file(config))  # belongs to the results that these replace
    remove_files(ensemble_file(config.results_dir, config.tasks_label))
    print_fn("")
    for line in format_summary(results):
        print_fn(line)
    print_fn(provenance.describe())
    for path in paths:
        print_fn(f"Results: {path}")
