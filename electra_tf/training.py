"""Pre-training from records to checkpoints, and the evaluation of a checkpoint."""

import contextlib
import dataclasses
import os
import pathlib
from collections.abc import Callable, Iterator
from typing import Any

import keras
import tensorflow as tf

from electra_tf import metrics, runtime
from electra_tf.checkpoints import CheckpointDirectory
from electra_tf.config import PretrainingConfig
from electra_tf.errors import PreemptedError, UserError
from electra_tf.evaluation import Evaluator, total_loss, write_results
from electra_tf.flops import train_flops_per_step
from electra_tf.interop.initialization import initialize_from_checkpoint
from electra_tf.optimizer import create_optimizer, last_learning_rate
from electra_tf.pretrain_helpers import SpecialTokenIds
from electra_tf.pretraining_model import PretrainingModel
from electra_tf.runtime import Runtime, say_nothing
from electra_tf.startup import distribution_lines
from electra_tf.strategies import distribute_batches
from electra_tf.tf1_checkpoint import encoder_variables, tf1_variables
from electra_tf.train_log import SilentLog, TrainLog, format_metrics
from electra_tf.train_step import TrainingSteps
from pretrain_data.bad_records import BAD_RECORD_ERRORS, diagnose_bad_record
from pretrain_data.manifest import load_manifest
from pretrain_data.reader import read_pretraining_records
from pretrain_data.records import find_checked_record_files, find_record_files
from pretrain_data.sharding import Shard
from pretrain_data.vocabulary import Vocabulary, load_vocabulary

TRAIN_FLAG = "--pretrain_tfrecords"
EVAL_FLAG = "--eval_tfrecords"


def train(config: PretrainingConfig, say: Callable[[str], None] = print) -> dict[str, float]:
    """Pre-trains until `num_train_steps`, going on from the newest checkpoint.

    A run without one starts from `init_checkpoint`, or else from random weights.

    Returns:
        The last evaluation's metrics, or the last training metrics without
        `eval_tfrecords`.

    Raises:
        UserError: for bad input, a checkpoint of another model, or a loss that is
            no longer finite; the last good checkpoint is kept.
        PreemptedError: SIGTERM came; a checkpoint of the last step is there.
        WorkerLostError: another worker has ended.
    """
    vocabulary = load_checked_vocabulary(config)
    batch_sizes = [
        runtime.TRAIN_BATCH_SIZE,
        *(["eval_batch_size"] if config.eval_tfrecords else []),
    ]
    with runtime.start(config, batch_sizes) as run:
        files = _check_records(config.pretrain_tfrecords, TRAIN_FLAG, vocabulary, config)
        if config.eval_tfrecords:
            _check_records(config.eval_tfrecords, EVAL_FLAG, vocabulary, config)
        return _train(config, vocabulary, files, run, say)


def _train(
    config: PretrainingConfig,
    vocabulary: Vocabulary,
    files: list[str],
    run: Runtime,
    say: Callable[[str], None],
) -> dict[str, float]:
    strategy, workers, preemption = run
    say = say if workers.is_chief else say_nothing
    model, optimizer, step = _build(config, vocabulary, strategy)
    checkpoints = CheckpointDirectory(
        config.model_dir, model, step, optimizer, config.keep_checkpoint_max, workers
    )
    # The run's own checkpoint wins over --init_checkpoint, which wins over random weights.
    resumed = checkpoints.restore_latest()
    if not resumed and config.init_checkpoint:
        _initialize(config, model, say)
    first_step = int(step.numpy())
    _describe(config, model, vocabulary, run, files, say)
    if resumed:
        say(f"Resuming from {checkpoints.latest}, step {first_step}.")
    if first_step >= config.num_train_steps:
        say(f"Nothing to do: the run has its {config.num_train_steps} steps.")
        return {}

    def read(shard: Shard) -> tf.data.Dataset:
        return read_pretraining_records(
            config.pretrain_tfrecords,
            max_seq_length=config.max_seq_length,
            batch_size=config.train_batch_size,
            seed=config.seed,
            shuffle_buffer_size=config.shuffle_buffer_size,
            deterministic=config.deterministic_reading,
            skip_bad_records=config.skip_bad_records,
            start_example=first_step * config.train_batch_size,
            shard=shard,
            flag=TRAIN_FLAG,
            say=say,
        )

    batches = distribute_batches(strategy, read, config.shard_by)
    checkpoints.write_description(_hyperparameters(config), vocabulary.path)
    with strategy.scope():
        steps = TrainingSteps(
            model,
            optimizer,
            strategy,
            step,
            seed=config.seed,
            clip_norm=config.clip_norm,
            accumulation_steps=config.gradient_accumulation_steps,
            jit_compile=config.jit_compile,
        )
        evaluator = Evaluator(model, strategy)
    log: TrainLog | SilentLog = SilentLog()
    if workers.is_chief:
        log = TrainLog(
            config.model_dir,
            first_step=first_step,
            num_train_steps=config.num_train_steps,
            batch_size=config.train_batch_size,
            seq_length=config.max_seq_length,
        )
    values: dict[str, float] = {}
    iterator = iter(batches)
    say("Compiling the training step …")
    try:
        with preemption.deferred():
            current = first_step
            while current < config.num_train_steps:
                target = _next_stop(config, current)
                with _naming_bad_records(config.pretrain_tfrecords, TRAIN_FLAG, config):
                    steps.run(iterator, target - current)
                current = int(step.numpy())
                bad = steps.non_finite_terms()
                if bad:
                    raise UserError(_non_finite_message(bad, current, checkpoints.latest))
                last = current == config.num_train_steps
                if last or current % config.log_steps == 0:
                    values = _training_values(steps.read_metrics(), optimizer)
                    log.training(current, values)
                if last or current % config.save_checkpoints_steps == 0:
                    checkpoints.save()
                    if config.eval_tfrecords:
                        values = _evaluate(evaluator, strategy, config, config.eval_tfrecords)
                        log.evaluation(current, values)
                    log.restart_clock()
                if not last and preemption.requested():
                    if current % config.save_checkpoints_steps:
                        checkpoints.save()
                    raise PreemptedError(
                        f"Preempted at step {current}; saved {checkpoints.latest}. Run the "
                        "same command again to go on."
                    )
    finally:
        log.close()
    say(f"Checkpoint:  {checkpoints.latest}")
    if isinstance(log, TrainLog):
        say(f"Log:         {log.path}")
        say(f"TensorBoard: tensorboard --logdir {log.tensorboard_dir}")
    return values


