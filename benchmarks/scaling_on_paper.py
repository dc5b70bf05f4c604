"""Computes what a training step should take on many devices, from that of one.

    python -m benchmarks.scaling_on_paper
    python -m benchmarks.scaling_on_paper --utilization 0.3 --network_efficiency 0.5

Data parallelism with a fixed batch per device: each device computes its rows, then the
gradients are summed over all of them. With model FLOPs F of a device's rows, its peak P and its
utilization u, and B bytes of gradients,

    compute    = F / (u P)
    all-reduce = 2 (g - 1) / g * B / (e N)  +  2 (h - 1) / h * (B / g) / (e X)  +  hops * L

for h hosts with g devices each: in a ring, 2 (n - 1) / n * B pass through every link (Patarasu
and Yuan, 2009). Within a host, devices reduce and scatter over links of N bytes per second;
each then rings its share B / g over its own network adapter of X bytes per second. A torus of
TPUs is one host. e is the fraction of a link's bandwidth that a collective reaches, L the
latency of a hop, of which there are 2 (g - 1) + 2 (h - 1). Gradients are float32 and dense, as
the training step sums them.

The step is between two bounds: all-reduce during the backward pass (two thirds of the compute
time), where only the rest is waited for, and all-reduce after it. Efficiency is compute over
step. Not modeled: input, stragglers, memory traffic of the optimizer, and collectives that slow
down the computation beside them.
"""

import dataclasses
from collections.abc import Mapping

from absl import flags

from electra_tf.config.encoder import EncoderConfig
from electra_tf.config.pretraining import (
    PretrainingConfig,
    discriminator_config,
    generator_config,
)
from electra_tf.flops.counting import PASSES, model_flops_per_step
from electra_tf.util.console import markdown_table
from flags.command_line import program

_UTILIZATION = flags.DEFINE_float(
    "utilization",
    None,
    "Model FLOPs of a device over its bfloat16 peak; what was measured for the model size if "
    "unset.",
    lower_bound=0.001,
    upper_bound=1.0,
)
_NETWORK_EFFICIENCY = flags.DEFINE_float(
    "network_efficiency",
    0.7,
    "Fraction of a link's bandwidth that an all-reduce reaches; an assumption.",
    lower_bound=0.001,
    upper_bound=1.0,
)
_HOP_MICROSECONDS = flags.DEFINE_float(
    "hop_microseconds", 5.0, "Latency of one hop of a ring; an assumption.", lower_bound=0.0
)

# With Triton's kernels on one NVIDIA H100: of small 128 × 128 and base 64 × 512 ("A training
# step on a GPU" in RESULTS.md). By XLA alone on one H200, which stands in for TPUs. Large was
# not measured.
WITH_KERNELS = {"small": 0.072, "base": 0.344, "large": 0.344}
XLA_ALONE = {"small": 0.095, "base": 0.248, "large": 0.248}
GRADIENT_BYTES = 4
# Of the compute time, the part during which gradients appear: forward once, backward twice.
BACKWARD_SHARE = (PASSES - 1) / PASSES


@dataclasses.dataclass(frozen=True, kw_only=True)
class Cluster:
    """Devices and their links, as published by the vendor.

    Attributes:
        name: of the table's row.
        hosts, devices_per_host: numbers.
        peak_flops: dense bfloat16 FLOPs per second of a device.
        link_bytes: per second and direction, of a device within a host or torus.
        adapter_bytes: per second and direction, of a device's share of the network.
        utilization: model FLOPs of a device over its peak, by model size, as measured.
    """

    name: str
    hosts: int
    devices_per_host: int
    peak_flops: float
    link_bytes: float
    adapter_bytes: float = float("inf")
    utilization: Mapping[str, float]

    @property
    def devices(self) -> int:
        """Number of devices."""
        return self.hosts * self.devices_per_host


# H100: 989.4 TFLOPS, NVLink 900 GB/s in both directions together, an adapter of 400 Gb/s a GPU
# (NVIDIA's data sheets of H100 SXM and DGX H100). TPU v4: 275 TFLOPS, and 1.1 PB/s of
# all-reduce bandwidth for 4,096 chips (Google Cloud's description of TPU v4).
_H100 = {
    "peak_flops": 989.4e12,
    "link_bytes": 450e9,
    "adapter_bytes": 50e9,
    "utilization": WITH_KERNELS,
}
CLUSTERS = (
    Cluster(name="8 × H100", hosts=1, devices_per_host=8, **_H100),
    Cluster(name="8 hosts × 8 × H100", hosts=8, devices_per_host=8, **_H100),
    Cluster(
        name="TPU v4, 4 × 4 × 4",
        hosts=1,
        devices_per_host=64,
        peak_flops=275e12,
        link_bytes=1.1e15 / 4096,
        utilization=XLA_ALONE,
    ),
)
# Model size, rows per device, tokens per row.
WORKLOADS = (("small", 128, 128), ("base", 32, 512), ("large", 32, 512))


@dataclasses.dataclass(frozen=True)
class Assumptions:
    """What is not published.

    Attributes:
        utilization: model FLOPs of a device over its peak; None is that of `Cluster`.
        network_efficiency: fraction of a link's bandwidth that a collective reaches.
        hop_seconds: latency of a hop.
    """

    utilization: float | None
    network_efficiency: float
    hop_seconds: float


