"""The training steps of a fine-tuning run, timed on chosen batches of its plan."""

import time

import keras
import numpy as np
import tensorflow as tf

from electra_tf.interop.initialization import load_encoder, read_initial
from electra_tf.training.distribution.strategies import create_strategy
from electra_tf.util.console import discard
from finetune.config.finetuning import FinetuningConfig
from finetune.data.batches import (
    BatchPlan,
    FeatureTable,
    count_steps,
    make_dataset,
    plan_training_batches,
)
from finetune.initialization import find_checkpoint
from finetune.model import FinetuningModel
from finetune.optimizer import compile_steps
from finetune.run_inputs import find_tasks
from finetune.task_data import TaskData
from finetune.tasks.base import TRAIN


class PlannedTraining:
    """The model, the optimizer and the batches of the first trial of a run of one task.

    Attributes:
        plan: batches of the whole run.

    Raises:
        UserError: the data, the vocabulary or the checkpoint is wrong.
    """

    def __init__(self, config: FinetuningConfig) -> None:
        (task,) = find_tasks(config)
        data = TaskData(config, discard).get(task, TRAIN, is_training=True)
        self._table = FeatureTable([data.rows], [task.feature_specs])
        num_train_steps = count_steps(
            len(self._table), config.train_batch_size, config.num_train_epochs
        )
        buckets = config.length_buckets
        self.plan = plan_training_batches(
            self._table.row_lengths,
            batch_size=config.train_batch_size,
            num_steps=num_train_steps,
            buckets=buckets if config.bucket_by_length else buckets[-1:],
            seed=config.seed,
        )
        self._strategy = create_strategy(config)
        keras.utils.set_random_seed(config.seed)
        with self._strategy.scope():
            model = FinetuningModel(config.encoder, [task], config.precision)
            if prefix := find_checkpoint(config):
                load_encoder(read_initial(prefix), prefix, model.electra, discard)
            step = tf.Variable(0, dtype=tf.int64, trainable=False)
            seed = tf.Variable(config.seed, dtype=tf.int64, trainable=False)
        self._steps, _ = compile_steps(
            config, model, self._strategy, step, seed, num_train_steps
        )

    @property
    def padding_share(self) -> float:
        """Share of the plan's tokens that is padding."""
        plan = self.plan
        total = plan.rows.shape[1] * int(plan.lengths.sum(dtype=np.int64))
        return 1 - int(self._table.row_lengths[plan.rows].sum(dtype=np.int64)) / total

    def run(self, indices: np.ndarray) -> float:
        """Trains on batches of the plan, and returns the seconds.

        Args:
            indices: int [steps], of the batches.
        """
        plan = self.plan
        part = BatchPlan(plan.rows[indices], plan.lengths[indices], plan.counts[indices])
        dataset = self._strategy.experimental_distribute_dataset(
            make_dataset(self._table, part)
        )
        batches = iter(dataset)
        start = time.perf_counter()
        self._steps.run(batches, len(part))
        self._steps.read_metrics()
        return time.perf_counter() - start
