"""Pre-training steps and batches of each phase: a stage of the objective, a sequence length."""

import dataclasses
from collections.abc import Callable, Iterator
from functools import partial

import keras
import tensorflow as tf

from electra_tf.config.nonfinite_fields import SKIP
from electra_tf.config.phases import Phase, training_phases
from electra_tf.config.pretraining import PretrainingConfig
from electra_tf.pretraining.evaluation import (
    HeldOutEvaluator,
    evaluate_batches,
    held_out_batches,
)
from electra_tf.pretraining.records import PretrainingRecords, batches_of
from electra_tf.pretraining_model import PretrainingModel
from electra_tf.text.inspected_tokens import inspected_tokens
from electra_tf.text.vocabulary import Vocabulary
from electra_tf.training.distribution.gpus import prepare_kernels
from electra_tf.training.distribution.shards import DataShard
from electra_tf.training.distribution.strategies import distribute_batches, iterate
from electra_tf.training.loop import Evaluation, Segment
from electra_tf.training.monitoring.log import SilentLog, TrainLog
from electra_tf.training.optimizer import reset_moments
from electra_tf.training.step import TrainingSteps


@dataclasses.dataclass
class PretrainingPhases:
    """The phases of a run as segments of the training loop, and their evaluation.

    The training step and the evaluator are traced once per stage of the objective.
    """

    config: PretrainingConfig
    vocabulary: Vocabulary
    model: PretrainingModel
    optimizer: keras.optimizers.Optimizer
    step: tf.Variable
    records: PretrainingRecords
    eval_records: PretrainingRecords | None
    strategy: tf.distribute.Strategy
    log: TrainLog | SilentLog
    print_fn: Callable[[str], None]
    evaluator: HeldOutEvaluator | None = None
    max_side_by_side: int = 1
    _held_out: tf.distribute.DistributedDataset | None = None

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
                        reset_moments(self.optimizer, current)
                steps = self._compile()
                self.print_fn("Compiling the training step …")
            batches = iterate(self._batches(phase, current))
            self.log.set_phase(phase.seq_length, phase.stage)
            guard = partial(self.records.locating_damage, phase.seq_length)
            yield Segment(phase.end_step, steps, batches, guard)

    def evaluate(self) -> Evaluation:
        """Returns the metrics of the held-out records."""
        records = self.eval_records
        if self._held_out is None:
            # Built once: building takes longer than reading, and TensorFlow never frees a part
            # of it.
            self._held_out = held_out_batches(self.config, records, self.strategy)
        result = evaluate_batches(self.config, self.evaluator, records, self._held_out)
        sentences = []
        if result.sentences is not None:
            sentences = inspected_tokens(self.vocabulary, **result.sentences._asdict())
        return Evaluation(result.values, sentences=sentences)

    def _compile(self) -> TrainingSteps:
        config = self.config
        with self.strategy.scope():
            self.evaluator = HeldOutEvaluator(self.model, self.strategy, self.max_side_by_side)
            return TrainingSteps(
                self.model,
                self.optimizer,
                self.strategy,
                self.step,
                seed=config.seed,
                clip_norm=config.clip_norm,
                accumulation_steps=config.gradient_accumulation_steps,
                max_side_by_side=self.max_side_by_side,
                jit_compile=config.jit_compile,
                kernel_capability=prepare_kernels() if config.triton_kernels else None,
                skip_nonfinite=config.on_nonfinite == SKIP,
            )

    def _batches(self, phase: Phase, current: int) -> tf.distribute.DistributedDataset:
        batch_size = self.config.train_batch_size

        def read(shard: DataShard) -> tf.data.Dataset:
            return batches_of(
                self.records,
                first_example=(current - phase.length_first_step) * batch_size,
                batch_size=batch_size,
                seq_length=phase.seq_length,
                shard=shard,
            )

        return distribute_batches(self.strategy, read, self.config.shard_by)
