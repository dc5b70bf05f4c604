"""Distribution of a run: strategy, workers and preemption signals."""

import contextlib
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import tensorflow as tf

from electra_tf.config.distribution import DistributionConfig, check_batch_size
from electra_tf.training.distribution.cores import runs_on_one_cpu, share_cores
from electra_tf.training.distribution.preemption import Preemption
from electra_tf.training.distribution.strategies import create_strategy
from electra_tf.training.distribution.workers import Workers
from electra_tf.util.console import warn_once
from electra_tf.util.errors import UserError

TRAIN_BATCH_SIZE = "train_batch_size"


class DistributionContext(NamedTuple):
    """The strategy, the workers and the preemption handler of a run.

    `side_by_side` is the number of parts of a batch that are computed in parallel.
    """

    strategy: tf.distribute.Strategy
    workers: Workers
    preemption: Preemption
    side_by_side: int = 1

    def num_parts(self, num_micro_batches: int) -> int:
        """Returns the number of parts of a batch, over replicas, micro-batches and cores."""
        return self.strategy.num_replicas_in_sync * num_micro_batches * self.side_by_side


def create_context(
    config: DistributionConfig,
    batch_sizes: Sequence[str] = (),
    hidden_size: int | None = None,
) -> DistributionContext:
    """Sets up devices and workers; see `open_context`.

    Raises:
        UserError: a device is missing, a batch size is not divisible, or XLA cannot compile
            the steps of the replicas.
    """
    side_by_side = 1
    if hidden_size is not None:
        rows = [
            getattr(config, name) // _num_micro_batches(config, name) for name in batch_sizes
        ]
        side_by_side = share_cores(config, hidden_size, rows)
    strategy = create_strategy(config)
    check_batch_sizes(config, strategy, batch_sizes)
    if config.jit_compile and strategy.num_replicas_in_sync > 1 and _on_cpu(strategy):
        raise UserError(
            "--jit_compile: TensorFlow compiles steps of several replicas for GPUs only; "
            "remove the flag on CPU devices"
        )
    if config.jit_compile and TRAIN_BATCH_SIZE in batch_sizes and runs_on_one_cpu(strategy):
        warn_once(
            "--jit_compile is slow here, because it is meant for GPUs: on a CPU, training can "
            "be twice as fast without it"
        )
    workers = Workers(strategy)
    return DistributionContext(strategy, workers, Preemption(workers), side_by_side)


def _num_micro_batches(config: DistributionConfig, batch_size: str) -> int:
    """Returns the number of micro-batches of a batch."""
    return config.gradient_accumulation_steps if batch_size == TRAIN_BATCH_SIZE else 1


def check_batch_sizes(
    config: DistributionConfig, strategy: tf.distribute.Strategy, names: Sequence[str]
) -> None:
    """Raises UserError unless the replicas can split global batches evenly.

    Args:
        config: hyperparameters.
        strategy: strategy of the run.
        names: names of the batch sizes.
    """
    for name in names:
        check_batch_size(
            f"--{name}",
            getattr(config, name),
            strategy.num_replicas_in_sync,
            _num_micro_batches(config, name),
        )


@contextlib.contextmanager
def open_context(
    config: DistributionConfig,
    batch_sizes: Sequence[str] = (),
    hidden_size: int | None = None,
    resumes_from: str | None = None,
) -> Iterator[DistributionContext]:
    """Sets up devices and workers, and handles signals and lost workers.

    Args:
        config: hyperparameters, with `jit_compile`.
        batch_sizes: names of the global batch sizes that are split among the replicas.
        hidden_size: hidden size of the encoder; if given, a small encoder on a CPU computes
            parts of a batch in parallel, with fewer threads per operation.
        resumes_from: folder of the run's checkpoints, for the message about lost workers; None
            if it does not train.

    Raises:
        UserError: a device is missing, a batch size is not divisible, or TF_CONFIG is invalid.
        PreemptedError: the run was preempted.
        WorkerLostError: another worker has failed.
    """
    context = create_context(config, batch_sizes, hidden_size)
    resume = "Start all workers again with the same command"
    if resumes_from:
        resume += f": the run resumes from the latest checkpoint in {resumes_from}"
    with context.workers.explain_losses(f"{resume}."), context.preemption.watch():
        yield context


def _on_cpu(strategy: tf.distribute.Strategy) -> bool:
    return any("CPU" in device for device in strategy.extended.worker_devices)


def describe_devices(
    config: DistributionConfig,
    context: DistributionContext,
    batch_size: int,
    precision: str,
    flops_per_step: float,
) -> list[str]:
    """Returns lines about devices, replicas, batches, precision and the FLOPs of a step.

    Args:
        config: distribution hyperparameters.
        context: distribution of the run.
        batch_size: global batch size.
        precision: Keras dtype policy.
        flops_per_step: FLOPs of a step over all replicas, as the paper counts them.
    """
    strategy, workers, _, side_by_side = context
    replicas = strategy.num_replicas_in_sync
    devices = ", ".join(strategy.extended.worker_devices)
    if not tf.config.list_logical_devices("GPU") and config.device == "auto":
        devices += " (TensorFlow finds no GPU)" if "CPU" in devices else ""
    where = f" on worker {workers.index} of {workers.count}" if workers.count > 1 else ""
    noun = "replica" if replicas == 1 else "replicas"
    parts = config.gradient_accumulation_steps
    in_parts = f" in {parts} micro-batches" if parts > 1 else ""
    in_parts += f", {side_by_side} parts side by side" if side_by_side > 1 else ""
    return [
        f"Devices: {devices}{where}",
        f"Distribution: {config.strategy}, {replicas} {noun}, {precision}; "
        f"{batch_size} examples per step, {batch_size // replicas} per replica{in_parts}",
        f"Compute: {flops_per_step / 1e9:,.1f} GFLOPs per step, counted as in the paper",
    ]
