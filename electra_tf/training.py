"""Pre-training from records to checkpoints, and the evaluation of a checkpoint."""

import dataclasses
import os
import pathlib
from collections.abc import Callable, Sequence
from typing import Any

import keras
import tensorflow as tf

from electra_tf import runtime
from electra_tf.checkpoints import CheckpointDirectory
from electra_tf.config.choices import UNIGRAM
from electra_tf.config.phases import Phase, records_of_length, training_phases
from electra_tf.config.pretraining import EVAL_FLAG, TRAIN_FLAG, PretrainingConfig
from electra_tf.evaluation import Evaluator, write_results
from electra_tf.flops.counting import train_flops_per_step
from electra_tf.folder_lock import only_trainer
from electra_tf.interop.initialization import initialize_from_checkpoint
from electra_tf.masking.base import TokenStatistics, strategy_class
from electra_tf.model.batch_types import SpecialTokenIds
from electra_tf.optimizer import create_optimizer
from electra_tf.pretraining_model import PretrainingModel
from electra_tf.runtime import Runtime, say_nothing
from electra_tf.startup import distribution_lines
from electra_tf.text.vocabulary import Vocabulary, load_vocabulary
from electra_tf.tf1_checkpoint import encoder_variables, tf1_variables
from electra_tf.train_log import SilentLog, TrainLog, format_metrics
from electra_tf.training_loop import TrainingLoop, evaluate_model
from electra_tf.util.errors import UserError
from pretrain_data.records.files import find_checked_record_files, find_record_files
from pretrain_data.records.manifest import load_manifest
from pretrain_data.records.token_counts import count_tokens


def train(config: PretrainingConfig, say: Callable[[str], None] = print) -> dict[str, float]:
    """Pre-trains until `num_train_steps`, going on from the newest checkpoint.

    A run without one starts from `init_checkpoint`, or else from random weights.

    Returns:
        The last evaluation's metrics, or the last training metrics without
        `eval_tfrecords`.

    Raises:
        UserError: for bad input, a checkpoint of another model, another program that trains
            into the folder, or a loss that is no longer finite; the last good checkpoint is
            kept.
        PreemptedError: SIGTERM came; a checkpoint of the last step is there.
        WorkerLostError: another worker has ended.
    """
    vocabulary = load_checked_vocabulary(config)
    batch_sizes = [
        runtime.TRAIN_BATCH_SIZE,
        *(["eval_batch_size"] if config.eval_tfrecords else []),
    ]
    with runtime.start(config, batch_sizes) as run:
        for length in (*config.length_curriculum, config.max_seq_length):
            records = records_of_length(config, length)
            _check_records(records, TRAIN_FLAG, vocabulary, config, length)
        if config.eval_tfrecords:
            _check_records(
                config.eval_tfrecords, EVAL_FLAG, vocabulary, config, config.max_seq_length
            )
        with only_trainer(config.model_dir, "--model_name or --model_dir", run.workers):
            return _train(config, vocabulary, run, say)


