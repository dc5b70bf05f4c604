"""Pre-training from batches to checkpoints, and evaluation of checkpoints."""

import hashlib
import shlex
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from electra_tf.config.checks import check_reading
from electra_tf.config.hyperparameters import NOTHING
from electra_tf.config.nonfinite_fields import SKIP
from electra_tf.config.pretraining import PretrainingConfig, discriminator_config
from electra_tf.config.recorded_settings import Change
from electra_tf.config.resumption import (
    DATA,
    HELD_OUT,
    VOCABULARY,
    WORDS,
    changed_metrics,
    changes_of_resumed_run,
    check_allowed_names,
    check_recorded_model,
    describe_changes,
    unrecorded_settings,
    warn_of_changed_held_out,
)
from electra_tf.config.trained_positions import warn_of_longer_training
from electra_tf.interop.formats import saved_hyperparameters
from electra_tf.masking.word_list import word_list_sha256
from electra_tf.model_builder import (
    TokenCounter,
    create_training_state,
    load_checked_vocabulary,
    model_class,
)
from electra_tf.pretraining.evaluation import (
    HeldOutEvaluator,
    evaluate_batches,
    held_out_batches,
    write_results,
)
from electra_tf.pretraining.phases import PretrainingPhases
from electra_tf.pretraining.records import PretrainingRecords
from electra_tf.pretraining.run_description import (
    describe_held_out,
    describe_moved_position,
    describe_run,
    warn_of_training_records,
)
from electra_tf.pretraining.setup import (
    data_statistics,
    load_evaluated_model,
    open_log,
    recorded_origin,
    remove_debug_run,
    require_same_stage,
    restore,
    run_settings,
    text_counts,
    tokenizer_of,
)
from electra_tf.pretraining_model import PretrainingModel
from electra_tf.text.vocabulary import Vocabulary
from electra_tf.training.checkpoints.authors_files import (
    has_only_authors_checkpoint,
    has_own_checkpoint,
)
from electra_tf.training.checkpoints.checkpoint_directory import CheckpointDirectory
from electra_tf.training.checkpoints.folder_lock import lock_model_dir
from electra_tf.training.distribution.bfloat16 import warn_of_emulated_bfloat16
from electra_tf.training.distribution.context import (
    TRAIN_BATCH_SIZE,
    DistributionContext,
    open_context,
)
from electra_tf.training.distribution.gpus import prepare_kernels
from electra_tf.training.distribution.strategies import count_workers
from electra_tf.training.distribution.workers import Workers
from electra_tf.training.loop import Intervals, run_loop, training_values
from electra_tf.training.monitoring.log import SilentLog, TrainLog, format_metrics
from electra_tf.training.monitoring.run_info import describe_other_parts
from electra_tf.training.monitoring.trackers import check_trackers
from electra_tf.training.nonfinite import describe_terms
from electra_tf.training.restart_limit import limited_starts
from electra_tf.util.console import discard, warn_once
from electra_tf.util.errors import UserError
from electra_tf.util.output_checks import check_distinct, check_not_input, check_output_file

PrintFn = Callable[[str], None]


