"""What a fine-tuning run prints before its first step."""

import math
from collections.abc import Callable, Sequence

from electra_tf.flops.counting import finetuning_flops_per_step
from electra_tf.training.distribution.bfloat16 import warn_of_emulated_bfloat16
from electra_tf.training.distribution.context import (
    DistributionContext,
    describe_devices,
)
from finetune.config.finetuning import FinetuningConfig
from finetune.tasks.base import Task
from finetune.trainer import Trainer

_LABELS_SHOWN = 10


def describe_run(
    config: FinetuningConfig,
    trainer: Trainer,
    tasks: Sequence[Task],
    context: DistributionContext,
    print_fn: Callable[[str], None],
) -> None:
    """Prints the model, the devices, the tasks and the lengths of batches of a run."""
    encoder = trainer.model.encoder_config
    trained = sum(math.prod(v.shape) for v in trainer.model.trainable_variables)
    print_fn(
        f"Model:   {encoder.num_hidden_layers} layers, {encoder.hidden_size} hidden, "
        f"{trainer.model.electra.count_params():,} parameters in the encoder, "
        f"{trained:,} trained, {config.precision}"
    )
    for line in describe_devices(
        config,
        context,
        config.train_batch_size,
        config.precision,
        finetuning_flops_per_step(
            config.encoder,
            batch_size=config.train_batch_size * trainer.model.num_sequences,
            seq_length=trainer.buckets[-1],
            num_frozen_layers=config.num_frozen_layers,
        ),
    ):
        print_fn(line)
    if context.workers.is_chief:
        warn_of_emulated_bfloat16(config.precision)
    print_fn(f"Tasks:   {'; '.join(_with_labels(task) for task in tasks)}")
    lengths = ", ".join(map(str, trainer.buckets))
    print_fn(f"Batches: padded to {lengths} tokens")


def _with_labels(task: Task) -> str:
    """Returns the name of a task and its first labels."""
    labels = getattr(task, "labels", ())
    if not labels:
        return task.name
    more = ", …" if len(labels) > _LABELS_SHOWN else ""
    return f"{task.name} ({len(labels)} labels: {', '.join(labels[:_LABELS_SHOWN])}{more})"
