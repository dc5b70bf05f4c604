"""Trains and evaluates a model; trials and folds share compiled graphs."""

import functools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf

from electra_tf.config.nonfinite_fields import SKIP
from electra_tf.config.saved_config import load_saved_config
from electra_tf.interop.model_checkpoint import TaskDescription
from electra_tf.training.checkpoints.authors_files import has_only_authors_checkpoint
from electra_tf.training.checkpoints.checkpoint_directory import CheckpointDirectory
from electra_tf.training.distribution.context import DistributionContext
from electra_tf.training.loop import Intervals, Segment, run_loop, training_values
from electra_tf.training.monitoring.health import facts_of
from electra_tf.training.monitoring.log import SilentLog, TrainLog
from electra_tf.training.monitoring.run_info import (
    describe_other_parts,
    read_log,
    training_seconds,
    write_run_info,
)
from electra_tf.training.monitoring.trackers import open_trackers
from electra_tf.training.nonfinite import describe_terms
from electra_tf.training.optimizer import reset_optimizer
from electra_tf.training.step import TrainingSteps
from electra_tf.util.console import discard
from electra_tf.util.errors import UserError
from finetune.config.defaults import RANDOM_INIT
from finetune.config.finetuning import FinetuningConfig
from finetune.config.saved_settings import warn_of_unfinished
from finetune.data.batches import (
    BatchPlan,
    FeatureTable,
    iterate_batches,
    plan_training_batches,
)
from finetune.dev_evaluations import DevEvaluations, Evaluate
from finetune.initialization import (
    find_checkpoint,
    initial_digest,
    load_encoder_and_heads,
    load_pretrained_encoder,
)
from finetune.model import MEAN, FinetuningModel
from finetune.optimizer import compile_steps
from finetune.predictor import Predictor
from finetune.tasks.base import Outputs, Scores, SplitData, Task

MAX_LOG_STEPS = 100


class DivergedError(Exception):
    """The loss or gradient of a step is not finite."""


class TrainedTrial(NamedTuple):
    """Result of training: number of steps, the step whose weights were kept, and seconds.

    The seconds are the wall time of this start, plus the training time of earlier starts.
    """

    steps: int
    best_step: int | None
    seconds: float