def train(
    config: PretrainingConfig,
    records: PretrainingRecords,
    eval_records: PretrainingRecords | None = None,
    print_fn: PrintFn = print,
) -> dict[str, float]:
    """Pre-trains for `num_train_steps`, resuming from the latest checkpoint.

    Without a checkpoint, the run starts from `init_checkpoint`, else from random weights. Seeds
    Python, NumPy and TensorFlow with the configured seed.

    Args:
        config: hyperparameters.
        records: training records.
        eval_records: held-out records, evaluated at every checkpoint.
        print_fn: prints a line about the run.

    Returns:
        The metrics of the last evaluation, or of training without `eval_records`.

    Raises:
        UserError: the input is invalid, the checkpoint belongs to another model, another
            program is training in the folder, or the loss is not finite; the last good
            checkpoint is kept.
        PreemptedError: the run was preempted, after saving its last step.
        WorkerLostError: another worker has failed.
    """
    check_allowed_names(config)
    objective = model_class(config)
    objective.check(config)
    objective.check_loss_weights(config)
    check_reading(config, count_workers(config))
    config.warn_of_unused()
    objective.warn_of_unused(config)
    check_trackers(config.trackers)
    vocabulary = load_checked_vocabulary(config)
    batch_sizes = [TRAIN_BATCH_SIZE]
    batch_sizes += ["eval_batch_size"] if eval_records is not None else []
    hidden_size = discriminator_config(config).hidden_size
    opened = open_context(config, batch_sizes, hidden_size, config.model_dir)
    with limited_starts(config), opened as context:
        if config.triton_kernels:
            prepare_kernels()
        lengths = (*config.length_curriculum, config.max_seq_length)
        records.check(vocabulary, tokenizer_of(config, vocabulary), lengths)
        if eval_records is not None:
            eval_records.check(vocabulary, tokenizer_of(config, vocabulary), lengths[-1:])
        print_fn = print_fn if context.workers.is_chief else discard
        with lock_model_dir(config.model_dir, "--model_name or --model_dir", context.workers):
            return _train(config, vocabulary, records, eval_records, context, print_fn)


def _train(
    config: PretrainingConfig,
    vocabulary: Vocabulary,
    records: PretrainingRecords,
    eval_records: PretrainingRecords | None,
    context: DistributionContext,
    print_fn: PrintFn,
) -> dict[str, float]:
    workers = context.workers
    if config.debug:
        remove_debug_run(config.model_dir, workers)
    settings = run_settings(config, vocabulary, records, workers.count, eval_records)
    workers.require_equal(
        {name: settings.get(name) for name in (DATA, VOCABULARY, WORDS, HELD_OUT)}
    )
    start = _load_start(config, vocabulary, records, settings, context, print_fn)
    first_step = int(start.step.numpy())
    describe_run(config, start.model, vocabulary, records, eval_records, context, print_fn)
    _describe_start(config, start, records, context, print_fn)
    if workers.is_chief:
        warn_of_changed_held_out(start.changes, first_step)
    if first_step >= config.num_train_steps:
        if has_only_authors_checkpoint(config.model_dir):
            raise UserError(
                f"{config.model_dir} has a checkpoint of the authors' code at step "
                f"{first_step}, so --num_train_steps={config.num_train_steps} leaves nothing "
                "to train: pass a larger number"
            )
        print_fn(f"Nothing to do: all {config.num_train_steps} steps are done.")
        return {}
    # All workers read the records, so that all of them refuse records without text.
    statistics = data_statistics(config, vocabulary, records)
    if eval_records is not None:
        text_counts(config, vocabulary, eval_records)
    if start.resumed:
        described = {**settings, **recorded_origin(config)}
        start.checkpoints.describe_next(described, vocabulary.path)
    else:
        start.checkpoints.write_description(settings, vocabulary.path)
    log = open_log(config, settings, statistics, first_step, context)
    log.settings(first_step, [each for each in start.changes if each.influence != NOTHING])
    phases = PretrainingPhases(
        config,
        vocabulary,
        start.model,
        start.optimizer,
        start.step,
        records,
        eval_records,
        context.strategy,
        log,
        print_fn,
        max_side_by_side=context.side_by_side,
    )
    result = run_loop(
        phases.segments(),
        step=start.step,
        num_train_steps=config.num_train_steps,
        intervals=Intervals(
            host_loop=config.iterations_per_loop,
            log=config.log_steps,
            save=config.save_checkpoints_steps,
            evaluate=config.save_checkpoints_steps,
        ),
        checkpoints=start.checkpoints,
        log=log,
        preemption=context.preemption,
        summarize=partial(training_values, optimizer=start.optimizer),
        non_finite_error=partial(_non_finite_error, skipping=config.on_nonfinite == SKIP),
        evaluate=phases.evaluate if eval_records is not None else None,
    )
    _describe_outputs(start.checkpoints, log, print_fn)
    return result.values


