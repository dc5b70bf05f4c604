"""The `tf.distribute` strategy of a run, and distributed datasets."""

import dataclasses
import functools
import os
import pathlib
import socket
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import keras
import tensorflow as tf

from electra_tf import __version__
from electra_tf.config.distribution import (
    BY_RECORD,
    MIRRORED,
    MULTI_WORKER,
    ONE_DEVICE,
    TPU,
    DistributionConfig,
)
from electra_tf.training.distribution.cluster import cluster_of_environment, find_cluster
from electra_tf.training.distribution.rendezvous import wait_for_workers
from electra_tf.training.distribution.shards import DataShard
from electra_tf.util.allocator import keep_freed_memory
from electra_tf.util.console import warn_once
from electra_tf.util.errors import UserError
from electra_tf.util.tensorflow_import import suppress_native_stderr
from electra_tf.util.untuned_datasets import untuned, untuned_devices

# Settings that may differ between workers; addresses are compared separately.
_SETTINGS_OF_ONE_WORKER = ("task_index", "workers", "worker_timeout", "device", "num_gpus")
# Timeout for a worker that hangs: longer than any compilation or evaluation.
_COLLECTIVE_TIMEOUT_SECONDS = 3600
# How long a running TPU may take to accept a connection.
_TPU_ANSWER_SECONDS = 60
# Exists if the driver of an NVIDIA GPU is loaded.
_NVIDIA_DEVICE = pathlib.Path("/dev/nvidia0")


def create_strategy(
    config: DistributionConfig, environment: Mapping[str, str] = os.environ
) -> tf.distribute.Strategy:
    """Returns the strategy of a configuration; workers wait for each other here.

    Call it before TensorFlow is initialized: it configures devices and collectives.

    Args:
        config: strategy and devices.
        environment: environment variables, for TF_CONFIG.

    Raises:
        UserError: a requested device is missing, or the workers are not specified.
        ValueError: the name of the strategy is unknown.
    """
    if config.strategy == MULTI_WORKER:
        return _multi_worker(config, environment)
    cluster = cluster_of_environment(environment)
    if cluster is not None and len(cluster.workers) > 1:
        raise UserError(
            f"TF_CONFIG lists {len(cluster.workers)} workers, but --strategy is "
            f"{config.strategy}: unset TF_CONFIG or, to train on all of them, pass "
            "--strategy=multi_worker"
        )
    if config.strategy == TPU:
        return _tpu(config)
    if config.strategy == MIRRORED:
        return _mirrored(tuple(_local_devices(config)))
    if config.strategy == ONE_DEVICE:
        return tf.distribute.OneDeviceStrategy(_local_devices(config)[0])
    raise ValueError(f"create_strategy makes none for --strategy={config.strategy}")


def is_chief(config: DistributionConfig) -> bool:
    """Returns whether this process is the chief, which prints and writes files."""
    if config.strategy != MULTI_WORKER:
        return True
    return find_cluster(config.workers, config.task_index, os.environ).task_index == 0


def count_workers(config: DistributionConfig) -> int:
    """Returns the number of workers of a run; they need not have started."""
    if config.strategy != MULTI_WORKER:
        return 1
    return len(find_cluster(config.workers, config.task_index, os.environ).workers)


def distribute_batches(
    strategy: tf.distribute.Strategy,
    make_dataset: Callable[[DataShard], tf.data.Dataset],
    shard_by: str = BY_RECORD,
) -> Any:
    """Returns a distributed dataset; `make_dataset` reads the shard of a worker."""

    def make(context: tf.distribute.InputContext) -> tf.data.Dataset:
        workers = context.num_input_pipelines
        shard = DataShard(
            worker=context.input_pipeline_id,
            num_workers=workers,
            replicas=context.num_replicas_in_sync // workers,
            by=shard_by,
        )
        return untuned(make_dataset(shard))

    return strategy.distribute_datasets_from_function(make)


def iterate(batches: Iterable) -> Iterator:
    """Returns an iterator over distributed batches; the process still keeps freed memory.

    Under Python 3.11, the first such iterator of a process makes TensorFlow 2.21 change the
    settings of malloc, against a leak: tensors of more than 128 KiB would be returned to the
    system (`ApplyPython311MemoryPatch`). So `keep_freed_memory` is called again.
    """
    with untuned_devices():
        iterator = iter(batches)
    keep_freed_memory()
    return iterator


@functools.cache
def _mirrored(devices: tuple[str, ...]) -> tf.distribute.Strategy:
    """Returns the strategy of this process, created once.

    A second one would number its collectives like the first, and TensorFlow 2.21 would
    confuse them.
    """
    return tf.distribute.MirroredStrategy(devices)


def _local_devices(config: DistributionConfig) -> list[str]:
    """Returns the names of the devices to use."""
    gpus = _choose_gpus(config)
    if gpus:
        return [f"/GPU:{i}" for i in range(gpus)]
    if config.num_virtual_cpus:
        _split_cpu(config.num_virtual_cpus)
    cpus = len(tf.config.list_logical_devices("CPU"))
    return [f"/CPU:{i}" for i in range(cpus)]


