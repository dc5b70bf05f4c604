"""Pre-training from batches to checkpoints, and evaluation of checkpoints."""

import dataclasses
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, Protocol

import keras
import numpy as np
import tensorflow as tf

from electra_tf.config.hyperparameters import TRAINING
from electra_tf.config.phases import Phase, training_phases
from electra_tf.config.pretraining import PretrainingConfig
from electra_tf.config.recorded_settings import Change
from electra_tf.config.resumption import (
    DATA,
    VOCABULARY,
    changes_of_resumed_run,
    check_allowed_names,
    describe_changes,
)
from electra_tf.config.saved_config import load_saved_config
from electra_tf.flops.counting import train_flops_per_step
from electra_tf.interop.initialization import (
    initialize_from_checkpoint,
    resume_authors_run,
)
from electra_tf.interop.variable_names import encoder_variables, named_variables
from electra_tf.model_builder import (
    create_training_state,
    load_checked_vocabulary,
    load_model,
)
from electra_tf.pretraining_model import PretrainingModel
from electra_tf.text.description import TokenizerDescription
from electra_tf.text.vocabulary import Vocabulary
from electra_tf.training.authors_files import (
    authors_checkpoint,
    has_only_authors_checkpoint,
    has_own_checkpoint,
)
from electra_tf.training.checkpoints import CheckpointDirectory, lock_model_dir
from electra_tf.training.distribution import context
from electra_tf.training.distribution.context import DistributionContext, describe_devices
from electra_tf.training.distribution.shards import DataShard
from electra_tf.training.distribution.strategies import distribute_batches
from electra_tf.training.distribution.workers import Workers
from electra_tf.training.evaluation import HeldOutEvaluator, write_results
from electra_tf.training.log import SilentLog, TrainLog, format_metrics
from electra_tf.training.loop import (
    Evaluation,
    Intervals,
    Segment,
    run_loop,
    training_values,
)
from electra_tf.training.optimizer import reset_moments
from electra_tf.training.step import TrainingSteps
from electra_tf.util.console import discard
from electra_tf.util.errors import UserError

PrintFn = Callable[[str], None]


class PretrainingRecords(Protocol):
    """Source of examples for training or evaluation; see `pretrain_data.records.source`."""

    def check(
        self,
        vocabulary: Vocabulary,
        tokenizer: TokenizerDescription,
        seq_lengths: Sequence[int],
    ) -> None:
        """Checks that there are examples of these lengths, built with this tokenizer.

        Raises:
            UserError: they are missing or differ; nothing has been built or written.
        """

    def describe(self, seq_length: int) -> str:
        """Describes the examples of a length, such as "8 files in DIR"."""

    def fingerprint(self, seq_length: int) -> str:
        """Returns a digest of the examples of a length, the same wherever they are."""

    def batches(
        self, *, first_example: int, batch_size: int, seq_length: int, shard: DataShard
    ) -> tf.data.Dataset:
        """Returns batches of `input_ids`, `input_mask`, `segment_ids`, int32 [rows, length].

        Training batches are endless, and those after `first_example` examples are the same as
        in an uninterrupted run. Held-out examples are read once, and the last batch is
        padded.

        Args:
            first_example: number of examples of this length already read by all workers.
            batch_size: global batch size.
            seq_length: sequence length, in tokens.
            shard: share of the worker, with one batch for each of its replicas in turn.
        """

    def token_counts(self, vocab_size: int) -> np.ndarray:
        """Returns the number of occurrences of each token, int64 [vocab_size]."""

    def locating_damage(self, seq_length: int) -> AbstractContextManager[None]:
        """Turns read errors of examples of a length into ones that locate the damage."""