class _Start(NamedTuple):
    """The model that a run starts from.

    If `resumed`, it is a checkpoint of this run: `changes` are the settings that have changed
    since, and `unrecorded` has lines about settings that were not recorded.
    """

    model: PretrainingModel
    optimizer: keras.optimizers.Optimizer
    step: tf.Variable
    checkpoints: CheckpointDirectory
    resumed: bool
    changes: list[Change]
    unrecorded: list[str]


def _load_start(
    config: PretrainingConfig,
    vocabulary: Vocabulary,
    records: PretrainingRecords,
    settings: Mapping[str, Any],
    context: DistributionContext,
    print_fn: PrintFn,
) -> _Start:
    """Creates the model and loads the weights that a run starts from.

    Raises:
        UserError: a setting that a resumed run must keep has changed; or as `restore`.
    """
    workers = context.workers
    changes: list[Change] = []
    unrecorded: list[str] = []
    if has_own_checkpoint(config.model_dir):
        key_defaults = model_class(config).key_defaults(config)
        changes = changes_of_resumed_run(config, settings, key_defaults)
        unrecorded = unrecorded_settings(config)
    model, optimizer, step = create_training_state(
        config, vocabulary, context.strategy, records.token_counts
    )
    checkpoints = CheckpointDirectory(
        config.model_dir, model, step, optimizer, config.keep_checkpoint_max, workers
    )
    resumed = restore(config, model, optimizer, step, checkpoints, print_fn)
    workers.require_equal_weights(
        model.variables, checkpoints.latest or config.init_checkpoint or config.model_dir
    )
    first_step = int(step.numpy())
    if resumed:
        require_same_stage(type(model), config, changes, first_step)
    if config.init_checkpoint and not first_step and workers.is_chief:
        origin = config.init_checkpoint
        saved = saved_hyperparameters(origin, needs_vocabulary=False)
        warn_of_longer_training(saved, config.max_seq_length, "--max_seq_length", origin)
    return _Start(model, optimizer, step, checkpoints, resumed, changes, unrecorded)


def _describe_start(
    config: PretrainingConfig,
    start: _Start,
    records: PretrainingRecords,
    context: DistributionContext,
    print_fn: PrintFn,
) -> None:
    """Prints a resumed run's checkpoint and changed settings, and where reading continues."""
    step, changes = int(start.step.numpy()), start.changes
    num_parts = context.num_parts(config.gradient_accumulation_steps)
    parts = []
    continues = start.resumed and step < config.num_train_steps
    if continues and discriminator_config(config).has_dropout:
        parts = describe_other_parts(config.model_dir, num_parts)
    if start.resumed:
        print_fn(f"Resuming from {start.checkpoints.latest}, step {step}.")
    moved = describe_moved_position(config, start.model.stages(), changes, step, records)
    for line in (*start.unrecorded, *describe_changes(changes), *moved, *parts):
        print_fn(line)


def _describe_outputs(
    checkpoints: CheckpointDirectory, log: TrainLog | SilentLog, print_fn: PrintFn
) -> None:
    """Prints what a run has written, and the diagnoses of its training."""
    print_fn(f"Checkpoint:  {checkpoints.latest}")
    for line in log.health():
        print_fn(line)
    if isinstance(log, TrainLog):
        print_fn(f"Log:         {log.path}")
        print_fn(f"TensorBoard: tensorboard --logdir {shlex.quote(log.tensorboard_dir)}")


