"""Pre-training from records to checkpoints, and the evaluation of a checkpoint."""

import dataclasses
import os
import pathlib
from collections.abc import Callable, Sequence
from typing import Any

from electra_tf.config.phases import Phase, records_of_length, training_phases
from electra_tf.config.pretraining import EVAL_FLAG, TRAIN_FLAG, PretrainingConfig
from electra_tf.flops.counting import train_flops_per_step
from electra_tf.interop.initialization import initialize_from_checkpoint
from electra_tf.interop.variable_names import encoder_variables, named_variables
from electra_tf.model_builder import (
    create_training_state,
    load_checked_vocabulary,
    load_model,
)
from electra_tf.pretraining_model import PretrainingModel
from electra_tf.text.vocabulary import Vocabulary
from electra_tf.training.checkpoints import CheckpointDirectory, lock_model_dir
from electra_tf.training.distribution import context
from electra_tf.training.distribution.context import (
    DistributionContext,
    describe_devices,
    discard,
)
from electra_tf.training.evaluation import HeldOutEvaluator, write_results
from electra_tf.training.log import SilentLog, TrainLog, format_metrics
from electra_tf.training.loop import TrainingLoop, evaluate_model
from electra_tf.util.errors import UserError
from pretrain_data.records.files import find_checked_record_files, find_record_files
from pretrain_data.records.manifest import load_manifest


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
        context.TRAIN_BATCH_SIZE,
        *(["eval_batch_size"] if config.eval_tfrecords else []),
    ]
    with context.open_context(config, batch_sizes) as run:
        for length in (*config.length_curriculum, config.max_seq_length):
            records = records_of_length(config, length)
            _check_records(records, TRAIN_FLAG, vocabulary, config, length)
        if config.eval_tfrecords:
            _check_records(
                config.eval_tfrecords, EVAL_FLAG, vocabulary, config, config.max_seq_length
            )
        with lock_model_dir(config.model_dir, "--model_name or --model_dir", run.workers):
            return _train(config, vocabulary, run, say)


def _train(
    config: PretrainingConfig,
    vocabulary: Vocabulary,
    run: DistributionContext,
    say: Callable[[str], None],
) -> dict[str, float]:
    strategy, workers, preemption = run
    say = say if workers.is_chief else discard
    model, optimizer, step = create_training_state(config, vocabulary, strategy)
    phases = training_phases(config, model.stages())
    checkpoints = CheckpointDirectory(
        config.model_dir, model, step, optimizer, config.keep_checkpoint_max, workers
    )
    # The run's own checkpoint wins over --init_checkpoint, which wins over random weights.
    resumed = checkpoints.restore_latest()
    if not resumed and config.init_checkpoint:
        _initialize(config, model, say)
    first_step = int(step.numpy())
    describe_run(config, model, vocabulary, run, phases, say)
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
        named_variables(model),
        encoder_variables(model.electra),
        flag="--init_checkpoint",
        print_fn=say,
    )


def evaluate(config: PretrainingConfig, say: Callable[[str], None] = print) -> dict[str, float]:
    """Evaluates the newest checkpoint and writes its metrics.

    Raises:
        UserError: for bad input, or where there is no checkpoint.
    """
    vocabulary = load_checked_vocabulary(config)
    patterns = config.eval_tfrecords or config.pretrain_tfrecords
    flag = EVAL_FLAG if config.eval_tfrecords else TRAIN_FLAG
    with context.open_context(config, ["eval_batch_size"]) as run:
        files = _check_records(patterns, flag, vocabulary, config, config.max_seq_length)
        say = say if run.workers.is_chief else discard
        model, step, checkpoint = load_model(config, vocabulary, run.strategy)
        say(f"Evaluating {checkpoint} on {len(files)} files of {flag}.")
        with run.strategy.scope():
            evaluator = HeldOutEvaluator(model, run.strategy)
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


def describe_run(
    config: PretrainingConfig,
    model: PretrainingModel,
    vocabulary: Vocabulary,
    run: DistributionContext,
    phases: Sequence[Phase],
    say: Callable[[str], None],
) -> None:
    encoder = model.encoder_config
    say(
        f"Model:   {encoder.num_hidden_layers} layers, {encoder.hidden_size} hidden, "
        f"{model.electra.count_params():,} parameters in the encoder, "
        f"{model.count_params():,} trained, {config.precision}"
    )
    for line in describe_devices(
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
            stage = model.stages()[phase.stage].name
            say(
                f"Phase:   {stage}, {phase.seq_length} tokens, steps {phase.first_step + 1} to "
                f"{phase.end_step}"
            )
    say(f"Output:  {config.model_dir}")
