"""What a program says about devices and batches before it trains."""

import tensorflow as tf

from electra_tf.distribution import DistributionConfig
from electra_tf.workers import Workers


def distribution_lines(
    config: DistributionConfig,
    strategy: tf.distribute.Strategy,
    workers: Workers,
    batch_size: int,
    precision: str,
) -> list[str]:
    """Returns lines with devices, replicas, batch per replica and over all, and precision."""
    replicas = strategy.num_replicas_in_sync
    devices = ", ".join(strategy.extended.worker_devices)
    if not tf.config.list_logical_devices("GPU") and config.device == "auto":
        devices += " (TensorFlow finds no GPU)" if "CPU" in devices else ""
    where = f" on worker {workers.index} of {workers.count}" if workers.count > 1 else ""
    noun = "replica" if replicas == 1 else "replicas"
    return [
        f"Devices: {devices}{where}",
        f"Spread:  {config.strategy}, {replicas} {noun}, {precision}; "
        f"{batch_size} examples a step, {batch_size // replicas} a replica",
    ]