def _choose_gpus(config: DistributionConfig) -> int:
    """Returns how many GPUs to use, and hides the others from TensorFlow."""
    if config.device == "cpu" or config.num_virtual_cpus:
        _set_visible_gpus([])
        return 0
    gpus = tf.config.list_physical_devices("GPU")
    wanted = config.num_gpus or (1 if config.device == "gpu" else 0)
    if len(gpus) < wanted:
        asked = f"--num_gpus={config.num_gpus}" if config.num_gpus else "--device=gpu"
        raise UserError(
            f"{asked}, but TensorFlow finds {len(gpus)} GPUs on this machine. With an NVIDIA "
            "GPU, run pip install 'tensorflow[and-cuda]' and check nvidia-smi and "
            "CUDA_VISIBLE_DEVICES; without one, pass --device=cpu"
        )
    if not gpus and _NVIDIA_DEVICE.exists() and "CUDA_VISIBLE_DEVICES" not in os.environ:
        warn_once(
            "This machine has an NVIDIA GPU, but TensorFlow does not find it and uses the CPU. "
            "Run pip install 'tensorflow[and-cuda]'; --verbose prints what is missing, and "
            "--device=cpu hides this warning"
        )
    chosen = gpus[: config.num_gpus]
    if len(chosen) < len(gpus):
        _set_visible_gpus(chosen)
    return len(chosen)


def _set_visible_gpus(gpus: list) -> None:
    if tf.config.get_visible_devices("GPU") == gpus:
        return
    try:
        tf.config.set_visible_devices(gpus, "GPU")
    except RuntimeError as error:
        raise UserError(
            "--device and --num_gpus must be applied before TensorFlow is initialized, but it "
            f"already is: {error}"
        ) from error


def _split_cpu(count: int) -> None:
    cpu = tf.config.list_physical_devices("CPU")[0]
    try:
        tf.config.set_logical_device_configuration(
            cpu, [tf.config.LogicalDeviceConfiguration() for _ in range(count)]
        )
    except RuntimeError as error:
        if len(tf.config.list_logical_devices("CPU")) == count:
            return
        raise UserError(
            f"--num_virtual_cpus={count}: TensorFlow is already initialized, with "
            f"{len(tf.config.list_logical_devices('CPU'))} CPU devices"
        ) from error


def _multi_worker(
    config: DistributionConfig, environment: Mapping[str, str]
) -> tf.distribute.Strategy:
    cluster = find_cluster(config.workers, config.task_index, environment)
    gpus = _choose_gpus(config)
    wait_for_workers(cluster, config.worker_timeout, _settings_in_common(config, gpus))
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
        tf.train.ClusterSpec({"worker": list(cluster.workers)}),
        task_type="worker",
        task_id=cluster.task_index,
        num_accelerators={"GPU": gpus},
        rpc_layer="grpc",
    )
    options = tf.distribute.experimental.CommunicationOptions(
        timeout_seconds=_COLLECTIVE_TIMEOUT_SECONDS
    )
    address = cluster.workers[cluster.task_index]
    try:
        with suppress_native_stderr():
            return tf.distribute.MultiWorkerMirroredStrategy(resolver, options)
    except tf.errors.OpError as error:
        raise UserError(
            f"Worker {cluster.task_index} cannot serve at {address}: {error.message}"
        ) from error


def _settings_in_common(config: DistributionConfig, gpus: int) -> dict[str, Any]:
    """Returns what must be the same for all workers before TensorFlow connects them."""
    settings = dataclasses.asdict(config)
    for name in _SETTINGS_OF_ONE_WORKER:
        del settings[name]
    versions = {
        "electra_tf": __version__,
        "tensorflow": tf.__version__,
        "keras": keras.__version__,
    }
    return {**settings, "GPUs": gpus, **{f"version of {k}": v for k, v in versions.items()}}


def _require_listening(address: str) -> None:
    """Raises OSError if nothing listens at grpc://host:port, where TensorFlow waits forever."""
    host, _, port = address.removeprefix("grpc://").rpartition(":")
    if not port.isdecimal():  # the machine's own TPU
        return
    with socket.create_connection((host, int(port)), _TPU_ANSWER_SECONDS):
        pass


def _tpu(config: DistributionConfig) -> tf.distribute.Strategy:
    where = f"--tpu_name={config.tpu_name}" if config.tpu_name else "this machine (local)"
    try:
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver(
            tpu=config.tpu_name or "local",
            zone=config.tpu_zone,
            project=config.gcp_project,
            **({"job_name": config.tpu_job_name} if config.tpu_job_name else {}),
        )
        if config.tpu_name:
            # TensorFlow waits silently for a TPU that does not answer.
            print(f"Connecting to the TPU at {where} …", file=sys.stderr, flush=True)
            _require_listening(resolver.master())
            tf.config.experimental_connect_to_cluster(resolver)
        tf.tpu.experimental.initialize_tpu_system(resolver)
    except (ValueError, RuntimeError, OSError, tf.errors.OpError) as error:
        raise UserError(
            f"--strategy=tpu: cannot connect to a TPU at {where}: {str(error)[:300]}"
        ) from error
    strategy = tf.distribute.TPUStrategy(resolver)
    cores = strategy.num_replicas_in_sync
    if config.num_tpu_cores not in (None, cores):
        raise UserError(
            f"--num_tpu_cores={config.num_tpu_cores}, but the TPU at {where} has {cores} cores"
        )
    return strategy
