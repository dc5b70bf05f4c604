"""Times of a training step by variant, as a table of rates, utilization and memory."""

import dataclasses
import statistics
from collections.abc import Mapping, Sequence

from benchmarks.pretraining_step import Answer
from benchmarks.side_by_side import spread
from electra_tf.util.console import markdown_table


@dataclasses.dataclass(frozen=True)
class Measurement:
    """The turns of one variant of one case.

    Attributes:
        variant: its name.
        seconds_per_step: one for each round.
        peak_bytes: most that was allocated on the GPU; resident memory on a CPU.
        parameters: of generator and discriminator.
        loss: of the last step.
    """

    variant: str
    seconds_per_step: tuple[float, ...]
    peak_bytes: int
    parameters: int
    loss: float


@dataclasses.dataclass(frozen=True)
class Workload:
    """What a step of a case computes: sequences, and FLOPs of the model."""

    sequences: int
    model_flops: int


def summarize(variant: str, answers: Sequence[Answer], steps: int) -> Measurement:
    """Returns the turns of `steps` steps as one measurement."""
    last = answers[-1]
    on_device = last.peak_device_bytes
    return Measurement(
        variant,
        tuple(answer.seconds / steps for answer in answers),
        last.max_rss * 1024 if on_device is None else on_device,
        last.parameters,
        last.loss,
    )


def format_table(
    workloads: Mapping[str, Workload],
    found: Mapping[str, Sequence[Measurement]],
    peak: float | None,
) -> str:
    """Returns rates, utilization and memory as a Markdown table.

    Args:
        workloads: by case.
        found: the variants of each case; the name of ours begins with "ours".
        peak: FLOPs a second of the device, or None if it is not known.
    """
    rows: list[list[str]] = []
    for case, workload in workloads.items():
        ours = [m.seconds_per_step for m in found[case] if m.variant.startswith("ours")]
        for m in found[case]:
            seconds = statistics.median(m.seconds_per_step)
            rates = [workload.sequences / s for s in m.seconds_per_step]
            flops = workload.model_flops / seconds
            rows.append(
                [
                    case,
                    m.variant,
                    f"{1000 * seconds:.1f}",
                    spread(rates, 1),
                    f"{flops / 1e12:.2f}",
                    "-" if peak is None else f"{100 * flops / peak:.1f} %",
                    f"{m.peak_bytes / 1e6:,.0f}",
                    f"{seconds / statistics.median(ours[0]):.2f}" if ours else "-",
                ]
            )
    header = ["size:batch:length", "", "ms/step", "sequences/s (range)"]
    header += ["model TFLOP/s", "utilization", "memory, MB", "ours is faster by"]
    return markdown_table(header, rows, text_columns=2)