def train(
    config: PretrainingConfig,
    records: PretrainingRecords,
    eval_records: PretrainingRecords | None = None,
    print_fn: PrintFn = print,
) -> dict[str, float]:
    """Pre-trains for `num_train_steps`, resuming from the latest checkpoint.

    Without a checkpoint, the run starts from `init_checkpoint`, else from random weights.

    Args:
        config: hyperparameters.
        records: training records.
        eval_records: held-out records, evaluated at every checkpoint.
        print_fn: prints a line about the run.

    Returns:
        The metrics of the last evaluation, or of training without `eval_records`.

    Raises:
        UserError: the input is invalid, the checkpoint is of another model, another program
            trains into the folder, or the loss is not finite; the last good checkpoint is
            kept.
        PreemptedError: the run was preempted, after saving its last step.
        WorkerLostError: another worker has failed.
    """
    check_allowed_names(config)
    vocabulary = load_checked_vocabulary(config)
    batch_sizes = [context.TRAIN_BATCH_SIZE]
    batch_sizes += ["eval_batch_size"] if eval_records is not None else []
    with context.open_context(config, batch_sizes) as run:
        lengths = (*config.length_curriculum, config.max_seq_length)
        records.check(vocabulary, _tokenizer(config, vocabulary), lengths)
        if eval_records is not None:
            eval_records.check(vocabulary, _tokenizer(config, vocabulary), lengths[-1:])
        print_fn = print_fn if run.workers.is_chief else discard
        with lock_model_dir(config.model_dir, "--model_name or --model_dir", run.workers):
            return _train(config, vocabulary, records, eval_records, run, print_fn)


def _train(
    config: PretrainingConfig,
    vocabulary: Vocabulary,
    records: PretrainingRecords,
    eval_records: PretrainingRecords | None,
    run: DistributionContext,
    print_fn: PrintFn,
) -> dict[str, float]:
    strategy, workers, preemption = run
    if config.debug:
        _remove_debug_run(config.model_dir, workers)
    settings = _settings(config, vocabulary, records)
    workers.require_equal({name: settings[name] for name in (DATA, VOCABULARY)})
    changes: list[Change] = []
    if has_own_checkpoint(config.model_dir):
        changes = changes_of_resumed_run(config, settings)
    model, optimizer, step = create_training_state(
        config, vocabulary, strategy, records.token_counts
    )
    checkpoints = CheckpointDirectory(
        config.model_dir, model, step, optimizer, config.keep_checkpoint_max, workers
    )
    # Precedence: the run's own checkpoint, one of the authors' code in its folder,
    # --init_checkpoint, random weights.
    resumed = False
    if has_only_authors_checkpoint(config.model_dir):
        resume_authors_run(config.model_dir, model, optimizer, step, print_fn)
    else:
        resumed = checkpoints.restore_latest()
        if not resumed and config.init_checkpoint:
            _initialize(config, model, print_fn)
    first_step = int(step.numpy())
    describe_run(config, model, vocabulary, records, run, print_fn)
    if resumed:
        print_fn(f"Resuming from {checkpoints.latest}, step {first_step}.")
    for line in describe_changes(changes):
        print_fn(line)
    if first_step >= config.num_train_steps:
        print_fn(f"Nothing to do: all {config.num_train_steps} steps are done.")
        return {}
    checkpoints.write_description(settings, vocabulary.path)
    log: TrainLog | SilentLog = SilentLog()
    if workers.is_chief:
        log = TrainLog(
            config.model_dir,
            first_step=first_step,
            num_train_steps=config.num_train_steps,
            batch_size=config.train_batch_size,
            seq_length=config.max_seq_length,
        )
    log.settings(first_step, [each for each in changes if each.influence == TRAINING])
    phases = _Phases(
        config, model, optimizer, step, records, eval_records, strategy, log, print_fn
    )
    result = run_loop(
        phases.segments(),
        step=step,
        num_train_steps=config.num_train_steps,
        intervals=Intervals(
            host_loop=config.iterations_per_loop,
            log=config.log_steps,
            save=config.save_checkpoints_steps,
            evaluate=config.save_checkpoints_steps,
        ),
        checkpoints=checkpoints,
        log=log,
        preemption=preemption,
        summarize=partial(training_values, optimizer=optimizer),
        diverged=_non_finite_error,
        evaluate=phases.evaluate if eval_records is not None else None,
    )
    print_fn(f"Checkpoint:  {checkpoints.latest}")
    if isinstance(log, TrainLog):
        print_fn(f"Log:         {log.path}")
        print_fn(f"TensorBoard: tensorboard --logdir {log.tensorboard_dir}")
    return result.values