@dataclasses.dataclass(frozen=True)
class StepTime:
    """Seconds of a step, and its bounds."""

    compute: float
    all_reduce: float

    @property
    def after_backward(self) -> float:
        """Seconds of a step that sums the gradients after the backward pass."""
        return self.compute + self.all_reduce

    @property
    def during_backward(self) -> float:
        """Seconds of a step that sums them during the backward pass as far as it lasts."""
        return self.compute + max(0.0, self.all_reduce - BACKWARD_SHARE * self.compute)


def main() -> None:
    """Prints the inputs and the table."""
    assumptions = Assumptions(
        _UTILIZATION.value, _NETWORK_EFFICIENCY.value, _HOP_MICROSECONDS.value * 1e-6
    )
    shares = "as measured on one GPU"
    if assumptions.utilization:
        shares = f"{assumptions.utilization:.1%}"
    print(
        f"Computed, not measured: utilization {shares}, collectives at "
        f"{assumptions.network_efficiency:.0%} of the links' bandwidth, "
        f"{_HOP_MICROSECONDS.value:g} µs a hop\n"
    )
    print(format_table(assumptions))


def format_table(assumptions: Assumptions) -> str:
    """Returns the step of every workload on every cluster as a Markdown table."""
    rows = []
    for size, batch, length in WORKLOADS:
        config = create_config(size, batch, length)
        flops, parameters = model_flops_per_step(config), trainable_parameters(config)
        for cluster in CLUSTERS:
            utilization = assumptions.utilization or cluster.utilization[size]
            own = dataclasses.replace(assumptions, utilization=utilization)
            time = step_time(cluster, flops, parameters * GRADIENT_BYTES, own)
            row = [f"{size}, {batch} × {length}", cluster.name, *_cells(cluster, batch, time)]
            rows.append(row)
    header = ["rows × tokens per device", "", "compute, ms", "all-reduce, ms", "step, ms"]
    header += ["efficiency", "sequences/s"]
    return markdown_table(header, rows, text_columns=2)


def _cells(cluster: Cluster, batch: int, time: StepTime) -> list[str]:
    bounds = time.during_backward, time.after_backward
    rates = [cluster.devices * batch / seconds for seconds in reversed(bounds)]
    return [
        f"{1e3 * time.compute:.1f}",
        f"{1e3 * time.all_reduce:.1f}",
        " – ".join(f"{1e3 * seconds:.1f}" for seconds in bounds),
        " – ".join(f"{time.compute / seconds:.0%}" for seconds in reversed(bounds)),
        " – ".join(f"{float(f'{rate:.3g}'):,.0f}" for rate in rates),
    ]


def create_config(size: str, batch: int, length: int) -> PretrainingConfig:
    """Returns the configuration of a device's rows, with the paper's generator (Table 6)."""
    return PretrainingConfig.create(
        model_name="paper",
        data_dir="unused",
        model_size=size,
        generator_hidden_size=1 / 3 if size == "base" else 0.25,
        max_seq_length=length,
        train_batch_size=batch,
    )


def step_time(
    cluster: Cluster, flops: float, gradient_bytes: float, assumptions: Assumptions
) -> StepTime:
    """Returns the time of a step, by the formulas of this module.

    Args:
        cluster: the devices.
        flops: model FLOPs of one device's rows.
        gradient_bytes: of all gradients.
        assumptions: about devices and network, with a utilization.
    """
    g, h = cluster.devices_per_host, cluster.hosts
    within = ring_bytes(g, gradient_bytes) / cluster.link_bytes
    across = ring_bytes(h, gradient_bytes / g) / cluster.adapter_bytes
    transfer = (within + across) / assumptions.network_efficiency
    hops = 2 * (g - 1) + 2 * (h - 1)
    compute = flops / (assumptions.utilization * cluster.peak_flops)
    return StepTime(compute, transfer + hops * assumptions.hop_seconds)


def ring_bytes(devices: int, size: float) -> float:
    """Returns the bytes that each device of a ring sends to sum `size` bytes of all."""
    return 2 * (devices - 1) / devices * size


def trainable_parameters(config: PretrainingConfig) -> int:
    """Returns the parameters of generator and discriminator with shared embeddings."""
    discriminator, generator = discriminator_config(config), generator_config(config)
    hidden, width = discriminator.hidden_size, discriminator.embedding_size
    binary_head = hidden * hidden + hidden + hidden + 1
    # A dense layer, LayerNorm, and the biases of the shared output embeddings.
    language_model_head = (generator.hidden_size + 1) * width + 2 * width + config.vocab_size
    return (
        embedding_parameters(discriminator)
        + layer_parameters(discriminator)
        + layer_parameters(generator)
        + binary_head
        + language_model_head
    )


def embedding_parameters(encoder: EncoderConfig) -> int:
    """Returns the parameters of token, position and segment embeddings and their LayerNorm."""
    rows = encoder.vocab_size + encoder.max_position_embeddings + encoder.type_vocab_size + 2
    return rows * encoder.embedding_size


def layer_parameters(encoder: EncoderConfig) -> int:
    """Returns the parameters of an encoder's layers and of the projection to their width."""
    hidden, inner, width = (
        encoder.hidden_size,
        encoder.intermediate_size,
        encoder.embedding_size,
    )
    projection = (width + 1) * hidden if width != hidden else 0
    attention = 4 * (hidden + 1) * hidden
    feed_forward = (hidden + 1) * inner + (inner + 1) * hidden
    return projection + encoder.num_hidden_layers * (attention + feed_forward + 4 * hidden)


if __name__ == "__main__":
    program.run(main)