class Trainer:
    """A model and its compiled steps; `start` reinitializes it for each trial.

    Args:
        config: hyperparameters.
        tasks: tasks, trained jointly.
        context: distribution of the run.
        print_fn: prints a message.
    """

    def __init__(
        self,
        config: FinetuningConfig,
        tasks: Sequence[Task],
        context: DistributionContext,
        print_fn: Callable[[str], None] = print,
    ) -> None:
        self._config = config
        self._tasks = tasks
        self._strategy = context.strategy
        self._side_by_side = context.side_by_side
        self._num_parts = context.num_parts(config.gradient_accumulation_steps)
        self.workers = context.workers
        self._preemption = context.preemption
        self._print_fn = print_fn
        self._has_started = False
        # SHA-256 of the encoder's weights that the last `start` loaded.
        self.pretrained_digest = RANDOM_INIT
        keras.utils.set_random_seed(config.seed)
        with context.strategy.scope():
            self.model = self._fresh_model()
            self._step = tf.Variable(0, dtype=tf.int64, trainable=False)
            self._seed = tf.Variable(config.seed, dtype=tf.int64, trainable=False)
        self._predictor = Predictor(
            self.model, context.strategy, buckets=self.buckets, jit_compile=config.jit_compile
        )
        self._optimizer: keras.optimizers.Optimizer | None = None
        self._steps: TrainingSteps | None = None
        self._num_train_steps = 0

    def start(self, seed: int) -> None:
        """Reinitializes the model: heads with `seed`, the encoder from its checkpoint.

        Raises:
            UserError: the checkpoint's encoder is incomplete.
        """
        keras.utils.set_random_seed(seed)
        with self._strategy.scope():
            fresh = self._fresh_model()
        for variable, value in zip(self.model.variables, fresh.variables, strict=True):
            variable.assign(value)
        prefix = find_checkpoint(self._config)
        if prefix is not None:
            print_fn = discard if self._has_started else self._print_fn
            self.pretrained_digest = load_pretrained_encoder(
                self._config, prefix, self.model.electra, print_fn
            )
        elif not self._has_started:
            self._print_fn("Encoder: random weights.")
        self.workers.require_equal_weights(
            self.model.variables, prefix or "the random initialization"
        )
        self._has_started = True
        self._seed.assign(seed)
        self._step.assign(0)
        if self._optimizer is not None:
            self._steps.reset()  # after a trial that diverged or stopped early
            reset_optimizer(self._optimizer)

    def train(
        self,
        data: Mapping[str, SplitData],
        *,
        num_train_steps: int,
        seed: int,
        model_dir: str,
        evaluate: Evaluate | None,
        eval_steps: int,
        hyperparameters: Mapping[str, object],
    ) -> TrainedTrial:
        """Trains for `num_train_steps`, or until the dev score stops improving.

        Resumes from the latest checkpoint of `model_dir`, and saves the final weights there:
        those of the best evaluation with `keep_best`, else the last ones.

        Args:
            data: the train split of each task, by name.
            num_train_steps: number of training steps; the learning rate decays to 0 by then.
            seed: random seed of the order of examples and of dropout.
            model_dir: folder of checkpoints and logs.
            evaluate: returns the selection metric and all metrics; None never evaluates.
            eval_steps: evaluation interval, in steps.
            hyperparameters: written to `config.json`.

        Raises:
            DivergedError: the loss or a gradient is not finite.
            PreemptedError: the run was preempted, after saving its last step.
        """
        config = self._config
        training_steps, optimizer = self._compile(num_train_steps)
        checkpoints = self._resume(model_dir, optimizer, hyperparameters)
        dev = DevEvaluations(
            config, model_dir, self.model, self._step, self.workers, evaluate, eval_steps
        )
        first_step = int(self._step.numpy())
        if 0 < first_step < num_train_steps and self.model.encoder_config.has_dropout:
            for line in describe_other_parts(model_dir, self._num_parts):
                self._print_fn(line)
        table, plan = self._plan_batches(data, num_train_steps, seed)
        log = self._open_log(model_dir, first_step, num_train_steps, hyperparameters)
        # Read only now: opening the log dropped the records of steps that will be repeated.
        earlier = read_log(log.path) if isinstance(log, TrainLog) else []

        start = time.monotonic()
        # A run killed between its early stop and its last checkpoint must not train further.
        had_stopped = first_step < num_train_steps and dev.stops
        segments = self._segments(training_steps, table, plan, first_step, num_train_steps)
        result = run_loop(
            () if had_stopped else segments,
            step=self._step,
            num_train_steps=num_train_steps,
            intervals=Intervals(
                host_loop=config.iterations_per_loop,
                log=config.log_steps or min(MAX_LOG_STEPS, max(1, num_train_steps // 20)),
                save=config.save_checkpoints_steps,
                evaluate=dev.interval,
            ),
            checkpoints=checkpoints,
            log=log,
            preemption=self._preemption,
            summarize=self._summarize,
            non_finite_error=functools.partial(
                _diverged_error, skipping=config.on_nonfinite == SKIP
            ),
            evaluate=None if evaluate is None else dev.evaluate,
            save_last=False,
        )
        seconds = training_seconds(earlier) + time.monotonic() - start
        for line in log.health():
            self._print_fn(line)
        if result.stopped_early or had_stopped:
            self._print_fn(dev.describe_stop())

        steps = result.step
        if first_step < num_train_steps:
            dev.restore_best(self._print_fn)
            # A checkpoint at the last step marks the run as finished.
            self._step.assign(num_train_steps)
            checkpoints.save()
        elif first_step == num_train_steps and config.early_stopping_patience is not None:
            # A finished run's checkpoint is at `num_train_steps`, even if it stopped early.
            steps = dev.last_step or steps
        return TrainedTrial(steps, dev.best_step, seconds)

    @functools.cached_property
    def initial_digest(self) -> str | None:
        """SHA-256 of the encoder that training would start from; None if there is none."""
        return initial_digest(self._config.init_checkpoint)

    def restore(self, model_dir: str, *, announces: bool = True) -> None:
        """Loads the fine-tuned weights in a folder, also from the authors' checkpoints.

        Args:
            model_dir: the folder.
            announces: print what is loaded.

        Raises:
            UserError: there are none, or they belong to another model.
        """
        if has_only_authors_checkpoint(model_dir):
            self.load_encoder_and_heads(model_dir, announces=announces)
            return
        checkpoints = CheckpointDirectory(
            model_dir, self.model, self._step, workers=self.workers
        )
        if not checkpoints.restore_latest():
            raise UserError(
                f"There is no fine-tuned model in {model_dir}: train first, or change "
                "--model_dir, --model_name or --task_names"
            )
        self.workers.require_equal_weights(self.model.variables, checkpoints.latest)
        if announces:
            self._print_fn(f"Weights: {checkpoints.latest}")
        if description := load_saved_config(model_dir):
            step = int(self._step.numpy())
            warn_of_unfinished(description.hyperparameters, step, checkpoints.latest)

    def load_encoder_and_heads(
        self, path: str, *, announces: bool = True
    ) -> Mapping[str, TaskDescription]:
        """Loads a fine-tuned model, and returns the descriptions of its tasks by name.

        Args:
            path: the model, in any format.
            announces: print what is loaded.

        Raises:
            UserError: it has no fine-tuned heads for the tasks, or has another size.
        """
        print_fn = self._print_fn if announces else discard
        step, tasks = load_encoder_and_heads(self.model, path, print_fn)
        self.workers.require_equal_weights(self.model.variables, path)
        self._step.assign(step)
        return tasks

    def predict(
        self, task: Task, data: SplitData, batch_size: int | None = None
    ) -> list[Outputs]:
        """Returns the outputs of the task's head for every row, in order."""
        return self._predictor.predict(task, data, batch_size or self._config.eval_batch_size)

    def evaluate(self, task: Task, data: SplitData) -> Scores:
        """Returns the scores of a labeled split."""
        return task.score(data, self.predict(task, data))

    @property
    def is_chief(self) -> bool:
        """Whether this worker writes files."""
        return self.workers.is_chief

    @property
    def buckets(self) -> tuple[int, ...]:
        """Length buckets of batches."""
        buckets = tuple(self._config.length_buckets)
        return buckets if self._config.bucket_by_length else buckets[-1:]

    def _compile(
        self, num_train_steps: int
    ) -> tuple[TrainingSteps, keras.optimizers.Optimizer]:
        """Returns steps and optimizer; recompiles only if `num_train_steps` has changed."""
        if self._steps is None or self._num_train_steps != num_train_steps:
            self._steps, self._optimizer = compile_steps(
                self._config,
                self.model,
                self._strategy,
                self._step,
                self._seed,
                num_train_steps,
                self._side_by_side,
            )
            self._num_train_steps = num_train_steps
        return self._steps, self._optimizer

    def _resume(
        self,
        model_dir: str,
        optimizer: keras.optimizers.Optimizer,
        hyperparameters: Mapping[str, object],
    ) -> CheckpointDirectory:
        """Opens the checkpoints in a folder, and loads the latest one, if any."""
        checkpoints = CheckpointDirectory(
            model_dir,
            self.model,
            self._step,
            optimizer,
            keep_checkpoint_max=1,
            workers=self.workers,
        )
        if checkpoints.resume():
            self._print_fn(
                f"Resuming from {checkpoints.latest}, step {int(self._step.numpy())}."
            )
        checkpoints.write_description(hyperparameters, self._config.vocab_file)
        return checkpoints

    def _plan_batches(
        self, data: Mapping[str, SplitData], num_train_steps: int, seed: int
    ) -> tuple[FeatureTable, BatchPlan]:
        """Returns the rows of all tasks, and the rows in the batch of each step."""
        table = FeatureTable(
            [data[task.name].rows for task in self._tasks],
            [task.feature_specs for task in self._tasks],
        )
        plan = plan_training_batches(
            table.row_lengths,
            batch_size=self._config.train_batch_size,
            num_steps=num_train_steps,
            buckets=self.buckets,
            seed=seed,
        )
        return table, plan

    def _segments(
        self,
        training_steps: TrainingSteps,
        table: FeatureTable,
        plan: BatchPlan,
        first_step: int,
        num_train_steps: int,
    ) -> Iterator[Segment]:
        """Yields the only segment of a run; reading starts when it is requested."""
        batches = iterate_batches(self._strategy, table, plan, first_step)
        yield Segment(num_train_steps, training_steps, batches, lengths=plan.distinct_lengths)

    def _open_log(
        self,
        model_dir: str,
        first_step: int,
        num_train_steps: int,
        hyperparameters: Mapping[str, object],
    ) -> TrainLog | SilentLog:
        """Returns the log of a run, which only the chief writes."""
        if not self.is_chief:
            return SilentLog()
        config = self._config
        devices = self._strategy.extended.worker_devices
        write_run_info(model_dir, devices, num_parts=self._num_parts)
        return TrainLog(
            model_dir,
            first_step=first_step,
            num_train_steps=num_train_steps,
            batch_size=config.train_batch_size * self.model.num_sequences,
            facts=facts_of(hyperparameters, num_train_steps=num_train_steps),
            settings=hyperparameters,
            trackers=open_trackers(
                config.trackers,
                model_dir=model_dir,
                settings=hyperparameters,
                first_step=first_step,
            ),
        )

    def _fresh_model(self) -> FinetuningModel:
        config = self._config
        model = FinetuningModel(
            config.encoder, self._tasks, config.precision, rematerialize=config.rematerialize
        )
        if config.num_frozen_layers is not None:
            model.electra.freeze(config.num_frozen_layers)
        return model

    def _summarize(self, sums: Mapping[str, np.ndarray]) -> dict[str, float]:
        values = training_values(sums, self._optimizer)
        values["loss"] = values.pop(f"{MEAN}_loss")  # per example, not per batch
        return values


def _diverged_error(
    terms: Sequence[str], step: int, checkpoint: str | None, *, skipping: bool
) -> DivergedError:
    # Leaves out the mean over the rows, which is the loss under another name.
    named = [term for term in terms if MEAN not in term] or terms
    return DivergedError(f"{describe_terms(named, skipping)} not finite at step {step}")