@dataclasses.dataclass
class _Phases:
    """The phases of a run as segments of the training loop, and their evaluation.

    The training step and the evaluator are traced once per stage of the objective.
    """

    config: PretrainingConfig
    model: PretrainingModel
    optimizer: keras.optimizers.Optimizer
    step: tf.Variable
    records: PretrainingRecords
    eval_records: PretrainingRecords | None
    strategy: tf.distribute.Strategy
    log: TrainLog | SilentLog
    print_fn: PrintFn
    evaluator: HeldOutEvaluator | None = None

    def segments(self) -> Iterator[Segment]:
        """Yields the remaining phases, the first one starting at the current step."""
        stage, steps = None, None
        for phase in training_phases(self.config, self.model.stages()):
            current = int(self.step.numpy())
            if current >= phase.end_step:
                continue
            if phase.stage != stage:
                stage = phase.stage
                self.model.stage = stage
                if phase.starts_stage and current == phase.first_step:
                    self.model.start_stage()
                    if stage:
                        reset_moments(self.optimizer)
                steps = self._compile()
                self.print_fn("Compiling the training step …")
            batches = iter(self._batches(phase, current))
            self.log.set_length(phase.seq_length)
            guard = partial(self.records.locating_damage, phase.seq_length)
            yield Segment(phase.end_step, steps, batches, guard)

    def evaluate(self) -> Evaluation:
        """Returns the metrics of the held-out records."""
        return Evaluation(
            _evaluate(self.config, self.evaluator, self.eval_records, self.strategy)
        )

    def _compile(self) -> TrainingSteps:
        config = self.config
        with self.strategy.scope():
            self.evaluator = HeldOutEvaluator(self.model, self.strategy)
            return TrainingSteps(
                self.model,
                self.optimizer,
                self.strategy,
                self.step,
                seed=config.seed,
                clip_norm=config.clip_norm,
                accumulation_steps=config.gradient_accumulation_steps,
                jit_compile=config.jit_compile,
            )

    def _batches(self, phase: Phase, current: int) -> tf.distribute.DistributedDataset:
        batch_size = self.config.train_batch_size

        def read(shard: DataShard) -> tf.data.Dataset:
            return self.records.batches(
                first_example=(current - phase.length_first_step) * batch_size,
                batch_size=batch_size,
                seq_length=phase.seq_length,
                shard=shard,
            )

        return distribute_batches(self.strategy, read, self.config.shard_by)


def evaluate(
    config: PretrainingConfig, records: PretrainingRecords, print_fn: PrintFn = print
) -> dict[str, float]:
    """Evaluates the latest checkpoint on `records` and writes its metrics.

    Raises:
        UserError: the input is invalid, or there is no checkpoint.
    """
    vocabulary = load_checked_vocabulary(config)
    with context.open_context(config, ["eval_batch_size"]) as run:
        records.check(vocabulary, _tokenizer(config, vocabulary), [config.max_seq_length])
        print_fn = print_fn if run.workers.is_chief else discard
        model, step, checkpoint = load_model(
            config, vocabulary, run.strategy, records.token_counts
        )
        print_fn(f"Evaluating {checkpoint} on {records.describe(config.max_seq_length)}.")
        with run.strategy.scope():
            evaluator = HeldOutEvaluator(model, run.strategy)
        values = _evaluate(config, evaluator, records, run.strategy)
        if run.workers.is_chief:
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