def _initialize(
    config: PretrainingConfig, model: PretrainingModel, say: Callable[[str], None]
) -> None:
    """Loads the whole encoder, and of the rest what is there; the optimizer starts anew."""
    initialize_from_checkpoint(
        config.init_checkpoint,
        tf1_variables(model),
        encoder_variables(model.electra),
        flag="--init_checkpoint",
        say=say,
    )


def evaluate(config: PretrainingConfig, say: Callable[[str], None] = print) -> dict[str, float]:
    """Evaluates the newest checkpoint and writes its metrics.

    Raises:
        UserError: for bad input, or where there is no checkpoint.
    """
    vocabulary = load_checked_vocabulary(config)
    patterns = config.eval_tfrecords or config.pretrain_tfrecords
    flag = EVAL_FLAG if config.eval_tfrecords else TRAIN_FLAG
    with runtime.start(config, ["eval_batch_size"]) as run:
        files = _check_records(patterns, flag, vocabulary, config)
        say = say if run.workers.is_chief else say_nothing
        model, step, checkpoint = load_model(config, vocabulary, run.strategy)
        say(f"Evaluating {checkpoint} on {len(files)} files of {flag}.")
        with run.strategy.scope():
            evaluator = Evaluator(model, run.strategy)
        values = _evaluate(evaluator, run.strategy, config, patterns)
        if run.workers.is_chief:
            written = write_results(
                {"step": step, **values},
                results_txt=config.results_txt,
                results_json=config.results_json,
                results_pkl=config.results_pkl,
            )
            say(f"step {step}  {format_metrics(values)}")
            for path in written:
                say(f"Results:     {path}")
    return values


def load_model(
    config: PretrainingConfig, vocabulary: Vocabulary, strategy: tf.distribute.Strategy
) -> tuple[PretrainingModel, int, str]:
    """Returns the model of the newest checkpoint, its step and the checkpoint's path."""
    with strategy.scope():
        model = PretrainingModel(config, special_token_ids(vocabulary))
        step = tf.Variable(0, dtype=tf.int64, trainable=False)
    checkpoints = CheckpointDirectory(config.model_dir, model, step)
    if not checkpoints.restore_latest():
        raise UserError(
            f"There is no checkpoint in {config.model_dir}: train first, or change "
            "--model_name, --data_dir or --model_dir"
        )
    return model, int(step.numpy()), checkpoints.latest


def load_checked_vocabulary(config: PretrainingConfig) -> Vocabulary:
    """Returns the vocabulary of `--vocab_file`, which must have `--vocab_size` entries."""
    vocabulary = load_vocabulary(config.vocab_file, "--vocab_file")
    if vocabulary.size != config.vocab_size:
        raise UserError(
            f"--vocab_size is {config.vocab_size}, but {config.vocab_file} has "
            f"{vocabulary.size} entries: pass --vocab_size={vocabulary.size}"
        )
    return vocabulary


def special_token_ids(vocabulary: Vocabulary) -> SpecialTokenIds:
    """Returns the ids that masking treats apart."""
    return SpecialTokenIds(vocabulary.cls_id, vocabulary.sep_id, vocabulary.mask_id)


