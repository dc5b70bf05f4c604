"""Distribution of a run: strategy, workers and preemption signals."""

import contextlib
import os
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import tensorflow as tf

from electra_tf.config.distribution import DistributionConfig, check_batch_size
from electra_tf.training.distribution.starts import counted_start
from electra_tf.training.distribution.strategies import create_strategy, is_chief
from electra_tf.training.distribution.workers import Preemption, Workers
from electra_tf.util.errors import UserError

TRAIN_BATCH_SIZE = "train_batch_size"
# Each part is an execution of the graph; more than 2 have not been measured.
_MOST_PARTS = 8
# Variables of TensorFlow: threads of an operation, and operations at once.
_INTRAOP_THREADS, _INTEROP_THREADS = "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS"


class DistributionContext(NamedTuple):
    """The strategy, the workers and the preemption handler of a run."""

    strategy: tf.distribute.Strategy
    workers: Workers
    preemption: Preemption


def create_context(
    config: DistributionConfig, batch_sizes: Sequence[str] = ()
) -> DistributionContext:
    """Sets up devices and workers; see `open_context`."""
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
            "--jit_compile: TensorFlow compiles steps of several replicas for GPUs only; "
            "remove it on CPU devices"
        )
    workers = Workers(strategy)
    return DistributionContext(strategy, workers, Preemption(workers))


@contextlib.contextmanager
def open_context(
    config: DistributionConfig, batch_sizes: Sequence[str] = ()
) -> Iterator[DistributionContext]:
    """Sets up devices and workers, and handles signals and lost workers.

    Args:
        config: hyperparameters, with `model_dir` and `jit_compile`.
        batch_sizes: names of the global batch sizes that replicas must divide.

    Raises:
        UserError: a device is missing, a batch size is not divisible, TF_CONFIG is invalid, or
            the run was started too often without progress.
        PreemptedError: the run was preempted.
        WorkerLostError: another worker has failed.
    """
    with contextlib.ExitStack() as stack:
        limit = config.max_starts_without_progress
        if limit and TRAIN_BATCH_SIZE in batch_sizes and is_chief(config):
            stack.enter_context(counted_start(config.model_dir, limit))
        run = stack.enter_context(_create_and_watch(config, batch_sizes))
        yield run


@contextlib.contextmanager
def _create_and_watch(
    config: DistributionConfig, batch_sizes: Sequence[str]
) -> Iterator[DistributionContext]:
    run = create_context(config, batch_sizes)
    resume = (
        "Start all workers again with the same command: the run resumes from the latest "
        f"checkpoint in {config.model_dir}."
    )
    with run.workers.explain_losses(resume), run.preemption.watch():
        yield run


def runs_on_one_cpu(strategy: tf.distribute.Strategy) -> bool:
    """Whether there is one replica and no other device than CPUs."""
    devices = {device.device_type for device in tf.config.list_logical_devices()}
    return strategy.num_replicas_in_sync == 1 and devices == {"CPU"}


def cores_of(strategy: tf.distribute.Strategy) -> int:
    """Returns how many parts of a batch to compute side by side; 1 unless on one CPU.

    These are the cores of this process, unless TF_NUM_INTEROP_THREADS says otherwise; at most
    `_MOST_PARTS`.
    """
    if not runs_on_one_cpu(strategy):
        return 1
    threads = int(os.environ.get(_INTEROP_THREADS) or 0)
    if not threads and hasattr(os, "sched_getaffinity"):  # not on macOS
        threads = len(os.sched_getaffinity(0))
    return min(threads or os.cpu_count() or 1, _MOST_PARTS)


def give_operations_one_thread() -> bool:
    """Lets an operation use one core, so that others run at the same time.

    For processes that compute parts of rows side by side. Call it before TensorFlow is
    initialized.

    Returns:
        Whether it is done: not where there is a GPU, or the environment sets threads.
    """
    has_gpu = bool(tf.config.list_physical_devices("GPU"))
    if has_gpu or any(name in os.environ for name in (_INTRAOP_THREADS, _INTEROP_THREADS)):
        return False
    try:
        tf.config.threading.set_intra_op_parallelism_threads(1)
    except RuntimeError:  # it is initialized
        return False
    return True


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
    """Returns lines about devices, replicas, batches, precision and the FLOPs of a step.

    Args:
        config: distribution hyperparameters.
        strategy, workers: strategy and workers of the run.
        batch_size: global batch size.
        precision: Keras dtype policy.
        flops_per_step: FLOPs of a step over all replicas, as the paper counts them.
    """
    replicas = strategy.num_replicas_in_sync
    devices = ", ".join(strategy.extended.worker_devices)
    if not tf.config.list_logical_devices("GPU") and config.device == "auto":
        devices += " (TensorFlow finds no GPU)" if "CPU" in devices else ""
    where = f" on worker {workers.index} of {workers.count}" if workers.count > 1 else ""
    noun = "replica" if replicas == 1 else "replicas"
    parts = config.gradient_accumulation_steps
    in_parts = f" in {parts} micro-batches" if parts > 1 else ""
    return [
        f"Devices: {devices}{where}",
        f"Distribution: {config.strategy}, {replicas} {noun}, {precision}; "
        f"{batch_size} examples per step, {batch_size // replicas} per replica{in_parts}",
        f"Compute: {flops_per_step / 1e9:,.1f} GFLOPs per step, counted as in the paper",
    ]