def evaluate(
    config: PretrainingConfig,
    records: PretrainingRecords,
    print_fn: PrintFn = print,
    *,
    token_counts: TokenCounter | None = None,
) -> dict[str, float]:
    """Evaluates the latest checkpoint on `records` and writes its metrics.

    If the folder has only a checkpoint of the authors' code, evaluates that one.

    Args:
        config: hyperparameters.
        records: held-out records.
        print_fn: prints a line about the evaluation.
        token_counts: counts the tokens of the training records, for a unigram generator and
            for strategic masking; None counts those of `records`.

    Raises:
        UserError: the input is invalid, or there is no checkpoint.
    """
    check_allowed_names(config)
    # Checked first: for another model, length and vocabulary would fail with misleading errors.
    check_recorded_model(config, shapes=True)
    vocabulary = load_checked_vocabulary(config)
    _check_results_files(config, vocabulary)
    hidden_size = discriminator_config(config).hidden_size
    with open_context(config, ["eval_batch_size"], hidden_size) as context:
        records.check(vocabulary, tokenizer_of(config, vocabulary), [config.max_seq_length])
        print_fn = print_fn if context.workers.is_chief else discard
        words = word_list_sha256(config.word_list)
        context.workers.require_equal(
            {
                HELD_OUT: records.fingerprint(config.max_seq_length),
                VOCABULARY: vocabulary.sha256,
                WORDS: words,
            }
        )
        text_counts(config, vocabulary, records)
        if context.workers.is_chief:
            warn_of_emulated_bfloat16(config.precision)
        model, step, checkpoint = load_evaluated_model(
            config,
            vocabulary,
            context.strategy,
            _requiring_equal_counts(token_counts or records.token_counts, context.workers),
            context.workers,
        )
        print_fn(f"Evaluating {checkpoint} on {describe_held_out(config, records)}.")
        if context.workers.is_chief:
            warn_of_training_records(config, records)
            config.warn_of_unused()
            model.warn_of_untrained(config, "its metrics (disc_*)")
            for change in changed_metrics(config, words, model.key_defaults(config)):
                warn_once(f"the evaluation differs from training: {change}")
        with context.strategy.scope():
            evaluator = HeldOutEvaluator(model, context.strategy, context.side_by_side)
        batches = held_out_batches(config, records, context.strategy)
        values = evaluate_batches(config, evaluator, records, batches).values
        if context.workers.is_chief:
            written = write_results(
                {"step": step, **values},
                results_txt=config.results_txt,
                results_json=config.results_json,
                results_pkl=config.results_pkl,
            )
            print_fn(f"step {step}  {format_metrics(values)}")
            for path in written:
                print_fn(f"Results:     {path}")
    return values


def _check_results_files(config: PretrainingConfig, vocabulary: Vocabulary) -> None:
    """Raises UserError if results cannot be written, or would replace a file that is read."""
    names = ("results_txt", "results_json", "results_pkl")
    check_distinct({f"--{name}": getattr(config, name) or None for name in names})
    for name in names:
        if path := getattr(config, name):
            check_output_file(path, f"--{name}")
            check_not_input(path, f"--{name}", {"--vocab_file": vocabulary.path})


def _requiring_equal_counts(token_counts: TokenCounter, workers: Workers) -> TokenCounter:
    """Returns a counter that raises UserError unless all workers have the same counts."""

    def count(vocab_size: int) -> np.ndarray:
        counts = token_counts(vocab_size)
        digest = hashlib.sha256(np.ascontiguousarray(counts)).hexdigest()
        workers.require_equal({"token counts of the training records": digest[:12]})
        return counts

    return count


def _non_finite_error(
    terms: Sequence[str], step: int, checkpoint: str | None, *, skipping: bool
) -> UserError:
    kept = f"The last good checkpoint is {checkpoint}" if checkpoint else "No checkpoint yet"
    advice = (
        "Reduce --learning_rate, increase --num_warmup_steps, or check the data of this step"
    )
    if not skipping:
        advice += ". Pass --on_nonfinite=skip to skip such updates"
    return UserError(
        f"Step {step}: not finite: {describe_terms(terms, skipping)}. {kept}. {advice}"
    )
