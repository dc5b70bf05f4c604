"""What a run stands on: its strategy, the other workers, and the signals that may end it."""

import contextlib
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import tensorflow as tf

from electra_tf.config.distribution import DistributionConfig, check_batch_size
from electra_tf.training.distribution.strategies import create_strategy
from electra_tf.training.distribution.workers import Preemption, Workers
from electra_tf.util.errors import UserError

TRAIN_BATCH_SIZE = "train_batch_size"


class DistributionContext(NamedTuple):
    """The strategy of a run, its workers, and the watch over signals."""

    strategy: tf.distribute.Strategy
    workers: Workers
    preemption: Preemption


def create_context(
    config: DistributionConfig, batch_sizes: Sequence[str] = ()
) -> DistributionContext:
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
    return DistributionContext(strategy, workers, Preemption(workers))


@contextlib.contextmanager
def open_context(
    config: DistributionConfig, batch_sizes: Sequence[str] = ()
) -> Iterator[DistributionContext]:
    """Sets up devices and workers, and explains what ends the run from outside.

    Args:
        config: hyperparameters, with a `model_dir` and `jit_compile`.
        batch_sizes: names of the global batch sizes that the replicas share.

    Raises:
        UserError: a device is not there, a batch cannot be shared, TF_CONFIG is wrong.
        PreemptedError: the run was told to end.
        WorkerLostError: another worker has ended.
    """
    run = create_context(config, batch_sizes)
    resume = (
        "Start all workers again with the same command: the run goes on from the newest "
        f"checkpoint in {config.model_dir}."
    )
    with run.workers.explain_losses(resume), run.preemption.watch():
        yield run


def _on_cpu(strategy: tf.distribute.Strategy) -> bool:
    return any("CPU" in device for device in strategy.extended.worker_devices)


def describe_devices(
    config: DistributionConfig,
    strategy: tf.distribute.Strategy,
    workers: Workers,
    batch_size: int,
    precision: str,
    flops_per_step: float,
) -> list[str]:
    """Returns lines with devices, replicas, batches, precision and the FLOPs of a step.

    Args:
        config: where the run is to work.
        strategy, workers: where it works.
        batch_size: examples of a step, over all replicas.
        precision: of the matrix products.
        flops_per_step: forward and backward, in the paper's counting, over all replicas.
    """
    replicas = strategy.num_replicas_in_sync
    devices = ", ".join(strategy.extended.worker_devices)
    if not tf.config.list_logical_devices("GPU") and config.device == "auto":
        devices += " (TensorFlow finds no GPU)" if "CPU" in devices else ""
    where = f" on worker {workers.index} of {workers.count}" if workers.count > 1 else ""
    noun = "replica" if replicas == 1 else "replicas"
    parts = config.gradient_accumulation_steps
    in_parts = f" in {parts} parts" if parts > 1 else ""
    return [
        f"Devices: {devices}{where}",
        f"Spread:  {config.strategy}, {replicas} {noun}, {precision}; "
        f"{batch_size} examples a step, {batch_size // replicas} a replica{in_parts}",
        f"Compute: {flops_per_step / 1e9:,.1f} GFLOPs a step, counted as the paper does",
    ]