def _train(
    config: PretrainingConfig,
    vocabulary: Vocabulary,
    run: Runtime,
    say: Callable[[str], None],
) -> dict[str, float]:
    strategy, workers, preemption = run
    say = say if workers.is_chief else say_nothing
    model, optimizer, step = _build(config, vocabulary, strategy)
    phases = training_phases(config, model.objective.stages())
    checkpoints = CheckpointDirectory(
        config.model_dir, model, step, optimizer, config.keep_checkpoint_max, workers
    )
    # The run's own checkpoint wins over --init_checkpoint, which wins over random weights.
    resumed = checkpoints.restore_latest()
    if not resumed and config.init_checkpoint:
        _initialize(config, model, say)
    first_step = int(step.numpy())
    _describe(config, model, vocabulary, run, phases, say)
    if resumed:
        say(f"Resuming from {checkpoints.latest}, step {first_step}.")
    if first_step >= config.num_train_steps:
        say(f"Nothing to do: the run has its {config.num_train_steps} steps.")
        return {}
    checkpoints.write_description(_hyperparameters(config), vocabulary.path)
    log: TrainLog | SilentLog = SilentLog()
    if workers.is_chief:
        log = TrainLog(
            config.model_dir,
            first_step=first_step,
            num_train_steps=config.num_train_steps,
            batch_size=config.train_batch_size,
            seq_length=config.max_seq_length,
        )
    loop = TrainingLoop(config, model, optimizer, step, strategy, checkpoints, log, say)
    try:
        with preemption.deferred():
            values = loop.run(phases, preemption)
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
        files = _check_records(patterns, flag, vocabulary, config, config.max_seq_length)
        say = say if run.workers.is_chief else say_nothing
        model, step, checkpoint = load_model(config, vocabulary, run.strategy)
        say(f"Evaluating {checkpoint} on {len(files)} files of {flag}.")
        with run.strategy.scope():
            evaluator = Evaluator(model, run.strategy)
        values = evaluate_model(evaluator, run.strategy, config, patterns)
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
    """Returns the model of the newest checkpoint, its step and the checkpoint's path.

    Its objective is in the stage that the step ended.
    """
    with strategy.scope():
        model = create_model(config, vocabulary)
        step = tf.Variable(0, dtype=tf.int64, trainable=False)
    checkpoints = CheckpointDirectory(config.model_dir, model, step)
    if not checkpoints.restore_latest():
        raise UserError(
            f"There is no checkpoint in {config.model_dir}: train first, or change "
            "--model_name, --data_dir or --model_dir"
        )
    for phase in training_phases(config, model.objective.stages()):
        if phase.first_step < int(step.numpy()):
            model.objective.stage = phase.stage
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


def create_model(config: PretrainingConfig, vocabulary: Vocabulary) -> PretrainingModel:
    """Returns the model with random weights; counts the records' tokens if it needs to.

    Raises:
        UserError: there are no records to count.
    """
    counts = None
    if strategy_class(config).needs_counts or config.generator_type == UNIGRAM:
        counts = count_tokens(
            records_of_length(config, config.max_seq_length),
            vocab_size=config.vocab_size,
            max_seq_length=config.max_seq_length,
            skip_bad_records=config.skip_bad_records,
            flag=TRAIN_FLAG,
        )
    facts = TokenStatistics.of(vocabulary.tokens, counts)
    return PretrainingModel(config, special_token_ids(vocabulary), facts)


def _build(
    config: PretrainingConfig, vocabulary: Vocabulary, strategy: tf.distribute.Strategy
) -> tuple[PretrainingModel, keras.optimizers.Optimizer, tf.Variable]:
    keras.utils.set_random_seed(config.seed)
    with strategy.scope():
        model = create_model(config, vocabulary)
        optimizer = create_optimizer(config, model)
        optimizer.build(model.trainable_variables)
        step = tf.Variable(0, dtype=tf.int64, trainable=False)
    return model, optimizer, step


def _check_records(
    patterns: str,
    flag: str,
    vocabulary: Vocabulary,
    config: PretrainingConfig,
    seq_length: int,
) -> list[str]:
    files = find_checked_record_files(
        patterns, seq_length, flag, skip_bad_records=config.skip_bad_records
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


def _hyperparameters(config: PretrainingConfig) -> dict[str, Any]:
    return dataclasses.asdict(config)


def _describe(
    config: PretrainingConfig,
    model: PretrainingModel,
    vocabulary: Vocabulary,
    run: Runtime,
    phases: Sequence[Phase],
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
    for length, records in {phase.seq_length: phase.tfrecords for phase in phases}.items():
        files = find_record_files(records, TRAIN_FLAG)
        folder = pathlib.Path(files[0]).parent
        say(
            f"Data:    {len(files)} files in {folder}, {vocabulary.size:,} tokens in the "
            f"vocabulary, {config.train_batch_size} x {length} tokens a step"
        )
    if len(phases) > 1:
        for phase in phases:
            stage = model.objective.stages()[phase.stage].name
            say(
                f"Phase:   {stage}, {phase.seq_length} tokens, steps {phase.first_step + 1} to "
                f"{phase.end_step}"
            )
    say(f"Output:  {config.model_dir}")
