"""What a program says about devices and batches before it trains."""

import tensorflow as tf

from electra_tf.config.distribution import DistributionConfig
from electra_tf.workers import Workers


def distribution_lines(
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