def _evaluate(
    config: PretrainingConfig,
    evaluator: HeldOutEvaluator,
    records: PretrainingRecords,
    strategy: tf.distribute.Strategy,
) -> dict[str, float]:
    def read(shard: DataShard) -> tf.data.Dataset:
        return records.batches(
            first_example=0,
            batch_size=config.eval_batch_size,
            seq_length=config.max_seq_length,
            shard=shard,
        )

    with records.locating_damage(config.max_seq_length):
        return evaluator.run(distribute_batches(strategy, read), config.num_eval_steps)


def _initialize(config: PretrainingConfig, model: PretrainingModel, print_fn: PrintFn) -> None:
    """Loads the whole encoder, and the rest if available; the optimizer is not loaded."""
    initialize_from_checkpoint(
        config.init_checkpoint,
        named_variables(model),
        encoder_variables(model.electra),
        flag="--init_checkpoint",
        print_fn=print_fn,
    )


def _remove_debug_run(model_dir: str, workers: Workers) -> None:
    """Removes the folder of an earlier debug run: as with the authors, each starts anew.

    Raises:
        UserError: the folder has checkpoints of a run that was not one of debug mode.
    """
    saved = load_saved_config(model_dir)
    is_debug = saved is not None and saved.hyperparameters.get("debug")
    if not is_debug and (has_own_checkpoint(model_dir) or authors_checkpoint(model_dir)):
        raise UserError(
            f"--debug would replace the run in {model_dir}: pass another --model_name"
        )
    workers.barrier()
    if is_debug and workers.is_chief:
        shutil.rmtree(model_dir)
    workers.barrier()


def _settings(
    config: PretrainingConfig, vocabulary: Vocabulary, records: PretrainingRecords
) -> dict[str, Any]:
    """Returns what is recorded of a run: hyperparameters, and digests of its data."""
    lengths = (*config.length_curriculum, config.max_seq_length)
    return {
        **dataclasses.asdict(config),
        DATA: {str(length): records.fingerprint(length) for length in lengths},
        VOCABULARY: vocabulary.sha256,
    }


def _tokenizer(config: PretrainingConfig, vocabulary: Vocabulary) -> TokenizerDescription:
    return TokenizerDescription(
        vocab_sha256=vocabulary.sha256,
        do_lower_case=config.do_lower_case,
        strip_accents=config.strip_accents,
    )


def _non_finite_error(terms: Sequence[str], step: int, checkpoint: str | None) -> UserError:
    names = ", ".join(name.removeprefix("train/") for name in terms)
    kept = f"The last good checkpoint is {checkpoint}" if checkpoint else "No checkpoint yet"
    return UserError(
        f"Step {step}: not finite: {names}. {kept}. Reduce --learning_rate, increase "
        "--num_warmup_steps, or check the data of this step"
    )


def describe_run(
    config: PretrainingConfig,
    model: PretrainingModel,
    vocabulary: Vocabulary,
    records: PretrainingRecords,
    run: DistributionContext,
    print_fn: PrintFn,
) -> None:
    """Prints the model, the devices, the data and the phases of a run."""
    encoder = model.encoder_config
    print_fn(
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
        print_fn(line)
    stages = model.stages()
    phases = training_phases(config, stages)
    for length in dict.fromkeys(phase.seq_length for phase in phases):
        print_fn(
            f"Data:    {records.describe(length)}, {vocabulary.size:,} tokens in the "
            f"vocabulary, {config.train_batch_size} x {length} tokens a step"
        )
    if len(phases) > 1:
        for phase in phases:
            print_fn(
                f"Phase:   {stages[phase.stage].name}, {phase.seq_length} tokens, steps "
                f"{phase.first_step + 1} to {phase.end_step}"
            )
    print_fn(f"Output:  {config.model_dir}")