def _build(
    config: PretrainingConfig, vocabulary: Vocabulary, strategy: tf.distribute.Strategy
) -> tuple[PretrainingModel, keras.optimizers.Optimizer, tf.Variable]:
    keras.utils.set_random_seed(config.seed)
    with strategy.scope():
        model = PretrainingModel(config, special_token_ids(vocabulary))
        optimizer = create_optimizer(config)
        optimizer.build(model.trainable_variables)
        step = tf.Variable(0, dtype=tf.int64, trainable=False)
    return model, optimizer, step


def _check_records(
    patterns: str, flag: str, vocabulary: Vocabulary, config: PretrainingConfig
) -> list[str]:
    files = find_checked_record_files(
        patterns, config.max_seq_length, flag, skip_bad_records=config.skip_bad_records
    )
    for directory in sorted({os.path.dirname(path) for path in files}):
        manifest = load_manifest(directory)
        if manifest is None:
            continue
        if manifest.vocab_sha256 != vocabulary.sha256:
            raise UserError(
                f"The records of {flag} in {directory} were built with another vocabulary "
                f"than --vocab_file={config.vocab_file}: use the one they were built with"
            )
        if manifest.do_lower_case != config.do_lower_case:
            raise UserError(
                f"--do_lower_case is {config.do_lower_case}, but the records of {flag} in "
                f"{directory} were built with {manifest.do_lower_case}"
            )
    return files


@contextlib.contextmanager
def _naming_bad_records(patterns: str, flag: str, config: PretrainingConfig) -> Iterator[None]:
    """Raises UserError with the file and the place of a record that cannot be read."""
    try:
        yield
    except BAD_RECORD_ERRORS as error:
        files = find_record_files(patterns, flag)
        bad_record = diagnose_bad_record(files, config.max_seq_length)
        if bad_record is None:
            raise
        raise UserError(
            f"{flag}: {bad_record}. Build the file again, or pass over bad records "
            "with --skip_bad_records"
        ) from error


def _evaluate(
    evaluator: Evaluator,
    strategy: tf.distribute.Strategy,
    config: PretrainingConfig,
    patterns: str,
) -> dict[str, float]:
    flag = EVAL_FLAG if config.eval_tfrecords else TRAIN_FLAG

    def read(shard: Shard) -> tf.data.Dataset:
        return read_pretraining_records(
            patterns,
            max_seq_length=config.max_seq_length,
            batch_size=config.eval_batch_size,
            skip_bad_records=config.skip_bad_records,
            repeat=False,
            shard=shard,
            flag=flag,
            say=say_nothing,
        )

    with _naming_bad_records(patterns, flag, config):
        values = evaluator.run(distribute_batches(strategy, read), config.num_eval_steps)
    loss = total_loss(values, config.gen_weight, config.disc_weight)
    return {"loss": loss, "gen_loss": values["masked_lm_loss"], **values}


def _training_values(sums: dict, optimizer: keras.optimizers.Optimizer) -> dict[str, float]:
    values = metrics.finalize(sums)
    train = {
        name.removeprefix("train/"): value
        for name, value in values.items()
        if name.startswith("train/")
    }
    rest = {name: value for name, value in values.items() if not name.startswith("train/")}
    train["learning_rate"] = last_learning_rate(optimizer)
    return {**rest, **train}


def _next_stop(config: PretrainingConfig, step: int) -> int:
    intervals = (config.iterations_per_loop, config.log_steps, config.save_checkpoints_steps)
    stops = [(step // interval + 1) * interval for interval in intervals]
    return min(*stops, config.num_train_steps)


def _non_finite_message(terms: list[str], step: int, checkpoint: str | None) -> str:
    names = ", ".join(name.removeprefix("train/") for name in terms)
    kept = f"The last good checkpoint is {checkpoint}" if checkpoint else "None was saved yet"
    return (
        f"Step {step}: not finite: {names}. {kept}. Lower --learning_rate, lengthen "
        "--num_warmup_steps, or look at the data of this step"
    )


def _hyperparameters(config: PretrainingConfig) -> dict[str, Any]:
    return dataclasses.asdict(config)


def _describe(
    config: PretrainingConfig,
    model: PretrainingModel,
    vocabulary: Vocabulary,
    run: Runtime,
    files: list[str],
    say: Callable[[str], None],
) -> None:
    encoder = model.encoder_config
    say(
        f"Model:   {encoder.num_hidden_layers} layers, {encoder.hidden_size} hidden, "
        f"{model.electra.count_params():,} parameters in the encoder, "
        f"{model.count_params():,} trained, {config.precision}"
    )
    for line in distribution_lines(
        config,
        run.strategy,
        run.workers,
        config.train_batch_size,
        config.precision,
        train_flops_per_step(config),
    ):
        say(line)
    folder = pathlib.Path(files[0]).parent
    say(
        f"Data:    {len(files)} files in {folder}, {vocabulary.size:,} tokens in the "
        f"vocabulary, {config.train_batch_size} x {config.max_seq_length} tokens a step"
    )
    say(f"Output:  {config.model_dir}")
