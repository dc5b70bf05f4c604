"""What a run stands on: its strategy, the other workers, and the signals that may end it."""

import contextlib
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import tensorflow as tf

from electra_tf.config.distribution import DistributionConfig, check_batch_size
from electra_tf.preemption import Preemption
from electra_tf.strategies import create_strategy
from electra_tf.util.errors import UserError
from electra_tf.workers import Workers

TRAIN_BATCH_SIZE = "train_batch_size"


class Runtime(NamedTuple):
    """The strategy of a run, its workers, and the watch over signals."""

    strategy: tf.distribute.Strategy
    workers: Workers
    preemption: Preemption


def create(config: DistributionConfig, batch_sizes: Sequence[str] = ()) -> Runtime:
    """Sets up devices and workers; see `start`."""
    strategy = create_strategy(config)
    for name in batch_sizes:
        check_batch_size(
            f"--{name}",
            getattr(config, name),
            strategy.num_replicas_in_sync,
            config.gradient_accumulation_steps if name == TRAIN_BATCH_SIZE else 1,
        )
    if config.jit_compile and strategy.num_replicas_in_sync > 1 and _on_cpu(strategy):
        raise UserError(
            "--jit_compile: TensorFlow compiles steps of several replicas for GPUs alone; "
            "leave it out on CPU devices"
        )
    workers = Workers(strategy)
    return Runtime(strategy, workers, Preemption(workers))


@contextlib.contextmanager
def start(config: DistributionConfig, batch_sizes: Sequence[str] = ()) -> Iterator[Runtime]:
    """Sets up devices and workers, and explains what ends the run from outside.

    Args:
        config: hyperparameters, with a `model_dir` and `jit_compile`.
        batch_sizes: names of the global batch sizes that the replicas share.

    Raises:
        UserError: a device is not there, a batch cannot be shared, TF_CONFIG is wrong.
        PreemptedError: the run was told to end.
        WorkerLostError: another worker has ended.
    """
    run = create(config, batch_sizes)
    resume = (
        "Start all workers again with the same command: the run goes on from the newest "
        f"checkpoint in {config.model_dir}."
    )
    with run.workers.explain_losses(resume), run.preemption.watch():
        yield run


def _on_cpu(strategy: tf.distribute.Strategy) -> bool:
    return any("CPU" in device for device in strategy.extended.worker_devices)


def say_nothing(message: str) -> None:
    """Takes the place of `print` on the workers that are not the chief."""
