"""The pre-training loop: steps, logs, checkpoints and evaluations, phase by phase."""

from collections.abc import Callable, Sequence

import keras
import tensorflow as tf

from electra_tf.config.phases import Phase
from electra_tf.config.pretraining import EVAL_FLAG, TRAIN_FLAG, PretrainingConfig
from electra_tf.model import metrics
from electra_tf.pretraining_model import PretrainingModel
from electra_tf.training.checkpoints import CheckpointDirectory
from electra_tf.training.distribution.context import discard
from electra_tf.training.distribution.shards import DataShard
from electra_tf.training.distribution.strategies import distribute_batches
from electra_tf.training.distribution.workers import Preemption
from electra_tf.training.evaluation import HeldOutEvaluator
from electra_tf.training.learning_rate import last_learning_rate
from electra_tf.training.log import SilentLog, TrainLog
from electra_tf.training.optimizer import reset_moments
from electra_tf.training.step import TrainingSteps
from electra_tf.util.errors import PreemptedError, UserError
from pretrain_data.records.files import locate_bad_records
from pretrain_data.records.reader import read_pretraining_records


class TrainingLoop:
    """Runs the phases of a run from the step that its checkpoint has.

    Args:
        config: of the run.
        model, optimizer, step: restored, created inside `strategy.scope()`.
        strategy: over whose replicas batches are spread.
        checkpoints: of the three.
        log: of metrics.
        say: prints a line.
    """

    def __init__(
        self,
        config: PretrainingConfig,
        model: PretrainingModel,
        optimizer: keras.optimizers.Optimizer,
        step: tf.Variable,
        strategy: tf.distribute.Strategy,
        checkpoints: CheckpointDirectory,
        log: TrainLog | SilentLog,
        say: Callable[[str], None],
    ) -> None:
        self._config = config
        self._model = model
        self._optimizer = optimizer
        self._step = step
        self._strategy = strategy
        self._checkpoints = checkpoints
        self._log = log
        self._say = say

    def run(self, phases: Sequence[Phase], preemption: Preemption) -> dict[str, float]:
        """Returns the last metrics: of an evaluation, or of training where there is none.

        Raises:
            UserError: a record cannot be read, or a loss is no longer finite.
            PreemptedError: the run was told to end; a checkpoint of its last step is there.
        """
        values: dict[str, float] = {}
        stage, steps, evaluator = None, None, None
        for phase in phases:
            current = int(self._step.numpy())
            if current >= phase.end_step:
                continue
            if phase.stage != stage:
                stage = phase.stage
                self._model.stage = stage
                if phase.starts_stage and current == phase.first_step:
                    self._start_stage(stage)
                # A step is traced for one stage.
                steps, evaluator = self._compiled()
                self._say("Compiling the training step …")
            values = self._run_phase(phase, steps, evaluator, preemption)
        return values

    def _start_stage(self, stage: int) -> None:
        self._model.start_stage()
        if stage:
            reset_moments(self._optimizer)

    def _compiled(self) -> tuple[TrainingSteps, HeldOutEvaluator]:
        with self._strategy.scope():
            steps = TrainingSteps(
                self._model,
                self._optimizer,
                self._strategy,
                self._step,
                seed=self._config.seed,
                clip_norm=self._config.clip_norm,
                accumulation_steps=self._config.gradient_accumulation_steps,
                jit_compile=self._config.jit_compile,
            )
            return steps, HeldOutEvaluator(self._model, self._strategy)

    def _run_phase(
        self,
        phase: Phase,
        steps: TrainingSteps,
        evaluator: HeldOutEvaluator,
        preemption: Preemption,
    ) -> dict[str, float]:
        config, log, checkpoints = self._config, self._log, self._checkpoints
        current = int(self._step.numpy())
        iterator = iter(self._batches(phase, current))
        log.set_length(phase.seq_length)
        values: dict[str, float] = {}
        while current < phase.end_step:
            target = min(_next_stop(config, current), phase.end_step)
            with locate_bad_records(phase.tfrecords, TRAIN_FLAG, phase.seq_length):
                steps.run(iterator, target - current)
            current = int(self._step.numpy())
            bad = steps.non_finite_terms()
            if bad:
                raise UserError(_non_finite_message(bad, current, checkpoints.latest))
            last = current == config.num_train_steps
            if current == phase.end_step or current % config.log_steps == 0:
                values = _training_values(steps.read_metrics(), self._optimizer)
                log.training(current, values)
            if last or current % config.save_checkpoints_steps == 0:
                checkpoints.save()
                if config.eval_tfrecords:
                    values = evaluate_model(
                        evaluator, self._strategy, config, config.eval_tfrecords
                    )
                    log.evaluation(current, values)
                log.restart_clock()
            if not last and preemption.requested():
                if current % config.save_checkpoints_steps:
                    checkpoints.save()
                raise PreemptedError(
                    f"Preempted at step {current}; saved {checkpoints.latest}. Run the "
                    "same command again to go on."
                )
        return values

    def _batches(self, phase: Phase, first_step: int) -> tf.distribute.DistributedDataset:
        config = self._config

        def read(shard: DataShard) -> tf.data.Dataset:
            return read_pretraining_records(
                phase.tfrecords,
                max_seq_length=phase.seq_length,
                batch_size=config.train_batch_size,
                seed=config.seed,
                shuffle_buffer_size=config.shuffle_buffer_size,
                deterministic=config.deterministic_reading,
                skip_bad_records=config.skip_bad_records,
                start_example=(first_step - phase.length_first_step) * config.train_batch_size,
                shard=shard,
                flag=TRAIN_FLAG,
                say=self._say,
            )

        return distribute_batches(self._strategy, read, config.shard_by)


def evaluate_model(
    evaluator: HeldOutEvaluator,
    strategy: tf.distribute.Strategy,
    config: PretrainingConfig,
    patterns: str,
) -> dict[str, float]:
    """Returns the metrics of held-out records, or of some to train on where there are none.

    Raises:
        UserError: a record cannot be read.
    """
    flag = EVAL_FLAG if config.eval_tfrecords else TRAIN_FLAG

    def read(shard: DataShard) -> tf.data.Dataset:
        return read_pretraining_records(
            patterns,
            max_seq_length=config.max_seq_length,
            batch_size=config.eval_batch_size,
            skip_bad_records=config.skip_bad_records,
            repeat=False,
            shard=shard,
            flag=flag,
            say=discard,
        )

    with locate_bad_records(patterns, flag, config.max_seq_length):
        return evaluator.run(distribute_batches(strategy, read), config.num_eval_steps)


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
